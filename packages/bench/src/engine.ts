/**
 * Training and sampling on the embedded backend's models: our kernels, the same model in a library, our kernels without
 * WebAssembly, and worker threads, with native kernels where they run, beside PyTorch with as many.
 */
import { Engine, LocalModel } from "@effect-tinker/local"
import * as NodeEngine from "@effect-tinker/local/NodeEngine"
import { Context, Effect, Layer, Option } from "effect"
import type { Bench, Result, Variant } from "./Bench.js"
import { BenchFailed, interleaved, isSmoke, median, round, sized } from "./Bench.js"
import * as jax from "./engineJax.js"
import { duringQuickstart, longestWait, whileIdle } from "./engineLoop.js"
import { batch, data, length, rank } from "./engineStep.js"
import * as torch from "./engineTorch.js"
import * as Program from "./Program.js"
import type { Delay } from "./turns.js"

const SAMPLES = 16
const SAMPLED = sized(64, 4)
const PROMPT = sized(768, 64)

const tokensPerPass = batch * length

const cpu = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1000
}

const timed = <E>(name: string, work: Effect.Effect<unknown, E>): Variant<BenchFailed> => ({
  name,
  once: Effect.suspend(() => {
    const start = cpu()
    return Effect.map(work, () => cpu() - start)
  }).pipe(Effect.mapError((error) => new BenchFailed({ reason: `${name}: ${String(error)}` })))
})

const library = (name: string, work: () => Promise<number>): Variant<BenchFailed> =>
  timed(name, Effect.tryPromise(work))

/** A whole step: passes in both directions, the optimizer, and the new weights brought into place. */
const ownTraining = Effect.fnUntraced(function*(mode: "wasm" | "js", model: LocalModel.LocalModel) {
  const engine = yield* Engine.make({ mode })
  const adapter = yield* engine.createAdapter({ baseModel: model.name, rank, seed: 1 })
  return timed(
    mode,
    Effect.zipRight(adapter.forwardBackward({ data, loss: "cross_entropy" }), adapter.optimStep())
  )
})

const ownSampling = Effect.fnUntraced(function*(mode: "wasm" | "js", model: LocalModel.LocalModel) {
  const engine = yield* Engine.make({ mode })
  const sampler = yield* engine.sampler(model.name)
  return timed(
    mode,
    sampler.sample({ prompt: [97], numSamples: SAMPLES, params: { maxTokens: SAMPLED, seed: 1, stop: [] } })
  )
})

const training = Effect.fnUntraced(function*(model: LocalModel.LocalModel) {
  return yield* interleaved([
    yield* ownTraining("wasm", model),
    library("jax-js", jax.trainer(model, batch, length, rank)),
    yield* ownTraining("js", model)
  ], { rounds: 5, warmup: 2 })
})

const sampling = Effect.fnUntraced(function*(model: LocalModel.LocalModel) {
  return yield* interleaved([
    yield* ownSampling("wasm", model),
    library("jax-js", jax.sampler(model, SAMPLES, SAMPLED)),
    yield* ownSampling("js", model)
  ], { rounds: 3, warmup: 2 })
})

/** The next turn of a long chat: eight tokens to a prompt whose beginning was read before, and to one that is new. */
const prefixes = Effect.fnUntraced(function*(model: LocalModel.LocalModel) {
  const engine = yield* Engine.make()
  const sampler = yield* engine.sampler(model.name)
  let turns = 0
  const turn = (name: string, first: () => number) =>
    timed(
      name,
      Effect.suspend(() => {
        const tokens = Int32Array.from({ length: PROMPT }, (_, i) => (i * 37 + ((i * i) % 53)) % 256)
        tokens[0] = first()
        tokens[PROMPT - 16] = ++turns % 256
        return sampler.sample({ prompt: tokens, params: { maxTokens: 8, seed: 1, stop: [] } })
      })
    )
  const results = yield* interleaved(
    [turn("shared", () => 0), turn("new", () => 1 + turns % 255)],
    { rounds: 9, warmup: 3 }
  )
  return results.get("new")?.relative ?? NaN
})

const byTheClock = <E extends Error>(name: string, work: Effect.Effect<unknown, E>): Variant<BenchFailed> => ({
  name,
  once: Effect.suspend(() => {
    const start = performance.now()
    return Effect.map(work, () => performance.now() - start)
  }).pipe(Effect.mapError((error) => new BenchFailed({ reason: `${name}: ${error.message}` })))
})

/** Worker threads, as the server uses them. */
const threaded = Effect.fnUntraced(function*(
  model: LocalModel.LocalModel,
  threads: number,
  mode: "native" | "wasm" = "native"
) {
  const engine = Context.get(yield* Layer.build(NodeEngine.layer({ models: [model], threads, mode })), Engine.Engine)
  const adapter = yield* engine.createAdapter({ baseModel: model.name, rank, seed: 1 })
  const sampler = yield* engine.sampler(model.name)
  const name = mode === "wasm" ? "wasm" : `ours ${threads}`
  return {
    mode: engine.mode,
    train: byTheClock(
      name,
      Effect.zipRight(adapter.forwardBackward({ data, loss: "cross_entropy" }), adapter.optimStep())
    ),
    sample: byTheClock(
      name,
      sampler.sample({ prompt: [97], numSamples: SAMPLES, params: { maxTokens: SAMPLED, seed: 1, stop: [] } })
    )
  }
})

/** What a training step has to multiply and add: both directions of the frozen weights, the factors and attention. */
const stepFlop = (model: LocalModel.LocalModel): number => {
  const { hidden, layers, vocabularySize, width } = model
  const frozen = layers * (4 * width * width + 2 * width * hidden) + width * vocabularySize
  const factors = rank * (layers * (8 * width + 2 * (width + hidden)) + width + vocabularySize)
  const attention = layers * length * width
  return tokensPerPass * (4 * frozen + 6 * factors + 6 * attention)
}

/** The same step in processes that share nothing: one alone, and two at a time. */
const alone = Effect.gen(function*() {
  const [first, second] = yield* Effect.replicateEffect(Program.startModule("./engineAlone.js"), 2)
  if (first === undefined || second === undefined) return yield* Effect.dieMessage("two processes")
  const [one, other] = [first, second].map(({ ask }) => Effect.map(ask("step"), Number))
  if (one === undefined || other === undefined) return yield* Effect.dieMessage("two processes")
  const both = Effect.zipWith(one, other, Math.max, { concurrent: true })
  const results = yield* interleaved([{ name: "one", once: one }, { name: "two", once: both }], {
    rounds: 7,
    warmup: 3
  })
  return results.get("two")?.relative ?? NaN
})

// The compiler has a core to itself beside one thread, and none beside two. It takes a hundred steps to be done with most.
const untilCompiled = sized(100, 1)

// A step of a tenth of a second is often disturbed on a machine that others use; one in two threads twice as often.
const steps = { rounds: 45, warmup: 5 }

/** Worker threads beside torch, by the clock: more than one thread cannot be timed otherwise. */
const besideTorch = Effect.fnUntraced(function*(model: LocalModel.LocalModel) {
  const setup = { model, rank, batch, length, samples: SAMPLES, sampled: SAMPLED }
  const [one, two, wasm] = [yield* threaded(model, 1), yield* threaded(model, 2), yield* threaded(model, 1, "wasm")]
  const { mode } = one
  for (const { train } of [one, two, wasm]) yield* Effect.repeatN(train.once, untilCompiled - 1)
  const found = isSmoke ? Option.none() : yield* torch.find
  if (Option.isNone(found)) {
    const results = yield* interleaved([one.train, two.train, wasm.train], steps)
    const sampled = yield* interleaved([one.sample], { rounds: 5, warmup: 2 })
    return { mode, results, sampled, torch: undefined }
  }
  const { python, version } = found.value
  const [torch1, torch2] = [yield* torch.start(python, setup, 1), yield* torch.start(python, setup, 2)]
  const results = yield* interleaved([one.train, torch1.train, two.train, torch2.train, wasm.train], steps)
  const sampled = yield* interleaved([one.sample, torch1.sample], { rounds: 7, warmup: 3 })
  const peak = median(yield* Effect.replicateEffect(torch1.peak, 3))
  return { mode, results, sampled, torch: { version, peak } }
})

/** A delay, and how much of it was work: the rest is what else the machine did. */
const inOneTurn = ({ delay, worked }: Delay): string =>
  `${delay.toFixed(0)} ms${Number.isNaN(worked) ? "" : ` (${worked.toFixed(0)} ms of CPU time)`}`

const rate = (tokens: number, result: Result | undefined): string =>
  result === undefined ? "-" : Math.round(tokens / result.ms * 1000).toLocaleString("en")

const row = (name: string, tokens: number, results: ReadonlyMap<string, Result>): ReadonlyArray<string> => [
  name,
  ...["wasm", "jax-js", "js"].map((variant) => rate(tokens, results.get(variant))),
  `${round(results.get("jax-js")?.relative ?? NaN)}`,
  `${round(results.get("js")?.relative ?? NaN)}`
]

export const bench: Bench = {
  summary:
    `tokens per CPU second, LoRA rank ${rank}; a step over ${batch} x ${length} tokens, ${SAMPLES} samples at once`,
  run: Effect.gen(function*() {
    yield* Effect.promise(jax.start)
    const smallStep = yield* training(LocalModel.small)
    const tinyStep = yield* training(LocalModel.tiny)
    const smallSample = yield* sampling(LocalModel.small)
    const tinySample = yield* sampling(LocalModel.tiny)
    const unshared = yield* prefixes(LocalModel.small)
    const beside = yield* besideTorch(LocalModel.small)
    const slowdown = yield* Effect.scoped(alone)
    const wait = yield* longestWait(undefined)
    const waitBeside = yield* longestWait(2)
    // Its own tests run the quickstart.
    const quickstart = isSmoke ? { delay: NaN, worked: NaN } : yield* duringQuickstart
    const idle = yield* Effect.scoped(whileIdle)
    const ours = beside.results.get("ours 1")
    const gflops = stepFlop(LocalModel.small) / (ours?.ms ?? NaN) / 1e6
    const relative = (results: ReadonlyMap<string, Result>, name: string): number =>
      round(results.get(name)?.relative ?? NaN)
    return {
      table: [
        ["", "ours", "jax-js", "ours without wasm", "jax-js / ours", "without wasm / ours"],
        row("local/small train", tokensPerPass, smallStep),
        row("local/tiny train", tokensPerPass, tinyStep),
        row("local/small sample", SAMPLES * SAMPLED, smallSample),
        row("local/tiny sample", SAMPLES * SAMPLED, tinySample),
        [],
        ["by the clock, local/small", "ours", "torch", "torch / ours"],
        ...[1, 2].map((threads) => [
          `train, ${threads} thread${threads === 1 ? "" : "s"}`,
          ...["ours", "torch"].map((name) => rate(tokensPerPass, beside.results.get(`${name} ${threads}`))),
          `${
            round(
              (beside.results.get(`torch ${threads}`)?.ms ?? NaN) / (beside.results.get(`ours ${threads}`)?.ms ?? NaN)
            )
          }`
        ]),
        [
          "sample, 1 thread",
          ...["ours 1", "torch 1"].map((name) => rate(SAMPLES * SAMPLED, beside.sampled.get(name))),
          `${relative(beside.sampled, "torch 1")}`
        ]
      ],
      ratios: {
        to_library: relative(smallStep, "jax-js"),
        to_library_tiny: relative(tinyStep, "jax-js"),
        to_library_sampling: relative(smallSample, "jax-js"),
        to_fallback: relative(smallStep, "js"),
        prefix_reuse: round(unshared),
        native_to_wasm: relative(beside.results, "wasm"),
        threads_2: round(1 / (beside.results.get("ours 2")?.relative ?? NaN)),
        threads_2_ceiling: round(2 / slowdown),
        ...(beside.torch === undefined ? {} : {
          torch_threads_2: round(
            (beside.results.get("torch 1")?.ms ?? NaN) / (beside.results.get("torch 2")?.ms ?? NaN)
          ),
          to_torch: relative(beside.results, "torch 1"),
          to_torch_sampling: relative(beside.sampled, "torch 1"),
          to_peak: round(gflops / beside.torch.peak)
        }),
        event_loop_in_process_ms: Math.round(wait.delay),
        event_loop_threads_ms: Math.round(waitBeside.delay),
        event_loop_quickstart_ms: Math.round(quickstart.delay),
        event_loop_quickstart_work_ms: Math.round(quickstart.worked),
        event_loop_idle_ms: Math.round(idle)
      },
      notes: [
        `${gflops.toFixed(1)} GFLOP/s in training on one thread (kernels: ${beside.mode})` + (beside.torch === undefined
          ? ". PyTorch was skipped: no interpreter has it (TINKER_PYTHON or COOKBOOK_PYTHON name one, or run" +
            " `npm run parity -- --engine` first)."
          : `; a large f32 product of PyTorch ${beside.torch.version}, the most this machine was seen to do, ${
            beside.torch.peak.toFixed(1)
          }.`),
        "Ours is a whole step with optimizer and merged weights; the library's is loss and gradient only, compiled" +
        " before and for this shape alone.",
        `prefix_reuse: eight tokens to a prompt of ${PROMPT} that nothing before began like, over one that shares all but its` +
        " last 16 tokens with the one before.",
        "threads_2_ceiling: two processes that share nothing but the machine, over one alone.",
        "The longest delay of the event loop (monitorEventLoopDelay), once loaded, while a program trains, saves and" +
        ` samples local/small on the backend in its own process: ${inOneTurn(wait)} in its own thread, ${
          inOneTurn(waitBeside)
        } with two worker threads; ${inOneTurn(quickstart)} over the quickstart (local/chat, every core), and ${
          idle.toFixed(0)
        } ms in a process that did nothing for 20 s.`
      ]
    }
  }).pipe(
    Effect.mapError((error) => error._tag === "BenchFailed" ? error : new BenchFailed({ reason: error.message }))
  )
}
