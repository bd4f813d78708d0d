import { Client, RunTree } from "langsmith"
import { answer, beginning, history, type Log, question, toolCall } from "./shared.js"

export const log: Log = async (url, conversations) => {
  const client = new Client({ apiUrl: url, apiKey: "k", autoBatchTracing: false })
  for (const one of conversations) {
    const metadata = { session_id: one.session, ls_model_name: "gpt-4o" }
    const run = new RunTree({ name: "agent", run_type: "chain", inputs: { question: question(one) }, client, metadata })
    await run.postRun()
    const call = async (messages: unknown, message: unknown) => {
      const child = run.createChild({ name: "ChatOpenAI", run_type: "llm", inputs: { messages }, metadata })
      await child.postRun()
      await child.end({
        choices: [{ message }],
        usage_metadata: { input_tokens: 10, output_tokens: 3, total_tokens: 13 }
      })
      await child.patchRun()
    }
    await call(beginning(one), { role: "assistant", content: "", tool_calls: [toolCall(one)] })
    await call(history(one), { role: "assistant", content: answer(one) })
    await run.end({ answer: answer(one) })
    await run.patchRun()
    await client.createFeedback(run.id, "thumb", { score: one.thumb, comment: "seen", sessionId: run.id })
  }
}
