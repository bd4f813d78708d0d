/**
 * Agents: what the recording gateway adds to the latency of a sample, and what many rollouts at once take of memory.
 */
import { AgentModel, Recorder } from "@effect-tinker/agents"
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Renderers, Tokenizers } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { Effect, Redacted, Schema } from "effect"
import { SamplingClient } from "effect-tinker"
import type { Bench } from "./Bench.js"
import { BenchFailed, median, round } from "./Bench.js"

const maxTokens = 32
const warmup = 10
const pairs = 60

const rollouts = 500
const turns = 6

/** How long the sampler of the rollouts takes. */
const sampleTime = "50 millis"

/** Tokens of all rollouts that the recorder may hold; together they have several times as many. */
const residentTokens = 100_000

interface ChatMessage {
  readonly role: string
  readonly content: string
}

const Completion = Schema.parseJson(Schema.Struct({
  choices: Schema.NonEmptyArray(Schema.Struct({ message: Schema.Struct({ content: Schema.String }) })),
  usage: Schema.Struct({
    completion_tokens: Schema.Number,
    prompt_tokens_details: Schema.Struct({ cached_tokens: Schema.Number })
  })
}))

const failed = (error: unknown) => new BenchFailed({ reason: String(error) })

const ask = Effect.fnUntraced(function*(
  gateway: NodeGateway.Running,
  rollout: string,
  messages: ReadonlyArray<ChatMessage>,
  options: object
) {
  const text = yield* Effect.tryPromise({
    try: async () => {
      const response = await fetch(`${gateway.rolloutUrl(rollout)}/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${Redacted.value(gateway.apiKey)}` },
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
  summary: `${pairs} samples of up to ${maxTokens} tokens, directly and through the gateway; ` +
    `${rollouts} rollouts of ${turns} turns at once`,
  run: Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped()
    const client = yield* SamplingClient.make({ baseModel: "local/chat" })
    const tokenizer = yield* (yield* Tokenizers.Tokenizers).forModel("local/chat")
    const renderer = yield* Renderers.forModel("local/chat", tokenizer)
    const recorder = yield* Recorder.makeDirectory(directory, { maxTokens: residentTokens })
    const serve = (sampler: AgentModel.Sampler) =>
      AgentModel.make({ renderer, sampler, contextWindow: 1024 }).pipe(
        Effect.flatMap((model) =>
          Effect.provideService(NodeGateway.serve({ model: "local/chat" }), AgentModel.AgentModel, model)
        ),
        Effect.provideService(Recorder.Recorder, recorder)
      )
    const gateway = yield* serve(AgentModel.sampler(client))

    // One after the other, the same question with the same seed both ways, in turns.
    const question = { role: "user", content: "How much is 3 + 31 + 34?" }
    const prompt = yield* renderer.generationPrompt([question])
    const direct = (seed: number) =>
      timed(client.sample({ prompt, maxTokens, seed, stop: renderer.stop })).pipe(
        Effect.map(([ms, { sequences }]) => [ms, sequences[0]?.tokens.length] as const)
      )
    const through = (seed: number) =>
      timed(ask(gateway, `pair-${seed}`, [question], { seed })).pipe(
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

    // Many at once, over a sampler that only waits: what is measured is the gateway, not the model.
    const answer = tokenizer.encode("It is more than that.<|im_end|>", { addSpecialTokens: false })
    const logprobs = new Float32Array(answer.length).fill(-1)
    const busy = yield* serve({
      sample: () =>
        Effect.delay(
          Effect.succeed([{ tokens: answer, logprobs, stopReason: "stop" as const, policyVersion: 0 }]),
          sampleTime
        )
    })
    let peak = 0
    let resident = 0
    const watch = setInterval(() => {
      peak = Math.max(peak, process.memoryUsage().rss)
      resident = Math.max(resident, Effect.runSync(recorder.size).tokens)
    }, 20)
    yield* Effect.addFinalizer(() => Effect.sync(() => clearInterval(watch)))
    const before = process.memoryUsage().rss
    const spliced: Array<number> = []
    const load = (rollout: number) =>
      Effect.gen(function*() {
        const messages: Array<ChatMessage> = []
        for (let turn = 0; turn < turns; turn++) {
          messages.push({ role: "user", content: `How much is ${rollout} + ${turn}?` })
          const { choices: [{ message }], usage } = yield* ask(busy, `load-${rollout}`, messages, {})
          if (usage.prompt_tokens_details.cached_tokens > 0) spliced.push(turn)
          messages.push({ role: "assistant", content: message.content })
        }
      })
    const [millis] = yield* timed(
      Effect.forEach(Array.from({ length: rollouts }, (_, n) => n), load, { concurrency: "unbounded", discard: true })
    )
    let tokens = 0
    for (let n = 0; n < rollouts; n++) {
      const { calls } = yield* recorder.release(`load-${n}`)
      if (calls.length !== turns) return yield* failed(`rollout ${n} has ${calls.length} calls`)
      for (const { turn } of calls) tokens += turn.prompt.length + turn.completion.length
    }
    return {
      table: [
        ["", "p50 (ms)", "calls/s", "peak RSS (MiB)", "tokens held", "of"],
        ["direct", p50(0).toFixed(1), "", "", "", ""],
        ["gateway", p50(1).toFixed(1), "", "", "", ""],
        [
          `${rollouts} rollouts`,
          "",
          (1000 * rollouts * turns / millis).toFixed(0),
          `${megabytes(before)} → ${megabytes(peak)}`,
          String(resident),
          String(tokens)
        ]
      ],
      ratios: {
        gateway_to_direct: round(p50(1) / p50(0)),
        held_to_recorded: round(resident / tokens)
      },
      notes: [
        "`gateway_to_direct`: median latency over HTTP, rendered, parsed and recorded to disk, of a bare `sample`; lower is better, at most 1.3 wanted.",
        `\`held_to_recorded\`: tokens the recorder held at most, of all it recorded; its limit was ${residentTokens}. ` +
        `${spliced.length} of ${
          rollouts * (turns - 1)
        } follow-ups continued the sampled ids. Clients and gateway share the process; the rollouts' sampler waits ${sampleTime}.`
      ]
    }
  }).pipe(
    Effect.provide(NodeTinkerLocal.layerInProcess({ threads: 2 })),
    Effect.mapError((error) => error._tag === "BenchFailed" ? error : failed(error))
  )
}
