import { Agent } from "@effect-tinker/agents"
import * as AiSdk from "@effect-tinker/agents/AiSdk"
import * as VitestEvals from "@effect-tinker/agents/VitestEvals"
import { Policy, Rollout } from "@effect-tinker/cookbook"
import { assert, describe, it } from "@effect/vitest"
import type { HarnessRun } from "@vitest-evals/core"
import { generateText, stepCountIs, tool } from "ai"
import { Array, Effect } from "effect"
import { z } from "zod"
import { callOf, chatRenderer } from "./support/chat.js"

interface Sum {
  readonly question: string
  readonly answer: number
}

/** A harness as vitest-evals has them: it reports what was said, and the calls of tools. */
const harness = ({ model }: AiSdk.RunContext): VitestEvals.Harness<Sum, HarnessRun<string>> => ({
  name: "sums",
  run: async ({ question }, context) => {
    const add = tool({
      description: "Adds two numbers",
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      execute: ({ a, b }) => a + b
    })
    const { steps, text } = await generateText({
      model,
      prompt: question,
      tools: { add },
      stopWhen: stepCountIs(3),
      ...(context.signal === undefined ? {} : { abortSignal: context.signal })
    })
    context.setArtifact("steps", steps.length)
    return {
      output: text,
      session: {
        events: [
          { type: "message", role: "user", content: question },
          ...steps.flatMap(({ toolCalls }) =>
            toolCalls.map(({ input, toolCallId, toolName }) => ({
              type: "tool_call" as const,
              id: toolCallId,
              name: toolName,
              arguments: JSON.parse(JSON.stringify(input))
            }))
          ),
          { type: "message", role: "assistant", content: text }
        ]
      },
      usage: {},
      artifacts: context.artifacts,
      errors: []
    }
  }
})

type Context = VitestEvals.JudgeContext<Sum, HarnessRun<string>>

const judges: ReadonlyArray<VitestEvals.Judge<Context>> = [
  { name: "right", assess: ({ input, output }) => ({ score: output.includes(String(input.answer)) ? 1 : 0 }) },
  {
    name: "tools",
    assess: async ({ run, toolCalls }) => ({
      score: toolCalls.length === Number(run.artifacts?.["steps"]) - 1 ? 0.5 : 0
    })
  },
  { name: "unscored", assess: () => ({ score: null }) }
]

const agent = AiSdk.agent({
  tasks: [{ question: "1+2?", answer: 3 }],
  ...VitestEvals.suite({ harness, judges })
})

const runOf = Effect.fnUntraced(function*(texts: Array.NonEmptyReadonlyArray<string>) {
  const renderer = yield* chatRenderer
  const said = Array.map(
    texts,
    (text) => renderer.tokenizer.encode(`${text}<|im_end|>`, { addSpecialTokens: false, parseSpecial: "all" })
  )
  const runs: globalThis.Array<Agent.Run<Sum, unknown>> = []
  const problem = Agent.problem(agent, { question: "1+2?", answer: 3 }, {
    onRun: (run) => Effect.sync(() => runs.push(run))
  })
  yield* Effect.scoped(Effect.flatMap(
    problem.make({ renderer }),
    (environment) => Rollout.run(Policy.fromScript(said), environment)
  ))
  return runs.map(({ metrics, reward }) => [reward, metrics["judge/right"], metrics["judge/tools"]])
})

describe("VitestEvals", () => {
  it.effect("the judges of a suite are the reward of its harness's runs", () =>
    Effect.gen(function*() {
      const call = callOf("{\"a\": 1, \"b\": 2}")
      assert.deepStrictEqual(yield* runOf([call, "It is 3."]), [[0.75, 1, 0.5]])
      assert.deepStrictEqual(yield* runOf([call, "It is 4."]), [[0.25, 0, 0.5]])
    }))

  it.effect("a suite in which no judge scores is worth nothing", () =>
    Effect.gen(function*() {
      const { score } = VitestEvals.suite({ harness, judges: judges.slice(2) })
      const run: HarnessRun<string> = { output: "", session: { events: [] }, usage: {}, errors: [] }
      const given = yield* Effect.promise(() =>
        score({ question: "", answer: 0 }, { harness: { name: "sums", run: () => Promise.resolve(run) }, run })
      )
      assert.deepStrictEqual(given, { score: null, metrics: {} })
    }))
})
