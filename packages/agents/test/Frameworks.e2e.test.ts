import { AgentModel, Recorder, Sampler } from "@effect-tinker/agents"
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import { Trajectory } from "@effect-tinker/cookbook"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SamplingClient } from "effect-tinker"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { install } from "../../../.ci/install.mjs"
import type { Converse } from "./frameworks/agents/city.js"
import { chatRenderer, Local } from "./support/chat.js"
import { gateway } from "./support/gateway.js"

const directory = fileURLToPath(new URL("./frameworks", import.meta.url))
const { missing } = await install("packages/agents/test/frameworks")

/** The agents, by what the guide calls them: each is a module, one of its exports, and why its calls fork, if they do. */
const agents: ReadonlyArray<readonly [name: string, module: string, agent: string, forks?: string]> = [
  ["Anthropic SDK 1", "anthropic", "converse"],
  ["AI SDK 7, `@ai-sdk/openai` (Responses)", "ai-sdk-7", "responses"],
  ["AI SDK 7, `@ai-sdk/openai` (chat)", "ai-sdk-7", "chat"],
  ["AI SDK 7, `@ai-sdk/openai-compatible`", "ai-sdk-7", "compatible"],
  ["AI SDK 7, `@ai-sdk/anthropic`", "ai-sdk-7", "anthropic"],
  ["AI SDK 7, history from `response.messages`", "ai-sdk-7", "lastStep", "MessageEdited"],
  ["AI SDK 6, `@ai-sdk/openai` (Responses)", "ai-sdk-6", "responses"],
  ["AI SDK 6, `@ai-sdk/openai` (chat)", "ai-sdk-6", "chat"],
  ["OpenAI Agents JS 0.20 (Responses)", "openai-agents", "responses"],
  ["OpenAI Agents JS 0.20 (chat)", "openai-agents", "chat"],
  ["LangChain 1.5, `ChatOpenAI`", "langchain", "chat"],
  ["LangChain 1.5, `ChatOpenAI` (Responses)", "langchain", "responses"],
  ["LangChain 1.5, `ChatAnthropic`", "langchain", "anthropic"],
  ["LangGraph 1.4, `ChatOpenAI`", "langgraph", "converse"],
  ["Mastra 1.71", "mastra", "converse"],
  ["Effect AI 0.37, `@effect/ai-openai`", "effect-ai", "responses"],
  ["Effect AI 0.37, `@effect/ai-anthropic`", "effect-ai", "anthropic"]
]

const call = (name: string, args: string) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`

const think = (thought: string) => `<think>\n${thought}\n</think>\n\n`

/** What the model writes: with spaces in arguments that no client writes the same way again. */
const script = [
  `${think("Two tools.")}Let me look.\n${call("weather", "{\"city\":  \"Oslo\"}")}\n` +
  call("population", "{ \"city\": \"Oslo\" }"),
  `${think("Both are there.")}It has 4 degrees, and 4000 people live there.`,
  call("weather", "{\"city\":\"Bergen\" }"),
  `${think("Warmer.")}It has 6 degrees.`,
  "You are welcome."
]
const answers = ["It has 4 degrees, and 4000 people live there.", "It has 6 degrees.", "You are welcome."]

const load = (module: string, agent: string): Effect.Effect<Converse> =>
  Effect.promise(async () => (await import(`${directory}/agents/${module}.ts`))[agent])

/** A conversation of an agent with a model that writes the script: what was recorded of it. */
const run = (converse: Converse, stream: boolean) =>
  Effect.gen(function*() {
    const running = yield* gateway(script)
    const apiKey = Redacted.value(yield* running.rolloutKey("run"))
    const said = yield* Effect.promise(() =>
      converse({ baseURL: `${running.url}/v1`, anthropicBaseURL: running.url, apiKey, stream })
    )
    const { calls } = yield* (yield* Recorder.Recorder).rollout("run")
    return { said, calls, summary: Recorder.summarize(calls) }
  }).pipe(Effect.scoped, Effect.provide(Recorder.layer()))

const rows: Array<string> = []

describe.skipIf(missing !== undefined)("agents written as the documentation of their framework teaches", () => {
  for (const [name, module, agent, reason] of agents) {
    it.live(`${name}: three turns with two tools, whole and streamed`, () =>
      Effect.gen(function*() {
        const converse = yield* load(module, agent)
        let [continued, forked] = [0, 0]
        for (const stream of [false, true]) {
          const { calls, said, summary } = yield* run(converse, stream)
          assert.deepStrictEqual(said, answers)
          assert.strictEqual(calls.length, script.length)
          assert.strictEqual(summary.roots, 1)
          // both results of the two calls at once are in the next prompt
          const results = (calls[1]?.turn.messages ?? []).filter(({ role }) => role === "tool")
          assert.strictEqual(results.length, 2)
          for (const n of [4, 4000]) assert(results.some(({ content }) => String(content).includes(String(n))))
          assert.deepStrictEqual(Object.keys(summary.forked), reason === undefined ? [] : [reason])
          continued += summary.spliced
          forked += script.length - 1 - summary.spliced
          const sampled = calls.reduce((sum, { turn }) => sum + turn.completion.length, 0)
          const trained = Trajectory.toRows(Recorder.toTrajectory(calls, { reward: 1 }), 1)
          assert.strictEqual(trained.flatMap(({ mask }) => Array.from(mask)).filter((one) => one === 1).length, sampled)
          assert.strictEqual(trained.length, forked === 0 ? 1 : 1 + summary.calls - 1 - summary.spliced)
        }
        const why = reason === undefined ? "0" : `${forked} ${reason}`
        // unmodified, streamed, with parallel calls: the assertions above hold
        rows.push(
          `| ${name} | yes | yes | yes | ${2 * answers.length} | ${2 * script.length} | ${continued} | ${why} |`
        )
      }), 120_000)
  }

  it.scopedLive(
    "`local/chat` itself: every call of an agent on Anthropic's SDK continues the one before",
    () =>
      Effect.gen(function*() {
        const converse = yield* load("anthropic", "converse")
        const client = yield* SamplingClient.make({ baseModel: "local/chat" })
        const defaults = { temperature: 0, seed: 1 }
        const sampler = Sampler.fromClient(client)
        const model = yield* AgentModel.make({ renderer: yield* chatRenderer, sampler, contextWindow: 1024, defaults })
        const { anthropicUrl, rolloutKey } = yield* NodeGateway.serve({ model: "m", onRollout: () => Effect.void })
          .pipe(
            Effect.provideService(AgentModel.AgentModel, model)
          )
        const apiKey = Redacted.value(yield* rolloutKey("local"))
        const anthropicBaseURL = anthropicUrl("local")
        const said = yield* Effect.promise(() => converse({ baseURL: "", anthropicBaseURL, apiKey, stream: true }))
        assert.strictEqual(said.length, 3)
        const { calls } = yield* (yield* Recorder.Recorder).rollout("local")
        assert.isAtLeast(calls.length, 3)
        const { forked, roots, spliced } = Recorder.summarize(calls)
        assert.deepStrictEqual({ forked, roots, spliced }, { forked: {}, roots: 1, spliced: calls.length - 1 })
      }).pipe(Effect.provide([Recorder.layer(), Local])),
    120_000
  )

  it("the table of the guide is that of this run", () => {
    const guide = readFileSync(new URL("../../../docs/agents.md", import.meta.url), "utf8")
    const isRow = (line: string) => agents.some(([name]) => line.startsWith(`| ${name} |`))
    assert.deepStrictEqual(guide.split("\n").filter(isRow), rows)
  })
})
