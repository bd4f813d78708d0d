/**
 * Agents: what the recording gateway adds to the latency of a sample, and what many rollouts at once take of memory.
 */
import { AgentModel, Recorder, Sampler } from "@effect-tinker/agents"
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Renderers, Tokenizers } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { Effect, Redacted, Schema } from "effect"
import { SamplingClient } from "effect-tinker"
import { fileURLToPath } from "node:url"
import type { Bench } from "./Bench.js"
import { BenchFailed, median, round, sized } from "./Bench.js"
import * as Program from "./Program.js"

const maxTokens = 64
/** A gateway lives for hours: it is measured once its code is compiled, which takes about a thousand calls. */
const warmup = sized(1000, 4)
const pairs = sized(60, 4)

const rollouts = sized(500, 10)
const turns = 6
const rounds = sized(3, 1)

/** How long the sampler of the rollouts takes, in milliseconds. */
const sampleTime = 50

/** Tokens of all rollouts that the recorder may hold; together they have several times as many. */
const residentTokens = 20_000

const Figures = Schema.parseJson(Schema.Struct({
  calls: Schema.Number,
  tokens: Schema.Number,
  peak: Schema.Number,
  held: Schema.Number,
  used: Schema.Number,
  cpu: Schema.Number
}))

interface ChatMessage {
  readonly role: string
  readonly content: string
}

const Completion = Schema.parseJson(Schema.Struct({
  choices: Schema.NonEmptyArray(Schema.Struct({ message: Schema.Struct({ content: Schema.NullOr(Schema.String) }) })),
  usage: Schema.Struct({
    completion_tokens: Schema.Number,
    prompt_tokens_details: Schema.Struct({ cached_tokens: Schema.Number })
  })
}))

/** What a turn of an agent has in front of it. */
const tools = ["find_order", "cancel_order"].map((name) => ({
  name,
  description: `${name === "find_order" ? "Look up" : "Cancel"} an order.`,
  parameters: { type: "object", properties: { order_id: { type: "string" } }, required: ["order_id"] }
}))

const failed = (error: unknown) => new BenchFailed({ reason: String(error) })

const ask = Effect.fnUntraced(function*(
  gateway: { readonly url: string; readonly apiKey: string },
  rollout: string,
  messages: ReadonlyArray<ChatMessage>,
  options: object
) {
  const text = yield* Effect.tryPromise({
    try: async () => {
      const response = await fetch(`${gateway.url}/rollouts/${rollout}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${gateway.apiKey}` },
        body: JSON.stringify({ messages, max_tokens: maxTokens, ...options })
      })
      return await response.text()
    },
    catch: failed
  })
  return yield* Effect.mapError(Schema.decode(Completion)(text), () => failed(text))
})

const timed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const start = performance.now()
    const value = yield* effect
    return [performance.now() - start, value] as const
  })

const megabytes = (bytes: number) => Math.round(bytes / 1024 / 1024)

export const bench: Bench = {
  summary: `${pairs} turns of an agent with tools, directly and through the gateway; ` +
    `${rollouts} rollouts of ${turns} turns at once`,
  run: Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped()
    const client = yield* SamplingClient.make({ baseModel: "local/chat" })
    const tokenizer = yield* (yield* Tokenizers.Tokenizers).forModel("local/chat")
    const renderer = yield* Renderers.forModel("local/chat", tokenizer)
    const recorder = yield* Recorder.makeDirectory(`${directory}/pairs`)
    const running = yield* AgentModel.make({ renderer, sampler: Sampler.fromClient(client), contextWindow: 1024 }).pipe(
      Effect.flatMap((model) =>
        Effect.provideService(
          NodeGateway.serve({ model: "local/chat", onRollout: () => Effect.void }),
          AgentModel.AgentModel,
          model
        )
      ),
      Effect.provideService(Recorder.Recorder, recorder)
    )
    const gateway = { url: running.url, apiKey: Redacted.value(running.apiKey) }

    // One after the other, the same turn of an agent with the same seed both ways, in turns: two tools, a question, and a
    // call of a tool as the answer.
    const question = { role: "user", content: "Where is my order K307?" }
    const prompt = yield* renderer.generationPrompt([...yield* renderer.toolMessages(tools), question])
    const direct = (seed: number) =>
      timed(client.sample({ prompt, maxTokens, seed, stop: renderer.stop })).pipe(
        Effect.map(([ms, { sequences }]) => [ms, sequences[0]?.tokens.length] as const)
      )
    const through = (seed: number) =>
      timed(
        ask(gateway, `pair-${seed}`, [question], {
          seed,
          tools: tools.map((one) => ({ type: "function", function: one }))
        })
      ).pipe(
        Effect.map(([ms, { usage }]) => [ms, usage.completion_tokens] as const)
      )
    const latencies: Array<readonly [direct: number, gateway: number]> = []
    for (let seed = -warmup; seed < pairs; seed++) {
      const own = seed + warmup
      const [first, second] = seed % 2 === 0
        ? [yield* direct(own), yield* through(own)]
        : [yield* through(own), yield* direct(own)].reverse()
      if (first?.[1] !== second?.[1]) return yield* failed("the two ways sampled different answers")
      if (seed >= 0) latencies.push([first?.[0] ?? NaN, second?.[0] ?? NaN])
    }
    const p50 = (side: 0 | 1) => median(latencies.map((pair) => pair[side]))

    // Many at once, over a gateway in another process whose sampler only waits: what is measured is the gateway, not
    // the model or the clients.
    const other = yield* Program.start(
      process.execPath,
      "--expose-gc",
      fileURLToPath(new URL("./agents/gateway.js", import.meta.url)),
      fileURLToPath(new URL("../../local/models/chat", import.meta.url)),
      `${directory}/load`,
      String(residentTokens),
      String(sampleTime)
    )
    const [url = "", apiKey = ""] = (yield* other.ask("where")).split(" ")
    const figures = (line: string) => Effect.flatMap(other.ask(line), Schema.decode(Figures))
    let spliced = 0
    const load = (rollout: string) =>
      Effect.gen(function*() {
        const messages: Array<ChatMessage> = []
        for (let turn = 0; turn < turns; turn++) {
          messages.push({ role: "user", content: `How much is ${rollout} + ${turn}?` })
          const { choices: [{ message }], usage } = yield* ask({ url, apiKey }, rollout, messages, {})
          if (usage.prompt_tokens_details.cached_tokens > 0) spliced++
          messages.push({ role: "assistant", content: message.content ?? "" })
        }
      })
    const idle = yield* figures("figures")
    let before = idle.cpu
    const loads: Array<typeof Figures.Type & { readonly millis: number }> = []
    for (let n = 0; n < rounds; n++) {
      const names = Array.from({ length: rollouts }, (_, rollout) => `${n}-${rollout}`)
      const [millis] = yield* timed(Effect.forEach(names, load, { concurrency: "unbounded", discard: true }))
      const after = yield* figures("release")
      if (after.calls !== rollouts * turns) return yield* failed(`${after.calls} calls were recorded`)
      loads.push({ ...after, millis, cpu: after.cpu - before })
      before = after.cpu
    }
    const first = loads[0] ?? { ...idle, millis: NaN }
    const last = loads.at(-1) ?? first
    const held = Math.max(...loads.map((load) => load.held))
    const rows = loads.map(({ cpu, millis, peak, used }, n) => [
      `${rollouts} rollouts, round ${n + 1}`,
      "",
      (1000 * rollouts * turns / millis).toFixed(0),
      (1000 * cpu / rollouts / turns).toFixed(2),
      `${megabytes(idle.peak)} → ${megabytes(peak)}`,
      String(megabytes(used))
    ])
    return {
      table: [
        ["", "p50 (ms)", "calls/s", "CPU (ms/call)", "peak RSS (MiB)", "in use after (MiB)"],
        ["direct", p50(0).toFixed(1), "", "", "", ""],
        ["gateway", p50(1).toFixed(1), "", "", "", ""],
        ...rows
      ],
      ratios: {
        gateway_to_direct: round(p50(1) / p50(0)),
        held_to_recorded: round(held / first.tokens),
        growth: round(last.used / first.used)
      },
      notes: [
        "`gateway_to_direct`: median latency over HTTP, rendered, parsed and recorded to disk, of a bare `sample`; lower is better, at most 1.3 wanted. " +
        `Both after ${warmup} pairs that are not counted.`,
        `\`held_to_recorded\`: tokens the recorder held at most, of all that the calls of a round had; its limit was ${residentTokens}.`,
        "`growth`: memory in use after the last round to that after the first one, with all rollouts released; 1 is no growth.",
        `${spliced} of ${rounds * rollouts * (turns - 1)} follow-ups continued the sampled ids. ` +
        `The gateway of the rollouts is another process, and its sampler waits ${sampleTime} ms.`
      ]
    }
  }).pipe(
    Effect.provide(NodeTinkerLocal.layerInProcess({ threads: 2 })),
    Effect.mapError((error) => error._tag === "BenchFailed" ? error : failed(error))
  )
}
