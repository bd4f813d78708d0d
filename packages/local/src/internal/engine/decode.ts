/**
 * One token further for many sequences at once. Keys and values of earlier tokens are remembered; those of a prompt
 * are shared by all its completions.
 */
import { at } from "./floats.js"
import { activate, apply, embed } from "./forward.js"
import { normalise, rotate } from "./layers.js"
import type { Workspace } from "./workspace.js"

/** Keys and values per layer, one row of both per token. @internal */
export interface Cache {
  readonly layers: Array<Float32Array>
  length: number
}

/** @internal */
export const makeCache = (workspace: Workspace, capacity: number): Cache => ({
  layers: workspace.layers.map(() => new Float32Array(capacity * 2 * workspace.shape.model.width)),
  length: 0
})

/** Appends a row of `qkv` to one layer. */
const remember = (workspace: Workspace, cache: Cache, layer: number, position: number, row: number): void => {
  const { memory, shape: { model: { width } } } = workspace
  let store = cache.layers[layer]
  if (store === undefined) return
  const start = position * 2 * width
  if (start >= store.length) {
    const larger = new Float32Array(store.length * 2)
    larger.set(store)
    cache.layers[layer] = store = larger
  }
  store.set(memory.subarray(row + width, row + 3 * width), start)
}

/** Keeps the keys and values a forward pass over one prompt left behind. @internal */
export const rememberPrompt = (workspace: Workspace, length: number): Cache => {
  const cache = makeCache(workspace, length)
  const row = 3 * workspace.shape.model.width
  workspace.layers.forEach((saved, layer) => {
    for (let i = 0; i < length; i++) remember(workspace, cache, layer, i, saved.qkv + i * row)
  })
  cache.length = length
  return cache
}

/** A sequence being continued. @internal */
export interface Continuation {
  readonly prompt: Cache
  readonly own: Cache
  /** The last token, not yet seen by the model. */
  token: number
}

/** Attention of one row of queries over everything remembered for its sequence, this row included. */
const attendRow = (
  workspace: Workspace,
  row: number,
  target: number,
  prompt: Float32Array,
  promptLength: number,
  own: Float32Array,
  ownLength: number,
  weights: Float32Array
): void => {
  const { memory, shape: { headSize, model: { heads, width } } } = workspace
  const stride = 2 * width
  const scale = 1 / Math.sqrt(headSize)
  const length = promptLength + ownLength
  for (let head = 0; head < heads; head++) {
    const query = row + head * headSize
    let top = -Infinity
    for (let j = 0; j < length; j++) {
      const store = j < promptLength ? prompt : own
      const key = (j < promptLength ? j : j - promptLength) * stride + head * headSize
      let score = 0
      for (let i = 0; i < headSize; i++) score += at(memory, query + i) * at(store, key + i)
      score *= scale
      weights[j] = score
      if (score > top) top = score
    }
    let sum = 0
    for (let j = 0; j < length; j++) {
      const value = Math.exp(at(weights, j) - top)
      weights[j] = value
      sum += value
    }
    const out = target + head * headSize
    memory.fill(0, out, out + headSize)
    for (let j = 0; j < length; j++) {
      const store = j < promptLength ? prompt : own
      const value = (j < promptLength ? j : j - promptLength) * stride + width + head * headSize
      const weight = at(weights, j) / sum
      for (let i = 0; i < headSize; i++) memory[out + i] = at(memory, out + i) + weight * at(store, value + i)
    }
  }
}

/** Feeds each continuation its last token; the new hidden rows are in `normedFinal`, in the same order. @internal */
export const decodeStep = (workspace: Workspace, rows: ReadonlyArray<Continuation>): Int32Array => {
  const { memory, shape, x } = workspace
  const { contextLength, hidden, width } = shape.model
  const count = rows.length
  const tokens = Int32Array.from(rows, ({ token }) => token)
  const weights = new Float32Array(contextLength)
  embed(workspace, tokens)
  for (const [layer, block] of shape.blocks.entries()) {
    const saved = workspace.layers[layer]
    if (saved === undefined) break
    normalise(memory, x, saved.normed1, saved.scale1, width, 0, count)
    apply(workspace, block.qkv, saved.normed1, saved.qkv, 0, count, false)
    rows.forEach(({ own, prompt }, index) => {
      const row = saved.qkv + index * 3 * width
      rotate(workspace, row, prompt.length + own.length, 1)
      remember(workspace, own, layer, own.length, row)
      const promptStore = prompt.layers[layer]
      const ownStore = own.layers[layer]
      if (promptStore === undefined || ownStore === undefined) return
      attendRow(
        workspace,
        row,
        saved.attended + index * width,
        promptStore,
        prompt.length,
        ownStore,
        own.length + 1,
        weights
      )
    })
    apply(workspace, block.out, saved.attended, x, 0, count, true)
    normalise(memory, x, saved.normed2, saved.scale2, width, 0, count)
    apply(workspace, block.up, saved.normed2, saved.rectified, 0, count, false)
    activate(memory, saved.rectified, workspace.hidden, 0, count * hidden)
    apply(workspace, block.down, workspace.hidden, x, 0, count, true)
  }
  for (const { own } of rows) own.length++
  normalise(memory, x, workspace.normedFinal, workspace.scaleFinal, width, 0, count)
  return tokens
}
