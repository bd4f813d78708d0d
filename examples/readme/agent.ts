import * as AiSdk from "@effect-tinker/agents/AiSdk"
import { ToolLoopAgent } from "ai"

export default AiSdk.agent({
  tasks: [{ question: "What is 2 + 3?", answer: "5" }],
  run: ({ question }, { model, signal }) =>
    new ToolLoopAgent({ model }).generate({ prompt: question, abortSignal: signal }),
  score: ({ answer }, { text }) => text.includes(answer)
})
