/**
 * Adapters: their weights, gradient and optimizer state, and the operations on them.
 */
import * as Permits from "@effect-tinker/platform/Permits"
import * as Effect from "effect/Effect"
import { globalValue } from "effect/GlobalValue"
import * as Random from "effect/Random"
import * as EngineError from "../../EngineError.js"
import type { Adapter, Config, NamedTensor, PassResult, Snapshot, StepParams } from "../../LocalAdapter.js"
import { adam, adamStep } from "./adamw.js"
import type { AdamSettings, Moments } from "./adamw.js"
import type { Group, Lora } from "./architecture.js"
import { makeLora, namedPieces } from "./architecture.js"
import type { Executor, LoadedModel } from "./executor.js"
import { at, fillRandom, makeRandom } from "./numbers.js"
import { hasFailed, makeSharedPass } from "./parts.js"
import type { SharedBatch } from "./parts.js"
import { checkTask } from "./requests.js"
import type { Task } from "./requests.js"
import type { Work } from "./space.js"
import { inPieces, makeAddInto, norm } from "./vectors.js"

const notFinite = (what: string): EngineError.NotFinite =>
  new EngineError.NotFinite({
    description: `${what} is not finite; try a smaller learning rate or grad_clip_norm, or check the inputs of the loss`
  })

const unsupportedOptimizer = (type: string): EngineError.EngineUnsupported =>
  new EngineError.EngineUnsupported({
    description: `the embedded backend has no optimizer ${JSON.stringify(type)}; it has adamw`
  })

const checkStep = (params: StepParams): Effect.Effect<AdamSettings, EngineError.EngineError> => {
  if (params.type !== undefined && params.type !== "adamw") return unsupportedOptimizer(params.type)
  const settings: AdamSettings = {
    learningRate: params.learningRate ?? 1e-4,
    beta1: params.beta1 ?? 0.9,
    beta2: params.beta2 ?? 0.95,
    eps: params.eps ?? 1e-12,
    weightDecay: params.weightDecay ?? 0,
    gradClipNorm: params.gradClipNorm ?? 0
  }
  for (const [name, value] of Object.entries(settings)) {
    const beta = name.startsWith("beta")
    if (!Number.isFinite(value) || value < 0 || (beta && value >= 1)) {
      return new EngineError.InvalidRequest({
        description: `${name} is ${value}, expected a number of at least 0${beta ? " and below 1" : ""}`
      })
    }
  }
  return Effect.succeed(settings)
}

const result = (task: Task, { elementwise, logprobs, losses, targetStarts }: SharedBatch): PassResult => ({
  outputs: task.examples.map(({ shape }, index) => {
    // Copies: the memory of the batch is used again.
    const own = (values: Float32Array) => ({
      data: values.slice(targetStarts[index], targetStarts[index + 1]),
      shape
    })
    return task.loss === "cross_entropy"
      ? { logprobs: own(logprobs), elementwise_loss: own(elementwise) }
      : { logprobs: own(logprobs) }
  }),
  metrics: { "loss:sum": losses.reduce((sum, loss) => sum + loss, 0) },
  tokens: task.examples.reduce((sum, { tokens }) => sum + tokens.length, 0)
})

function* named(lora: Lora, values: Float32Array): Work<ReadonlyArray<NamedTensor>> {
  const tensors: Array<NamedTensor> = []
  for (const { from, name, shape, to } of namedPieces(lora)) {
    tensors.push({ name, shape, data: values.slice(from, to) })
    yield
  }
  return tensors
}

/**
 * Copies named tensors into a flat array; says what is missing or does not fit. An adapter made with another scale is
 * brought to ours by its factors B.
 */
function* fill(
  lora: Lora,
  target: Float32Array,
  tensors: ReadonlyArray<NamedTensor>,
  scale: number
): Work<string | undefined> {
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]))
  for (const piece of namedPieces(lora)) {
    const tensor = byName.get(piece.name)
    if (tensor === undefined) return `the snapshot has no ${piece.name}`
    if (tensor.data.length !== piece.to - piece.from) {
      return `${piece.name} of the snapshot has ${tensor.data.length} values, the adapter ${piece.to - piece.from}`
    }
    target.set(tensor.data, piece.from)
    yield
    if (scale === lora.scale || !piece.name.endsWith(".lora_B.weight")) continue
    for (let i = piece.from; i < piece.to; i++) target[i] = at(target, i) * (scale / lora.scale)
    yield
  }
  return undefined
}

/** A random, B zero: a new adapter changes nothing. */
function* initialize(lora: Lora, values: Float32Array, seed: number): Work<void> {
  const random = makeRandom(seed, 1)
  for (const { a, b, part } of lora.factors.values()) {
    fillRandom(values.subarray(a, b), 1 / Math.sqrt(part.inputs), random)
    yield
  }
}

// Threads keep prepared weights under the number of their values.
const keys = globalValue("@effect-tinker/local/engine/keys", () => ({ next: 1 }))

/** A number that stands for the values of an adapter as they are now. @internal */
export const nextKey = (): number => keys.next++

const makeAdapter = (executor: Executor, loaded: LoadedModel, lora: Lora, initial: Float32Array): Adapter => {
  const { architecture: { model }, layout } = loaded
  const { pool, slices } = executor
  const addInto = makeAddInto(executor.native)
  const advance = executor.native?.adam ?? adam
  const { settings } = lora
  const { groups, rank } = settings
  const turn = Permits.unsafeMake(1)
  const values = initial
  let key = nextKey()
  /** Gradients that passes have added up since the last step, and their norm; undefined when there are none. */
  let gradient: { readonly sum: Float32Array; readonly norm: number } | undefined
  const clearGradient = (): void => {
    if (gradient !== undefined) pool.give(gradient.sum)
    gradient = undefined
  }
  const freshMoments = (): Moments => ({
    first: new Float32Array(lora.size),
    second: new Float32Array(lora.size),
    steps: 0
  })
  let moments = freshMoments()
  const flags = {
    trainAttn: groups.includes("attn"),
    trainMlp: groups.includes("mlp"),
    trainUnembed: groups.includes("unembed")
  }

  const accumulate = Effect.fnUntraced(function*(sum: Float32Array, size: number) {
    if (gradient === undefined) {
      gradient = { sum, norm: size }
      return
    }
    const { sum: before } = gradient
    yield* slices.run(() => addInto(before, sum))
    pool.give(sum)
    gradient = { sum: before, norm: yield* slices.run(() => norm(before)) }
  })

  const runPass = Effect.fnUntraced(function*(task: Task) {
    const { config, examples, forwardOnly, loss } = task
    const { memory, shared } = makeSharedPass(examples, {
      partTokens: layout.partTokens,
      gradientFloats: forwardOnly ? 0 : lora.size,
      mostWaiting: executor.waitingGradients,
      take: pool.take
    })
    yield* loaded.pass({ adapter: { key, lora: settings, values }, task: { config, forwardOnly, loss }, shared })
    // Not where a pass was interrupted: a thread may write to them for a while.
    for (const floats of shared.waiting) pool.give(floats)
    if (hasFailed(shared)) return yield* notFinite("the loss")
    // The gradient of this call is added to the adapter's only when all of it went well.
    if (!forwardOnly) {
      const size = yield* slices.run(() => norm(shared.gradient))
      if (!Number.isFinite(size)) return yield* notFinite("the gradient")
      yield* Effect.uninterruptible(accumulate(shared.gradient, size))
    }
    const passed = result(task, shared.batch)
    pool.give(memory)
    return passed
  })

  const step = Effect.fnUntraced(function*(params: StepParams) {
    const settings = yield* checkStep(params)
    const { norm: size, sum } = gradient ?? { norm: 0, sum: new Float32Array(lora.size) }
    if (!Number.isFinite(size)) return yield* notFinite("the gradient")
    // a step is whole or did not happen
    key = nextKey()
    yield* Effect.uninterruptible(
      slices.run(() => inPieces(values.length, adamStep(values, sum, moments, settings, size, advance)))
    )
    clearGradient()
    return { metrics: { grad_norm: size } }
  })

  function* snapshot(optimizer: boolean): Work<Snapshot> {
    const weights = yield* named(lora, values)
    const whole = { baseModel: model.name, rank, scale: lora.scale, ...flags, weights }
    if (!optimizer) return whole
    const { first, second, steps } = moments
    return { ...whole, optimizer: { steps, first: yield* named(lora, first), second: yield* named(lora, second) } }
  }

  const restore = Effect.fnUntraced(function*(snapshot: Snapshot, optimizer: boolean) {
    const mismatch = (description: string) => new EngineError.InvalidRequest({ description })
    if (snapshot.baseModel !== model.name) {
      return yield* mismatch(`the snapshot belongs to ${snapshot.baseModel}, the adapter to ${model.name}`)
    }
    if (snapshot.rank !== rank) return yield* mismatch(`the snapshot has rank ${snapshot.rank}, the adapter ${rank}`)
    const next = new Float32Array(lora.size)
    const fresh = freshMoments()
    const problem = yield* slices.run(() => fill(lora, next, snapshot.weights, snapshot.scale))
    if (problem !== undefined) return yield* mismatch(problem)
    const state = snapshot.optimizer
    if (optimizer) {
      if (state === undefined) return yield* mismatch("the snapshot was saved without optimizer state")
      const trouble = (yield* slices.run(() => fill(lora, fresh.first, state.first, lora.scale))) ??
        (yield* slices.run(() => fill(lora, fresh.second, state.second, lora.scale)))
      if (trouble !== undefined) return yield* mismatch(`optimizer state: ${trouble}`)
      fresh.steps = state.steps
    }
    values.set(next)
    key = nextKey()
    clearGradient()
    moments = fresh
  })

  return {
    baseModel: model.name,
    rank,
    ...flags,
    forwardBackward: (request) => turn.withPermits(1)(Effect.flatMap(checkTask(model, request), runPass)),
    optimStep: (params) => turn.withPermits(1)(step(params ?? {})),
    snapshot: (options) => turn.withPermits(1)(slices.run(() => snapshot(options?.optimizer ?? true))),
    load: (snapshot, options) => turn.withPermits(1)(restore(snapshot, options?.optimizer ?? false))
  }
}

const checkLora = (
  { architecture, layout: { maxRank } }: LoadedModel,
  config: Omit<Config, "baseModel" | "optimizer">
): Effect.Effect<Lora, EngineError.EngineError> => {
  const rank = config.rank ?? 32
  if (!Number.isInteger(rank) || rank < 1 || rank > maxRank) {
    return new EngineError.InvalidRequest({ description: `rank is ${rank}, expected 1 to ${maxRank}` })
  }
  const groups: Array<Group> = []
  if (config.trainAttn ?? true) groups.push("attn")
  if (config.trainMlp ?? true) groups.push("mlp")
  if (config.trainUnembed ?? true) groups.push("unembed")
  if (groups.length === 0) {
    return new EngineError.InvalidRequest({
      description: "nothing to train: at least one of train_attn, train_mlp and train_unembed must be true"
    })
  }
  return Effect.succeed(makeLora(architecture, { rank, groups }))
}

/** The factors of a snapshot in one array. @internal */
export const snapshotFactors = Effect.fnUntraced(
  function*(executor: Executor, loaded: LoadedModel, snapshot: Snapshot) {
    const lora = yield* checkLora(loaded, snapshot)
    const values = executor.floats(lora.size)
    const problem = yield* executor.slices.run(() => fill(lora, values, snapshot.weights, snapshot.scale))
    if (problem !== undefined) return yield* new EngineError.InvalidRequest({ description: problem })
    return { lora, values }
  }
)

/** @internal */
export const createAdapter = Effect.fnUntraced(function*(executor: Executor, loaded: LoadedModel, config: Config) {
  if (config.optimizer !== undefined && config.optimizer !== "adamw") {
    return yield* unsupportedOptimizer(config.optimizer)
  }
  const seed = config.seed ?? (yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER))
  if (!Number.isSafeInteger(seed)) {
    return yield* new EngineError.InvalidRequest({ description: `seed is ${seed}, expected an integer` })
  }
  const lora = yield* checkLora(loaded, config)
  const values = executor.floats(lora.size)
  yield* executor.slices.run(() => initialize(lora, values, seed))
  return makeAdapter(executor, loaded, lora, values)
})

/** @internal */
export const restoreAdapter = Effect.fnUntraced(function*(
  executor: Executor,
  loaded: LoadedModel,
  snapshot: Snapshot,
  optimizer: boolean
) {
  const { lora, values } = yield* snapshotFactors(executor, loaded, snapshot)
  const adapter = makeAdapter(executor, loaded, lora, values)
  if (optimizer) yield* adapter.load(snapshot, { optimizer })
  return adapter
})
