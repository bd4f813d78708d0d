/**
 * What the suite evaluates and what the agent is trained on: inputs, harness and judges.
 */
import type { LanguageModel } from "ai"
import { generateText, stepCountIs, tool } from "ai"
import type { Harness } from "vitest-evals/harness"
import { createHarness, normalizeRecord } from "vitest-evals/harness"
import type { Judge, JudgeContext } from "vitest-evals/judges"
import { ToolCallJudge } from "vitest-evals/judges"
import { z } from "zod"

export interface Price {
  readonly question: string
  readonly price: number
}

const prices: Readonly<Record<string, number>> = { lamp: 496, chair: 83, table: 250, clock: 31 }

// The tool does not know the last one.
export const inputs: ReadonlyArray<Price> = Object.entries({ ...prices, mirror: 77 }).map(([item, price]) => ({
  question: `What is the price of the ${item}?`,
  price
}))

const getPrice = tool({
  description: "Get the price of an item.",
  inputSchema: z.object({ item: z.string() }),
  execute: ({ item }) => ({ value: prices[item] ?? 0 })
})

export const harness = (model: LanguageModel): Harness<Price, string> =>
  createHarness<Price, string>({
    name: "prices",
    run: async ({ input: { question }, signal }) => {
      const { steps, text } = await generateText({
        model,
        prompt: question,
        tools: { get_price: getPrice },
        stopWhen: stepCountIs(3),
        ...(signal === undefined ? {} : { abortSignal: signal })
      })
      const calls = steps.flatMap(({ staticToolCalls }) =>
        staticToolCalls.map(({ input, toolCallId, toolName }) => ({
          type: "tool_call" as const,
          id: toolCallId,
          name: toolName,
          arguments: normalizeRecord(input)
        }))
      )
      return {
        output: text,
        events: [
          { type: "message", role: "user", content: question },
          ...calls,
          { type: "message", role: "assistant", content: text }
        ]
      }
    }
  })

type Context = JudgeContext<Price, string, Harness<Price, string>>

const right: Judge<Context> = {
  name: "right",
  assess: ({ input, output }) => ({ score: output.includes(String(input.price)) ? 1 : 0 })
}

const brief: Judge<Context> = {
  name: "brief",
  assess: ({ output }) => ({ score: 1 / (1 + output.length) })
}

export const judges = [right, brief, ToolCallJudge({ expectedTools: ["get_price"] })]
