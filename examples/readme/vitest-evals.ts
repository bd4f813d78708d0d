import * as AiSdk from "@effect-tinker/agents/AiSdk"
import * as VitestEvals from "@effect-tinker/agents/VitestEvals"
import type { LanguageModel } from "ai"

// What the suite imports too: `describeEval("support", { harness: harness(openai("gpt-5")), judges }, …)`.
declare const inputs: ReadonlyArray<string>
declare const harness: (model: LanguageModel) => VitestEvals.Harness<string>
declare const judges: ReadonlyArray<VitestEvals.Judge<VitestEvals.JudgeContext<string>>>

export default AiSdk.agent({
  tasks: inputs,
  ...VitestEvals.suite({ harness: ({ model }: AiSdk.RunContext) => harness(model), judges })
})
