import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { describeEval } from "vitest-evals"
import { harness, inputs, judges } from "./prices.js"

const { MODEL_KEY: apiKey = "", MODEL_URL: baseURL = "" } = process.env

const model = createOpenAICompatible({ name: "gateway", apiKey, baseURL })("local/chat")

// The scores are the result: a low one fails no test.
describeEval("prices", { harness: harness(model), judges, judgeThreshold: null }, (it) => {
  for (const input of inputs) {
    it(input.question, async ({ expect, run }) => {
      const { output } = await run(input)
      expect(output).not.toBe("")
    })
  }
})
