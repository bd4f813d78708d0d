/**
 * Adapters: their weights, gradient and optimizer state, and the operations on them.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as EngineError from "../../EngineError.js"
import type { Adapter, Config, NamedTensor, PassResult, Snapshot, StepParams } from "../../LocalAdapter.js"
import { adamStep, globalNorm } from "./adamw.js"
import type { AdamSettings, Moments } from "./adamw.js"
import { planBatches } from "./batch.js"
import { checkTask } from "./examples.js"
import type { Task } from "./examples.js"
import { add, at } from "./floats.js"
import { initialFactors, makeLora, namedPieces } from "./lora.js"
import type { Lora } from "./lora.js"
import type { Machine, Machines } from "./machine.js"
import { load, merge } from "./merge.js"
import type { Packed } from "./merge.js"
import { pass } from "./pass.js"
import type { ExampleResult } from "./pass.js"
import type { Group } from "./shape.js"
import { maxRank } from "./workspace.js"

const notFinite = (what: string): EngineError.NotFinite =>
  new EngineError.NotFinite({
    description: `${what} is not finite; try a smaller learning rate or grad_clip_norm, or check the inputs of the loss`
  })

const unsupportedOptimizer = (type: string): EngineError.Unsupported =>
  new EngineError.Unsupported({
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

const result = (task: Task, examples: ReadonlyArray<ExampleResult>): PassResult => {
  let loss = 0
  for (const example of examples) loss += example.loss
  return {
    outputs: examples.map(({ elementwise, logprobs }, index) => {
      const shape = task.examples[index]?.shape ?? [logprobs.length]
      return task.loss === "cross_entropy"
        ? { logprobs: { data: logprobs, shape }, elementwise_loss: { data: elementwise, shape } }
        : { logprobs: { data: logprobs, shape } }
    }),
    metrics: { "loss:sum": loss },
    tokens: task.examples.reduce((sum, { tokens }) => sum + tokens.length, 0)
  }
}

const named = (lora: Lora, values: Float32Array): ReadonlyArray<NamedTensor> =>
  namedPieces(lora).map(({ from, name, shape, to }) => ({ name, shape, data: values.slice(from, to) }))

/** Copies named tensors into a flat array; says what is missing or does not fit. */
const fill = (lora: Lora, target: Float32Array, tensors: ReadonlyArray<NamedTensor>): string | undefined => {
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]))
  for (const piece of namedPieces(lora)) {
    const tensor = byName.get(piece.name)
    if (tensor === undefined) return `the snapshot has no ${piece.name}`
    if (tensor.data.length !== piece.to - piece.from) {
      return `${piece.name} of the snapshot has ${tensor.data.length} values, the adapter ${piece.to - piece.from}`
    }
    target.set(tensor.data, piece.from)
  }
  return undefined
}

const makeAdapter = (machine: Machine, lora: Lora, initial: Float32Array): Adapter => {
  const { model } = machine.shape
  const { groups, rank } = lora.settings
  const turn = Effect.unsafeMakeSemaphore(1)
  const values = initial
  const gradient = new Float32Array(lora.size)
  let moments: Moments = { first: new Float32Array(lora.size), second: new Float32Array(lora.size), steps: 0 }
  let packed: Packed | undefined
  const flags = {
    trainAttn: groups.has("attn"),
    trainMlp: groups.has("mlp"),
    trainUnembed: groups.has("unembed")
  }

  const runPass = Effect.fnUntraced(function*(task: Task) {
    // The gradient of this call, added to the adapter's only when all of it went well.
    const fresh = new Float32Array(task.forwardOnly ? 0 : lora.size)
    const trainable = { lora, values, gradient: fresh }
    const results: Array<ExampleResult> = []
    for (const { from, to } of planBatches(task.examples.map(({ tokens }) => tokens.length), model.contextLength)) {
      const done = yield* machine.run(function*(workspace) {
        if (packed === undefined) packed = yield* merge(workspace, { lora, values }, true)
        else load(workspace, packed)
        return yield* pass(workspace, trainable, task, task.examples.slice(from, to))
      })
      if (done === undefined) return yield* notFinite("the loss")
      results.push(...done)
    }
    if (!Number.isFinite(globalNorm(fresh))) return yield* notFinite("the gradient")
    for (let i = 0; i < fresh.length; i++) add(gradient, i, at(fresh, i))
    return result(task, results)
  })

  const step = Effect.fnUntraced(function*(params: StepParams) {
    const settings = yield* checkStep(params)
    yield* machine.breathe
    const norm = globalNorm(gradient)
    if (!Number.isFinite(norm)) return yield* notFinite("the gradient")
    adamStep(values, gradient, moments, settings, norm)
    gradient.fill(0)
    packed = undefined
    return { metrics: { grad_norm: norm } }
  })

  const restore = Effect.fnUntraced(function*(snapshot: Snapshot, optimizer: boolean) {
    const mismatch = (description: string) => new EngineError.InvalidRequest({ description })
    if (snapshot.baseModel !== model.name) {
      return yield* mismatch(`the snapshot belongs to ${snapshot.baseModel}, the adapter to ${model.name}`)
    }
    if (snapshot.rank !== rank) return yield* mismatch(`the snapshot has rank ${snapshot.rank}, the adapter ${rank}`)
    const next = new Float32Array(lora.size)
    const fresh: Moments = { first: new Float32Array(lora.size), second: new Float32Array(lora.size), steps: 0 }
    const problem = fill(lora, next, snapshot.weights)
    if (problem !== undefined) return yield* mismatch(problem)
    if (optimizer) {
      if (snapshot.optimizer === undefined) return yield* mismatch("the snapshot was saved without optimizer state")
      const trouble = fill(lora, fresh.first, snapshot.optimizer.first) ??
        fill(lora, fresh.second, snapshot.optimizer.second)
      if (trouble !== undefined) return yield* mismatch(`optimizer state: ${trouble}`)
      fresh.steps = snapshot.optimizer.steps
    }
    values.set(next)
    gradient.fill(0)
    moments = fresh
    packed = undefined
  })

  return {
    baseModel: model.name,
    rank,
    ...flags,
    forwardBackward: (request) => turn.withPermits(1)(Effect.flatMap(checkTask(model, request), runPass)),
    optimStep: (params) => turn.withPermits(1)(step(params ?? {})),
    snapshot: (options) =>
      turn.withPermits(1)(Effect.sync((): Snapshot => ({
        baseModel: model.name,
        rank,
        ...flags,
        weights: named(lora, values),
        ...(options?.optimizer === false ? {} : {
          optimizer: {
            steps: moments.steps,
            first: named(lora, moments.first),
            second: named(lora, moments.second)
          }
        })
      }))),
    load: (snapshot, options) => turn.withPermits(1)(restore(snapshot, options?.optimizer ?? false))
  }
}

/** The layout of an adapter with these settings, or why there is none. @internal */
export const checkLora = (
  machine: Machine,
  config: Omit<Config, "baseModel" | "optimizer">,
  seed: number
): Effect.Effect<Lora, EngineError.EngineError> => {
  const rank = config.rank ?? 32
  if (!Number.isInteger(rank) || rank < 1 || rank > maxRank) {
    return new EngineError.InvalidRequest({ description: `rank is ${rank}, expected 1 to ${maxRank}` })
  }
  const groups = new Set<Group>()
  if (config.trainAttn ?? true) groups.add("attn")
  if (config.trainMlp ?? true) groups.add("mlp")
  if (config.trainUnembed ?? true) groups.add("unembed")
  if (groups.size === 0) {
    return new EngineError.InvalidRequest({
      description: "nothing to train: at least one of train_attn, train_mlp and train_unembed must be true"
    })
  }
  return Effect.succeed(makeLora(machine.shape, { rank, seed, groups }))
}

/** The factors of a snapshot in one array. @internal */
export const snapshotFactors = Effect.fnUntraced(function*(machine: Machine, snapshot: Snapshot) {
  const lora = yield* checkLora(machine, snapshot, 0)
  const values = new Float32Array(lora.size)
  const problem = fill(lora, values, snapshot.weights)
  if (problem !== undefined) return yield* new EngineError.InvalidRequest({ description: problem })
  return { lora, values }
})

/** @internal */
export const makeAdapters = (machines: Machines): {
  readonly create: (config: Config) => Effect.Effect<Adapter, EngineError.EngineError>
  readonly restore: (
    snapshot: Snapshot,
    options?: { readonly optimizer?: boolean | undefined }
  ) => Effect.Effect<Adapter, EngineError.EngineError>
} => ({
  create: Effect.fnUntraced(function*(config) {
    const machine = yield* machines.get(config.baseModel)
    if (config.optimizer !== undefined && config.optimizer !== "adamw") {
      return yield* unsupportedOptimizer(config.optimizer)
    }
    const seed = config.seed ?? (yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER))
    if (!Number.isSafeInteger(seed)) {
      return yield* new EngineError.InvalidRequest({ description: `seed is ${seed}, expected an integer` })
    }
    const lora = yield* checkLora(machine, config, seed)
    return makeAdapter(machine, lora, initialFactors(lora))
  }),
  restore: Effect.fnUntraced(function*(snapshot, options) {
    const machine = yield* machines.get(snapshot.baseModel)
    const { lora, values } = yield* snapshotFactors(machine, snapshot)
    const adapter = makeAdapter(machine, lora, values)
    if (options?.optimizer === true) yield* adapter.load(snapshot, options)
    return adapter
  })
})
