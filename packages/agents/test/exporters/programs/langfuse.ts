import { LangfuseClient } from "@langfuse/client"
import { LangfuseSpanProcessor } from "@langfuse/otel"
import { propagateAttributes, setLangfuseTracerProvider, startObservation } from "@langfuse/tracing"
import { context } from "@opentelemetry/api"
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks"
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node"
import { Langfuse } from "langfuse"
import { answer, beginning, history, type Log, question, toolCall } from "./shared.js"

const keys = { publicKey: "pk", secretKey: "sk" }

export const three: Log = async (url, conversations) => {
  const langfuse = new Langfuse({ ...keys, baseUrl: url })
  for (const one of conversations) {
    const trace = langfuse.trace({ name: "chat", sessionId: one.session, input: question(one), tags: ["production"] })
    const usage = { input: 10, output: 3 }
    const first = trace.generation({ name: "llm", model: "gpt-4o", input: beginning(one), usage })
    first.end({ output: { role: "assistant", content: null, tool_calls: [toolCall(one)] } })
    const second = trace.generation({ name: "llm", model: "gpt-4o", input: history(one), usage })
    second.end({ output: { role: "assistant", content: answer(one) } })
    trace.score({ name: "user-feedback", value: one.thumb, comment: "seen" })
  }
  await langfuse.shutdownAsync()
}

export const five: Log = async (url, conversations) => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  const provider = new NodeTracerProvider({ spanProcessors: [new LangfuseSpanProcessor({ ...keys, baseUrl: url })] })
  setLangfuseTracerProvider(provider)
  const client = new LangfuseClient({ ...keys, baseUrl: url })
  for (const one of conversations) {
    const trace = propagateAttributes({ sessionId: one.session }, () => {
      const span = startObservation("agent")
      const details = { usageDetails: { input: 10, output: 3 }, costDetails: { total: 0.5 } }
      const of = (input: unknown) =>
        span.startObservation("llm", { model: "gpt-4o", input, ...details }, { asType: "generation" })
      of(beginning(one)).update({ output: { role: "assistant", content: null, tool_calls: [toolCall(one)] } }).end()
      of(history(one)).update({ output: { role: "assistant", content: answer(one) } }).end()
      span.end()
      return span.traceId
    })
    client.score.create({ traceId: trace, name: "user-feedback", value: one.thumb })
  }
  await provider.shutdown()
  await client.score.flush()
}
