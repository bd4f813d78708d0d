/**
 * One part of a batch through the model: logprobs of its targets, the loss, and unless only that was asked for, the
 * gradient of the adapter. Logits are made and used a few rows at a time, so that a large vocabulary costs no memory.
 */
import type { Adapted, Installer } from "./factors.js"
import { makeFactorGradients, project, projectBack } from "./factors.js"
import { evaluateLoss } from "./losses.js"
import { add, at, intAt } from "./numbers.js"
import type { Example, Task } from "./requests.js"
import type { Space, Work } from "./space.js"
import { backward, forward, makeBatch } from "./transformer.js"

/** @internal */
export interface ExampleResult {
  readonly logprobs: Float32Array
  readonly elementwise: Float32Array
  readonly loss: number
}

// A batch is shared between this many threads, unless its parts would become too short to be worth it. The last ones are
// half as long: threads are never equally fast, and at the end all wait for one of them.
const wantedParts = 8
const shortestPart = 128
const lastParts = 0.25

/**
 * Splits a list of inputs, in order, into runs of at most `limit` tokens; every input fits a part by itself. The plan
 * decides the order in which gradients are added, so it depends on nothing but the batch and the limit.
 *
 * @internal
 */
export const planParts = (
  lengths: ReadonlyArray<number>,
  limit: number
): ReadonlyArray<{ readonly from: number; readonly to: number }> => {
  const all = lengths.reduce((sum, length) => sum + length, 0)
  const most = (rest: number): number =>
    Math.min(limit, Math.max(shortestPart, Math.ceil(all / wantedParts / (rest > lastParts * all ? 1 : 2))))
  const runs: Array<{ from: number; to: number }> = []
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

/** Adds the prior of each row's token, and keeps what pads a row from being drawn. @internal */
export const finishLogits = (space: Space, logits: number, tokens: Int32Array, from: number, rows: number): void => {
  const { architecture: { logits: wide, model }, kernels, layout, memory } = space
  const { family, vocabularySize } = model
  for (let row = 0; row < rows; row++) {
    const at = logits + row * wide
    if (family === "local") kernels.addRow(at, layout.prior + intAt(tokens, from + row) * wide, wide)
    if (vocabularySize < wide) memory.fill(-3e38, at + vocabularySize, at + wide)
  }
}

/** What to subtract from the logits of a row to get its log probabilities. @internal */
export const normalizer = (space: Space, row: number): number => {
  const { architecture: { logits }, kernels } = space
  const top = kernels.rowMax(row, logits)
  return top + Math.log(kernels.expSum(row, logits, top))
}

interface Slot {
  readonly example: Example
  readonly logprobs: Float32Array
  readonly elementwise: Float32Array
  readonly derivative: Float32Array
  loss: number
}

/** Replaces a row of logits by their gradient. */
const logitGradient = (space: Space, row: number, shift: number, slot: Slot, position: number): void => {
  const { architecture: { logits }, kernels, memory } = space
  const { derivative, example } = slot
  const from = position * example.width
  let sum = 0
  for (let j = 0; j < example.width; j++) sum += at(derivative, from + j)
  if (sum === 0) memory.fill(0, row, row + logits)
  else kernels.expScale(row, logits, shift, -sum)
  for (let j = 0; j < example.width; j++) add(memory, row + intAt(example.targets, from + j), at(derivative, from + j))
}

/** Undefined when the numbers are no longer finite. All of `gradient` is written, unless only the loss is wanted. @internal */
export function* pass(
  space: Space,
  installer: Installer,
  adapted: Adapted,
  task: Pick<Task, "config" | "forwardOnly" | "loss">,
  examples: ReadonlyArray<Example>,
  gradient: Float32Array
): Work<ReadonlyArray<ExampleResult> | undefined> {
  const { architecture, kernels, layout, memory, training } = space
  const { logits: wide, model: { normEpsilon, width }, unembed } = architecture
  const { logits, normed } = training
  const batch = makeBatch(examples.map(({ tokens }) => tokens))
  const count = batch.tokens.length
  const installed = yield* installer.install(adapted)
  yield* forward(space, installed, batch)
  const slots = examples.map((example): Slot => {
    const cells = example.targets.length
    return {
      example,
      logprobs: new Float32Array(cells),
      elementwise: new Float32Array(cells),
      derivative: new Float32Array(cells),
      loss: 0
    }
  })
  const last = training.streams[architecture.blocks.length] ?? 0
  kernels.normalize(last, normed, layout.weights + architecture.finalNorm, width, count, normEpsilon)
  yield

  const gradients = task.forwardOnly
    ? undefined
    : makeFactorGradients(space, installed, adapted, unembed, gradient)
  let example = 0
  let position = 0
  for (let from = 0; from < count; from += layout.logitRows) {
    const rows = Math.min(layout.logitRows, count - from)
    const x = normed + from * width
    yield* project(space, installed, unembed, x, logits, rows, 0)
    finishLogits(space, logits, batch.tokens, from, rows)
    yield
    for (let row = 0; row < rows; row++) {
      const slot = slots[example]
      if (slot === undefined) return undefined
      const { logprobs } = slot
      const { inputs, targets, tokens, width: cells } = slot.example
      const line = logits + row * wide
      const shift = normalizer(space, line)
      for (let j = position * cells; j < (position + 1) * cells; j++) {
        // Rounding must not make anything more than certain.
        logprobs[j] = Math.min(0, at(memory, line + intAt(targets, j)) - shift)
      }
      slot.loss += evaluateLoss(
        task.loss,
        task.config,
        logprobs,
        inputs,
        slot.elementwise,
        slot.derivative,
        position * cells,
        (position + 1) * cells
      )
      if (!task.forwardOnly) logitGradient(space, line, shift, slot, position)
      position++
      if (position === tokens.length) {
        position = 0
        example++
        if (!Number.isFinite(slot.loss) || !slot.derivative.every(Number.isFinite)) return undefined
      }
    }
    yield
    if (!task.forwardOnly) {
      const dx = training.dNormed + from * width
      yield* projectBack(space, installed, unembed, logits, dx, rows)
      gradients?.slice(x, logits, dx, rows)
      yield
    }
  }
  if (!task.forwardOnly) {
    gradients?.end()
    memory.fill(0, training.dStream, training.dStream + count * width)
    kernels.normalizeBackward(
      training.dNormed,
      last,
      layout.weights + architecture.finalNorm,
      training.dStream,
      width,
      count,
      normEpsilon,
      1
    )
    yield
    yield* backward(space, installed, adapted, batch, gradient)
  }
  return slots.map(({ elementwise, logprobs, loss }) => ({ logprobs, elementwise, loss }))
}
