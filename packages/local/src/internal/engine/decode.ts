/**
 * One token further for many sequences at once. Keys and values of earlier tokens are remembered, those of a prompt
 * once for all its completions. Between turns they rest outside the workspace, so that others can use it.
 */
import { digest, embed, project, rotate } from "./forward.js"
import type { Workspace } from "./workspace.js"

/** Keys and values per layer, one row of both per token. @internal */
export interface Cache {
  readonly layers: Array<Float32Array>
  length: number
}

/** @internal */
const emptyCache = (): Cache => ({ layers: [], length: 0 })

/** Floats of a token's keys and values in one layer. */
const rowSize = (workspace: Workspace): number => 2 * workspace.shape.model.width

const place = (workspace: Workspace, layer: number, slot: number): number =>
  workspace.cache + (layer * workspace.cacheTokens + slot) * rowSize(workspace)

/** Keeps the keys and values a forward pass over one prompt left behind. @internal */
export const rememberPrompt = (workspace: Workspace, length: number): Cache => {
  const { layers, memory, shape: { model: { width } } } = workspace
  return {
    length,
    layers: layers.map(({ qkv }) => {
      const rows = new Float32Array(length * 2 * width)
      for (let i = 0; i < length; i++) {
        const row = qkv + i * 3 * width
        rows.set(memory.subarray(row + width, row + 3 * width), i * 2 * width)
      }
      return rows
    })
  }
}

/** A sequence being continued. @internal */
export interface Continuation {
  readonly cache: Cache
  /** The last token, not yet seen by the model. */
  token: number
  /** Tokens seen by the model, those of the prompt not counted. */
  seen: number
  /** Where its keys and values are during a turn. */
  slot: number
}

/** @internal */
export const makeContinuation = (): Continuation => ({ cache: emptyCache(), token: 0, seen: 0, slot: 0 })

const bring = (workspace: Workspace, cache: Cache, slot: number): void =>
  cache.layers.forEach((rows, layer) =>
    workspace.memory.set(rows.subarray(0, cache.length * rowSize(workspace)), place(workspace, layer, slot))
  )

/** How many of the continuations can take a turn of `tokens` tokens together, at least one. @internal */
export const groupSize = (
  workspace: Workspace,
  prompt: Cache,
  rows: ReadonlyArray<Continuation>,
  tokens: number
): number => {
  let used = prompt.length
  let count = 0
  for (const { seen } of rows) {
    used += seen + tokens
    if (count > 0 && (used > workspace.cacheTokens || count === workspace.capacity)) break
    count++
  }
  return count
}

/** Brings what is remembered into the workspace, with room for `tokens` more per sequence. @internal */
export const beginTurn = (
  workspace: Workspace,
  prompt: Cache,
  rows: ReadonlyArray<Continuation>,
  tokens: number
): void => {
  bring(workspace, prompt, 0)
  let slot = prompt.length
  for (const row of rows) {
    row.slot = slot
    bring(workspace, row.cache, slot)
    slot += row.seen + tokens
  }
}

/** Takes what a turn added out of the workspace again. @internal */
export const endTurn = (workspace: Workspace, rows: ReadonlyArray<Continuation>): void => {
  const size = rowSize(workspace)
  for (const { cache, seen, slot } of rows) {
    workspace.layers.forEach((_, layer) => {
      const known = cache.layers[layer]
      const from = place(workspace, layer, slot)
      if (known !== undefined && known.length >= seen * size) {
        const added = workspace.memory.subarray(from + cache.length * size, from + seen * size)
        known.set(added, cache.length * size)
      } else {
        const larger = new Float32Array(2 * seen * size)
        larger.set(workspace.memory.subarray(from, from + seen * size))
        cache.layers[layer] = larger
      }
    })
    cache.length = seen
  }
}

/** Feeds each continuation its last token; the new rows are in `normedFinal`, in the same order. @internal */
export const decodeStep = (
  workspace: Workspace,
  promptLength: number,
  rows: ReadonlyArray<Continuation>
): Int32Array => {
  const { dScores, kernels, memory, shape, x } = workspace
  const { headSize, model: { heads, width } } = shape
  const tokens = Int32Array.from(rows, ({ token }) => token)
  const scale = 1 / Math.sqrt(headSize)
  embed(workspace, tokens)
  for (const [layer, block] of shape.blocks.entries()) {
    const saved = workspace.layers[layer]
    if (saved === undefined) break
    project(workspace, block, saved, 0, rows.length)
    rows.forEach(({ seen, slot }, index) => {
      const row = saved.qkv + index * 3 * width
      rotate(workspace, row, promptLength + seen, 1)
      memory.copyWithin(place(workspace, layer, slot + seen), row + width, row + 3 * width)
      kernels.attendRow(
        row,
        saved.attended + index * width,
        place(workspace, layer, 0),
        promptLength,
        place(workspace, layer, slot),
        seen + 1,
        dScores,
        heads,
        headSize,
        scale
      )
    })
    digest(workspace, block, saved, 0, rows.length)
  }
  for (const row of rows) row.seen++
  kernels.normalise(x, workspace.normedFinal, workspace.scaleFinal, width, rows.length)
  return tokens
}
