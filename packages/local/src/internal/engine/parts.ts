/**
 * A batch that threads share. It lies packed in memory that all of them see, so that sending it copies nothing. Each
 * thread takes the next part that nobody has, writes what came of it, and adds its gradient to the sum once those of all
 * earlier parts are in it: the sum does not depend on which thread computed what, nor on how many there are.
 */
import type { LossInputs } from "./losses.js"
import { intAt } from "./numbers.js"
import type { Example } from "./requests.js"
import type { Work } from "./space.js"

// A batch is shared between this many threads, unless its parts would become too short to be worth it. The last ones are
// half as long: threads are never equally fast, and at the end all wait for one of them.
const wantedParts = 8
const shortestPart = 128
const lastParts = 0.25

/** A run of examples. @internal */
export interface Part {
  readonly from: number
  readonly to: number
}

/**
 * Splits a list of inputs, in order, into runs of at most `limit` tokens; every input fits a part by itself. The plan
 * decides the order in which gradients are added, so it depends on nothing but the batch and the limit.
 *
 * @internal
 */
export const planParts = (lengths: ReadonlyArray<number>, limit: number): ReadonlyArray<Part> => {
  const all = lengths.reduce((sum, length) => sum + length, 0)
  const most = (rest: number): number =>
    Math.min(limit, Math.max(shortestPart, Math.ceil(all / wantedParts / (rest > lastParts * all ? 1 : 2))))
  const runs: Array<Part> = []
  let from = 0
  let rest = all
  let tokens = 0
  lengths.forEach((length, index) => {
    if (index > from && tokens + length > most(rest)) {
      runs.push({ from, to: index })
      from = index
      rest -= tokens
      tokens = 0
    }
    tokens += length
  })
  if (from < lengths.length) runs.push({ from, to: lengths.length })
  return runs
}

/** Examples one behind the other, and what comes of them. @internal */
export interface SharedBatch {
  /** Where the tokens of an example begin; one more for where those of the last one end. */
  readonly tokenStarts: Int32Array
  /** The same for targets, and for all that has their length. */
  readonly targetStarts: Int32Array
  readonly tokens: Int32Array
  readonly targets: Int32Array
  readonly inputs: LossInputs
  readonly logprobs: Float32Array
  readonly elementwise: Float32Array
  readonly losses: Float64Array
}

/** A batch in parts. All of it can be sent to another thread. @internal */
export interface SharedPass {
  readonly batch: SharedBatch
  /** Where parts begin among the examples; one more for where the last one ends. */
  readonly partStarts: Int32Array
  /** The sum: written by the first part, added to by the others. Empty when only the forward pass is asked for. */
  readonly gradient: Float32Array
  /** Where the gradients of the other parts wait for their turn. */
  readonly waiting: ReadonlyArray<Float32Array>
  readonly progress: Int32Array
}

// Positions in `progress`; after them, whether the gradient of each part is ready.
const taken = 0
const added = 1
const adding = 2
const failed = 3
const ready = 4

const total = (examples: ReadonlyArray<Example>, lengthOf: (example: Example) => number): number =>
  examples.reduce((sum, example) => sum + lengthOf(example), 0)

/** Packs examples into memory, which is free again when all threads are done. @internal */
export const makeSharedPass = (examples: ReadonlyArray<Example>, options: {
  readonly partTokens: number
  /** None when only the forward pass is asked for. */
  readonly gradientFloats: number
  /** Gradients that may wait until those of earlier parts are added. */
  readonly mostWaiting: number
  readonly take: (length: number) => Float32Array
}): { readonly shared: SharedPass; readonly memory: Float32Array } => {
  const parts = planParts(examples.map(({ tokens }) => tokens.length), options.partTokens)
  const count = examples.length
  const tokens = total(examples, (example) => example.tokens.length)
  const targets = total(examples, (example) => example.targets.length)
  const inputs = {
    weights: total(examples, (example) => example.inputs.weights.length),
    logprobs: total(examples, (example) => example.inputs.logprobs.length),
    advantages: total(examples, (example) => example.inputs.advantages.length)
  }
  const words = 2 * count + 2 * (count + 1) + (parts.length + 1) + (ready + parts.length) + tokens + 3 * targets +
    inputs.weights + inputs.logprobs + inputs.advantages
  // A power of two: batches of about one size find the memory of the one before.
  const memory = options.take(2 ** Math.ceil(Math.log2(words)))
  const { buffer } = memory
  let at = 8 * count
  const next = (length: number): number => {
    const from = at
    at += 4 * length
    return from
  }
  const ints = (length: number) => new Int32Array(buffer, next(length), length)
  const floats = (length: number) => new Float32Array(buffer, next(length), length)
  const shared: SharedPass = {
    batch: {
      losses: new Float64Array(buffer, 0, count),
      tokenStarts: ints(count + 1),
      targetStarts: ints(count + 1),
      tokens: ints(tokens),
      targets: ints(targets),
      inputs: {
        weights: floats(inputs.weights),
        logprobs: floats(inputs.logprobs),
        advantages: floats(inputs.advantages)
      },
      logprobs: floats(targets),
      elementwise: floats(targets)
    },
    partStarts: ints(parts.length + 1),
    gradient: options.take(options.gradientFloats),
    waiting: Array.from(
      { length: options.gradientFloats === 0 ? 0 : Math.min(options.mostWaiting, parts.length - 1) },
      () => options.take(options.gradientFloats)
    ),
    progress: ints(ready + parts.length).fill(0)
  }
  const { batch } = shared
  let token = 0
  let target = 0
  examples.forEach((example, index) => {
    batch.tokenStarts[index] = token
    batch.targetStarts[index] = target
    batch.tokens.set(example.tokens, token)
    batch.targets.set(example.targets, target)
    if (inputs.weights > 0) batch.inputs.weights.set(example.inputs.weights, target)
    if (inputs.logprobs > 0) batch.inputs.logprobs.set(example.inputs.logprobs, target)
    if (inputs.advantages > 0) batch.inputs.advantages.set(example.inputs.advantages, target)
    token += example.tokens.length
    target += example.targets.length
  })
  batch.tokenStarts[count] = token
  batch.targetStarts[count] = target
  parts.forEach(({ from }, index) => shared.partStarts[index] = from)
  shared.partStarts[parts.length] = count
  return { shared, memory }
}

/** @internal */
export const partCount = ({ partStarts }: SharedPass): number => partStarts.length - 1

/** The examples of a part. @internal */
export const partAt = ({ partStarts }: SharedPass, index: number): Part => ({
  from: intAt(partStarts, index),
  to: intAt(partStarts, index + 1)
})

/** Where a part writes its gradient. @internal */
export const gradientOf = ({ gradient, waiting }: SharedPass, index: number): Float32Array =>
  (index === 0 ? undefined : waiting[(index - 1) % waiting.length]) ?? gradient

/**
 * Takes the next part; `full` while the gradients of others have to be added first, which wait for a slow thread.
 *
 * @internal
 */
export const takePart = (shared: SharedPass): number | "full" | "none" => {
  const { gradient, progress, waiting } = shared
  for (;;) {
    const next = Atomics.load(progress, taken)
    if (next >= partCount(shared) || Atomics.load(progress, failed) === 1) return "none"
    // A place that another part has used is free once that is in the sum.
    const isReused = gradient.length > 0 && next > waiting.length
    if (isReused && next - Atomics.load(progress, added) >= waiting.length) return "full"
    if (Atomics.compareExchange(progress, taken, next, next + 1) === next) return next
  }
}

/** A part has numbers that are not finite: no other is begun. @internal */
export const failPass = ({ progress }: SharedPass): void => {
  Atomics.store(progress, failed, 1)
}

/** @internal */
export const hasFailed = ({ progress }: SharedPass): boolean => Atomics.load(progress, failed) === 1

/**
 * Says that the gradient of a part is computed, and adds all whose turn it is. One thread adds at a time; it adds also
 * what others compute meanwhile, so none waits.
 *
 * @internal
 */
export function* addPart(
  shared: SharedPass,
  part: number,
  add: (target: Float32Array, source: Float32Array) => Work<void>
): Work<void> {
  const { gradient, progress } = shared
  const parts = partCount(shared)
  /** The next one to be added, if it is ready. */
  const turn = (): number | undefined => {
    const next = Atomics.load(progress, added)
    return next < parts && Atomics.load(progress, ready + next) === 1 ? next : undefined
  }
  Atomics.store(progress, ready + part, 1)
  // Asked again after letting go: one that became ready before that was left to this thread.
  while (turn() !== undefined && Atomics.compareExchange(progress, adding, 0, 1) === 0) {
    for (let next = turn(); next !== undefined; next = turn()) {
      if (next > 0) yield* add(gradient, gradientOf(shared, next))
      Atomics.store(progress, added, next + 1)
    }
    Atomics.store(progress, adding, 0)
  }
}
