import * as AiSdk from "@effect-tinker/agents/AiSdk"
import * as VitestEvals from "@effect-tinker/agents/VitestEvals"
import { harness, inputs, judges } from "./prices.js"

export default AiSdk.agent({
  tasks: inputs,
  ...VitestEvals.suite({ harness: ({ model }: AiSdk.RunContext) => harness(model), judges })
})
