/**
 * One part of a batch through the model: logprobs of its targets, the loss, and unless only that was asked for, the
 * gradient of the adapter. Logits are made and used a few rows at a time, so that a large vocabulary costs no memory.
 */
import type { Adapted, Installer } from "./factors.js"
import { makeFactorGradients, project, projectBack } from "./factors.js"
import type { LossInputs } from "./losses.js"
import { evaluateLoss, sequenceRatio } from "./losses.js"
import { add, at, intAt } from "./numbers.js"
import type { Part, SharedBatch } from "./parts.js"
import type { Task } from "./requests.js"
import type { Space, Work } from "./space.js"
import { backward, forward, makeBatch } from "./transformer.js"

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

/** Normalizer of a row: subtracted from its logits, it gives log probabilities. @internal */
export const normalizer = (space: Space, row: number): number => {
  const { architecture: { logits }, kernels } = space
  const top = kernels.rowMax(row, logits)
  return top + Math.log(kernels.expSum(row, logits, top))
}

/** An example of a batch, and where its results are written to. */
interface Slot {
  readonly tokens: Int32Array
  /** `width` targets per token. */
  readonly targets: Int32Array
  readonly width: number
  readonly inputs: LossInputs
  readonly logprobs: Float32Array
  readonly elementwise: Float32Array
  readonly derivative: Float32Array
  /** Of the whole sequence, where the loss needs it. */
  ratio: number
  loss: number
}

const slotAt = (batch: SharedBatch, index: number): Slot => {
  const { elementwise, inputs, logprobs, targetStarts, targets, tokenStarts, tokens } = batch
  const from = intAt(targetStarts, index)
  const to = intAt(targetStarts, index + 1)
  const own = tokens.subarray(intAt(tokenStarts, index), intAt(tokenStarts, index + 1))
  return {
    tokens: own,
    targets: targets.subarray(from, to),
    width: (to - from) / own.length,
    inputs: {
      weights: inputs.weights.subarray(from, to),
      logprobs: inputs.logprobs.subarray(from, to),
      advantages: inputs.advantages.subarray(from, to)
    },
    logprobs: logprobs.subarray(from, to),
    elementwise: elementwise.subarray(from, to),
    derivative: new Float32Array(to - from),
    ratio: 1,
    loss: 0
  }
}

/** Replaces a row of logits by their gradient. */
const logitGradient = (space: Space, row: number, shift: number, slot: Slot, position: number): void => {
  const { architecture: { logits }, kernels, memory } = space
  const { derivative, targets, width } = slot
  const from = position * width
  let sum = 0
  for (let j = 0; j < width; j++) sum += at(derivative, from + j)
  if (sum === 0) memory.fill(0, row, row + logits)
  else kernels.expScale(row, logits, shift, -sum)
  for (let j = 0; j < width; j++) add(memory, row + intAt(targets, from + j), at(derivative, from + j))
}

/** False when the numbers are no longer finite. All of `gradient` is written, unless only the loss is wanted. @internal */
export function* pass(
  space: Space,
  installer: Installer,
  adapted: Adapted,
  task: Pick<Task, "config" | "forwardOnly" | "loss">,
  shared: SharedBatch,
  { from: first, to }: Part,
  gradient: Float32Array
): Work<boolean> {
  const { architecture, kernels, layout, memory, training } = space
  const { logits: wide, model: { normEpsilon, width }, unembed } = architecture
  const { logits, normed } = training
  const slots = Array.from({ length: to - first }, (_, index) => slotAt(shared, first + index))
  const batch = makeBatch(slots.map(({ tokens }) => tokens))
  const count = batch.tokens.length
  const installed = yield* installer.install(adapted)
  yield* forward(space, installed, batch)
  const last = training.streams[architecture.blocks.length] ?? 0
  kernels.normalize(last, normed, layout.weights + architecture.finalNorm, width, count, normEpsilon)
  yield

  /** Writes the logprobs of a row whose logits are ready; says what its logits are shifted by. */
  const score = ({ logprobs, targets, width }: Slot, position: number, line: number): number => {
    const shift = normalizer(space, line)
    for (let j = position * width; j < (position + 1) * width; j++) {
      // Rounding must not make anything more than certain.
      logprobs[j] = Math.min(0, at(memory, line + intAt(targets, j)) - shift)
    }
    return shift
  }
  // a derivative needs the ratio of its whole sequence: all are scored before
  if (task.loss === "gspo") {
    const rowOwners = slots.flatMap((slot) => Array.from(slot.tokens, (_, position) => ({ slot, position })))
    for (let from = 0; from < count; from += layout.logitRows) {
      const rows = Math.min(layout.logitRows, count - from)
      yield* project(space, installed, unembed, normed + from * width, logits, rows, 0)
      finishLogits(space, logits, batch.tokens, from, rows)
      yield
      for (const [row, { position, slot }] of rowOwners.slice(from, from + rows).entries()) {
        score(slot, position, logits + row * wide)
      }
      yield
    }
    for (const slot of slots) slot.ratio = sequenceRatio(slot.logprobs, slot.inputs)
  }

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
      if (slot === undefined) return false
      const { inputs, logprobs, tokens, width: cells } = slot
      const line = logits + row * wide
      const shift = score(slot, position, line)
      slot.loss += evaluateLoss(
        task.loss,
        task.config,
        logprobs,
        inputs,
        slot.elementwise,
        slot.derivative,
        position * cells,
        (position + 1) * cells,
        slot.ratio
      )
      if (!task.forwardOnly) logitGradient(space, line, shift, slot, position)
      position++
      if (position === tokens.length) {
        if (!Number.isFinite(slot.loss) || !slot.derivative.every(Number.isFinite)) return false
        shared.losses[first + example] = slot.loss
        position = 0
        example++
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
  return true
}
