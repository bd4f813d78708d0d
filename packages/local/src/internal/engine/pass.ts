/**
 * One packed batch through the model: logprobs of its targets, the loss, and unless only that was asked for, the
 * gradient of the adapter.
 */
import { backward } from "./backward.js"
import type { Trainable } from "./backward.js"
import { makeBatch } from "./batch.js"
import type { Example, Task } from "./examples.js"
import { add, at, intAt } from "./floats.js"
import { forward, normaliser, unembed } from "./forward.js"
import { evaluateLoss } from "./losses.js"
import type { Work } from "./work.js"
import type { Workspace } from "./workspace.js"

/** @internal */
export interface ExampleResult {
  readonly logprobs: Float32Array
  readonly elementwise: Float32Array
  readonly loss: number
}

const allFinite = (values: Float32Array): boolean => {
  for (let i = 0; i < values.length; i++) if (!Number.isFinite(at(values, i))) return false
  return true
}

/** Replaces a row of logits by their gradient. */
const logitGradient = (
  workspace: Workspace,
  row: number,
  shift: number,
  example: Example,
  position: number,
  derivative: Float32Array
): void => {
  const { kernels, memory, shape: { model: { vocabularySize } } } = workspace
  const from = position * example.width
  let sum = 0
  for (let j = 0; j < example.width; j++) sum += at(derivative, from + j)
  if (sum === 0) memory.fill(0, row, row + vocabularySize)
  else kernels.expScale(row, vocabularySize, shift, -sum)
  for (let j = 0; j < example.width; j++) add(memory, row + intAt(example.targets, from + j), at(derivative, from + j))
}

/** Undefined when the numbers are no longer finite. @internal */
export function* pass(
  workspace: Workspace,
  trainable: Trainable,
  task: Task,
  examples: ReadonlyArray<Example>
): Work<ReadonlyArray<ExampleResult> | undefined> {
  const { logits, memory, shape: { model: { vocabularySize } } } = workspace
  const batch = makeBatch(examples.map(({ tokens }) => tokens))
  yield* forward(workspace, batch)
  yield* unembed(workspace, batch.tokens, 0, batch.tokens.length)
  const results: Array<ExampleResult> = []
  let first = logits
  for (const example of examples) {
    const { length } = example.tokens
    const logprobs = new Float32Array(example.targets.length)
    const shifts = new Float32Array(length)
    for (let i = 0; i < length; i++) {
      const row = first + i * vocabularySize
      const shift = normaliser(workspace, row)
      shifts[i] = shift
      for (let j = i * example.width; j < (i + 1) * example.width; j++) {
        // Rounding must not make anything more than certain.
        logprobs[j] = Math.min(0, at(memory, row + intAt(example.targets, j)) - shift)
      }
      if (i % 128 === 127) yield
    }
    const elementwise = new Float32Array(logprobs.length)
    const derivative = new Float32Array(logprobs.length)
    const loss = evaluateLoss(task.loss, task.config, logprobs, example.inputs, elementwise, derivative)
    if (!Number.isFinite(loss) || !allFinite(derivative)) return undefined
    results.push({ logprobs, elementwise, loss })
    if (!task.forwardOnly) {
      for (let i = 0; i < length; i++) {
        logitGradient(workspace, first + i * vocabularySize, at(shifts, i), example, i, derivative)
        if (i % 128 === 127) yield
      }
    }
    first += length * vocabularySize
    yield
  }
  if (!task.forwardOnly) yield* backward(workspace, batch, trainable)
  return results
}
