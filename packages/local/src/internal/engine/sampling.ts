/**
 * Sampling on one thread: each run reads its prompt, and the tokens of all completions of all runs are drawn in step, so
 * that frozen weights are read once for all of them, whatever their adapters. Between two steps others may use the same
 * buffers.
 */
import type { Result, Sequence, Slice } from "../../LocalSampler.js"
import type { Projection } from "./architecture.js"
import { hideBefore } from "./attention.js"
import type { Cache, Region } from "./cache.js"
import { copyTokens, keysAt, makeCache, remember, valuesAt } from "./cache.js"
import { draw, makeTopK, writeTopK } from "./draw.js"
import type { Adapted, SamplingInstaller, Segment } from "./factors.js"
import { makeSamplingInstaller, projectSegments } from "./factors.js"
import { at, ceil8, intAt, makeRandom } from "./numbers.js"
import { finishLogits, normalizer } from "./pass.js"
import type { Query, Stops } from "./requests.js"
import type { Space, Work } from "./space.js"
import { blockRows, sliceRows } from "./space.js"
import { addBiases, embed, place } from "./transformer.js"

/** The bytes of every token, one after the other: token t ends at `ends[t]`. @internal */
export interface TokenBytes {
  readonly bytes: Uint8Array
  readonly ends: Int32Array
}

/** State of a thread that samples from a model. @internal */
export interface SamplingThread {
  readonly space: Space
  readonly cache: Cache
  readonly tokenBytes: TokenBytes
  readonly installer: SamplingInstaller
}

/** @internal */
export const makeSamplingThread = (space: Space, tokenBytes: TokenBytes): SamplingThread => ({
  space,
  tokenBytes,
  cache: makeCache(space),
  installer: makeSamplingInstaller(space)
})

/** Rows through all blocks; `attendRows` attends for one layer. Leaves the rows, normalized, in `normed`. */
function* readRows(
  space: Space,
  segments: ReadonlyArray<Segment>,
  tokens: Int32Array,
  attendRows: (layer: number) => Work<void>
): Work<void> {
  const { architecture, kernels, layout, sampling } = space
  const { model: { activation, hidden, normEpsilon, width } } = architecture
  const { attended, normed, product, qkv, stream, up } = sampling
  const rows = tokens.length
  const into = (projection: Projection, source: number, target: number, accumulate: 0 | 1): Work<void> =>
    projectSegments(space, segments, projection, source, target, 0, rows, accumulate)
  /** Adds the result of a projection to the stream, normalized first where the model does so. */
  const addResult = function*(projection: Projection, source: number, gain: number | undefined): Work<void> {
    if (gain === undefined) return yield* into(projection, source, stream, 1)
    yield* into(projection, source, normed, 0)
    kernels.normalize(normed, normed, layout.weights + gain, width, rows, normEpsilon)
    kernels.addRow(stream, normed, rows * width)
  }
  embed(space, tokens, stream)
  for (const [layer, block] of architecture.blocks.entries()) {
    kernels.normalize(stream, normed, layout.weights + block.inputNorm, width, rows, normEpsilon)
    yield* into(block.qkv, normed, qkv, 0)
    addBiases(space, block, qkv, rows)
    yield* attendRows(layer)
    yield* addResult(block.out, attended, block.resultNorms?.attended)
    kernels.normalize(stream, normed, layout.weights + block.hiddenNorm, width, rows, normEpsilon)
    yield* into(block.up, normed, up, 0)
    kernels[activation](up, product, hidden, rows)
    yield* addResult(block.down, product, block.resultNorms?.hidden)
  }
  kernels.normalize(stream, normed, layout.weights + architecture.finalNorm, width, rows, normEpsilon)
}

/** Reads tokens of a prompt from `from` on; their keys and values go to the region. */
function* readPrompt(
  space: Space,
  segments: ReadonlyArray<Segment>,
  region: Region,
  tokens: Int32Array,
  from: number
): Work<void> {
  const { architecture, kernels, sampling: { attended, qkv, scores } } = space
  const { blocks, group, model: { attentionScale: scale, headSize, keyValueHeads }, queryWidth } = architecture
  const row = architecture.blocks[0]?.qkv.outputs ?? 0
  yield* readRows(space, segments, tokens, function*(layer) {
    const block = blocks[layer]
    if (block === undefined) return
    const run = { at: qkv, stride: row, rows: tokens.length, position: from }
    place(space, block, run, run)
    for (let i = 0; i < tokens.length; i++) remember(space, layer, region, from + i, qkv + i * row + queryWidth)
    for (let head = 0; head < keyValueHeads; head++) {
      const keys = keysAt(space, layer, region, head)
      const values = valuesAt(space, layer, region, head)
      for (let member = 0; member < group; member++) {
        const column = (head * group + member) * headSize
        for (let first = 0; first < tokens.length; first += blockRows) {
          const rows = Math.min(blockRows, tokens.length - first)
          const columns = from + first + rows
          const wide = ceil8(columns)
          const query = qkv + first * row + column
          const out = attended + first * queryWidth + column
          kernels.gemm(query, row, 1, keys, headSize * 8, scores, wide, rows, wide, headSize, 0)
          hideBefore(space, block, scores, wide, rows, from + first)
          kernels.softmax(scores, wide, rows, from + first + 1, scale)
          kernels.gemm(scores, wide, 1, values, region.capacity * 8, out, queryWidth, rows, headSize, columns, 0)
        }
        if (from + tokens.length > 1024) yield
      }
    }
  })
}

/** A completion being continued: tokens before `own` are in the prompt's region, the others in its own. */
interface Continuation {
  readonly prompt: Region
  /** How many tokens the prompt's region holds for it, a multiple of eight. */
  readonly shared: number
  readonly own: Region
  /** The last token, not yet read. */
  token: number
  /** Tokens read so far, those of the prompt included. */
  length: number
}

/** Reads the last token of each completion; nothing of the completions changes. */
function* readNext(
  space: Space,
  segments: ReadonlyArray<Segment>,
  going: ReadonlyArray<Continuation>
): Work<Int32Array> {
  const { architecture, kernels, sampling: { attended, qkv, scores } } = space
  const { blocks, group, model: { attentionScale: scale, headSize, keyValueHeads }, queryWidth } = architecture
  const row = architecture.blocks[0]?.qkv.outputs ?? 0
  const tokens = Int32Array.from(going, ({ token }) => token)
  yield* readRows(space, segments, tokens, function*(layer) {
    const block = blocks[layer]
    if (block === undefined) return
    for (const [index, { length, own, prompt, shared }] of going.entries()) {
      const query = qkv + index * row
      const run = { at: query, stride: row, rows: 1, position: length }
      place(space, block, run, run)
      remember(space, layer, own, length - shared, query + queryWidth)
      const wide = ceil8(length + 1)
      const rest = length + 1 - shared
      for (let head = 0; head < keyValueHeads; head++) {
        const heads = head * group * headSize
        const out = attended + index * queryWidth + heads
        const keys = keysAt(space, layer, own, head)
        const values = valuesAt(space, layer, own, head)
        if (shared > 0) {
          const before = keysAt(space, layer, prompt, head)
          kernels.gemm(query + heads, headSize, 1, before, headSize * 8, scores, wide, group, shared, headSize, 0)
        }
        const [to, more] = [scores + shared, wide - shared]
        kernels.gemm(query + heads, headSize, 1, keys, headSize * 8, to, wide, group, more, headSize, 0)
        for (let i = 0; i < group; i++) {
          hideBefore(space, block, scores + i * wide, wide, 1, length)
          kernels.softmax(scores + i * wide, wide, 1, length + 1, scale)
        }
        if (shared > 0) {
          const before = valuesAt(space, layer, prompt, head)
          kernels.gemm(scores, wide, 1, before, prompt.capacity * 8, out, headSize, group, headSize, shared, 0)
        }
        const adds = shared > 0 ? 1 : 0
        kernels.gemm(to, wide, 1, values, own.capacity * 8, out, headSize, group, headSize, rest, adds)
      }
    }
  })
  return tokens
}

/** Log probabilities of the rows from `from` to `to` of what was read last, given row by row. */
function* eachDistribution(
  space: Space,
  segments: ReadonlyArray<Segment>,
  tokens: Int32Array,
  from: number,
  to: number,
  receive: (logprobs: Float32Array, row: number) => void,
  pauseRows: number
): Work<void> {
  const { architecture: { logits: wide, model: { vocabularySize, width }, unembed }, layout, memory, sampling } = space
  const { logits, normed } = sampling
  for (let start = from; start < to; start += layout.logitRows) {
    const rows = Math.min(layout.logitRows, to - start)
    yield* projectSegments(space, segments, unembed, normed + start * width, logits, start, rows, 0)
    finishLogits(space, logits, tokens, start, rows)
    yield
    for (let row = 0; row < rows; row++) {
      const line = logits + row * wide
      const shift = normalizer(space, line)
      for (let j = line; j < line + vocabularySize; j++) memory[j] = Math.min(0, at(memory, j) - shift)
      receive(memory.subarray(line, line + vocabularySize), start + row)
      if (row % pauseRows === pauseRows - 1) yield
    }
  }
}

/** Follows one sequence; says whether a token ends it. @internal */
export const makeStopDetector = (stops: Stops, { bytes, ends }: TokenBytes): (token: number) => boolean => {
  const longest = stops.strings.reduce((most, { length }) => Math.max(most, length), 0)
  let tail: Array<number> = []
  const endsAt = (string: Uint8Array, end: number): boolean => {
    const start = end - string.length
    return start >= 0 && string.every((byte, index) => tail[start + index] === byte)
  }
  return (token) => {
    if (stops.tokens.includes(token)) return true
    if (longest === 0) return false
    const before = tail.length
    for (let i = token === 0 ? 0 : intAt(ends, token - 1); i < intAt(ends, token); i++) tail.push(bytes[i] ?? 0)
    for (let end = before + 1; end <= tail.length; end++) {
      if (stops.strings.some((string) => endsAt(string, end))) return true
    }
    if (tail.length > longest) tail = tail.slice(-longest)
    return false
  }
}

/** A completion being written. */
interface Completion {
  /** Draws the next token from its distribution; false when the sequence is over. */
  readonly advance: (logprobs: Float32Array) => boolean
  readonly last: () => number
  /** Everything drawn so far. */
  readonly tokens: ReadonlyArray<number>
  /** Tokens drawn since the last time; undefined when there are none. */
  readonly take: () => Slice | undefined
  readonly finish: () => Sequence
}

/** The seed of a sequence of a request: consecutive, and within the safe integers. */
const seedAt = (seed: number, index: number): number =>
  seed > Number.MAX_SAFE_INTEGER - index ? seed - 2 ** 53 + index : seed + index

const makeCompletion = (tokenBytes: TokenBytes, query: Query, seed: number, index: number): Completion => {
  const random = makeRandom(seedAt(seed, index))
  const ends = makeStopDetector(query.stops, tokenBytes)
  const tokens: Array<number> = []
  const logprobs: Array<number> = []
  const rows: Array<ReturnType<typeof makeTopK>> = []
  let stopped = false
  let ended = false
  let taken = 0
  const stopReason = (): Sequence["stopReason"] => stopped ? "stop" : "length"
  return {
    tokens,
    last: () => tokens[tokens.length - 1] ?? 0,
    advance: (distribution) => {
      const token = draw(distribution, query.settings, random)
      tokens.push(token)
      logprobs.push(at(distribution, token))
      if (query.topkSample > 0) {
        const row = makeTopK(1, query.topkSample)
        writeTopK(distribution, query.topkSample, 0, row)
        rows.push(row)
      }
      stopped = ends(token)
      return !stopped && tokens.length < query.maxTokens
    },
    take: () => {
      const from = taken
      taken = tokens.length
      // a completion that may have no tokens ends with its first, empty slice
      if (from === taken && (query.maxTokens > 0 || ended)) return undefined
      ended = query.maxTokens === 0
      return {
        index,
        tokens: Int32Array.from(tokens.slice(from)),
        logprobs: Float32Array.from(logprobs.slice(from)),
        stopReason: stopped || taken >= query.maxTokens ? stopReason() : undefined
      }
    },
    finish: () => {
      const sequence = {
        tokens: Int32Array.from(tokens),
        logprobs: Float32Array.from(logprobs),
        stopReason: stopReason()
      }
      if (query.topkSample === 0) return sequence
      const topk = makeTopK(rows.length, query.topkSample)
      rows.forEach((row, i) => {
        topk.tokenIds.set(row.tokenIds, i * query.topkSample)
        topk.logprobs.set(row.logprobs, i * query.topkSample)
      })
      return { ...sequence, topk }
    }
  }
}

// The stream of random numbers for alternatives; that of completions is 0.
const alternativesStream = 0x7fffffff

/** Requested scores of the prompt's own tokens. */
const makeScores = (query: Query, seed: number) => {
  const { altTokens, prompt, scoreFrom, targets, topkPrompt } = query
  const { length } = prompt
  const promptLogprobs = query.promptLogprobs ? new Float32Array(length).fill(NaN) : undefined
  const topk = topkPrompt > 0 ? makeTopK(length, topkPrompt) : undefined
  const targetScores = targets === undefined ? undefined : new Float32Array(targets.ids.length)
  const alternatives = altTokens > 0
    ? { tokens: new Int32Array((length - 1) * altTokens), logprobs: new Float32Array((length - 1) * altTokens) }
    : undefined
  const random = makeRandom(seed, alternativesStream)
  const everyRow = targets !== undefined || altTokens > 0
  return {
    /** The first row whose distribution is needed; row i speaks about position i + 1. */
    first: everyRow ? 0 : query.promptLogprobs || topkPrompt > 0 ? scoreFrom - 1 : length - 1,
    /** Ranking a whole vocabulary takes longer than reading one number of it. */
    pauseRows: topkPrompt > 0 || altTokens > 0 ? 8 : 64,
    receive: (logprobs: Float32Array, row: number): void => {
      if (row + 1 >= scoreFrom) {
        if (promptLogprobs !== undefined) promptLogprobs[row + 1] = at(logprobs, intAt(prompt, row + 1))
        if (topk !== undefined) writeTopK(logprobs, topkPrompt, row + 1, topk)
      }
      if (targets !== undefined && targetScores !== undefined) {
        for (let cell = row * targets.columns; cell < (row + 1) * targets.columns; cell++) {
          const id = intAt(targets.ids, cell)
          if (id >= 0) targetScores[cell] = at(logprobs, id)
        }
      }
      if (alternatives !== undefined) {
        for (let cell = row * altTokens; cell < (row + 1) * altTokens; cell++) {
          const token = draw(logprobs, { temperature: query.settings.temperature, topK: -1, topP: 1 }, random)
          alternatives.tokens[cell] = token
          alternatives.logprobs[cell] = at(logprobs, token)
        }
      }
    },
    result: (): Omit<Result, "sequences"> => ({
      ...(promptLogprobs === undefined ? {} : { promptLogprobs }),
      ...(topk === undefined ? {} : { topkPromptLogprobs: topk }),
      ...(targetScores === undefined || targets === undefined
        ? {}
        : { targetPromptLogprobs: { data: targetScores, shape: [length - 1, targets.columns] } }),
      ...(alternatives === undefined
        ? {}
        : { promptAltTokens: { ...alternatives, shape: [length - 1, altTokens] as const } })
    })
  }
}

/** A completion that is being written, and where its keys and values are. */
interface Row {
  readonly completion: Completion
  readonly continuation: Continuation
}

/** @internal */
export interface SampleRun {
  /** One more stretch of work before tokens can be drawn; says whether there is more, or that there is no room for it yet. */
  readonly prepare: () => Work<"more" | "done" | "no room">
  /** Whether the prompt has been read. */
  readonly hasReadPrompt: () => boolean
  /** The weights to draw the next token with; absent: the frozen ones. */
  readonly weights: () => Adapted | undefined
  /** Completions that are being written: `drawStep` draws a token of each. */
  readonly active: () => ReadonlyArray<Row>
  /** Takes the distributions of a step, one for each row that was active, and draws. */
  readonly receive: (row: Row, logprobs: Float32Array) => void
  /** Whether everything is drawn. */
  readonly isDone: () => boolean
  /** Whether the weights still give probabilities. */
  readonly healthy: () => boolean
  /** Tokens drawn since the last time. */
  readonly take: () => ReadonlyArray<Slice>
  readonly result: () => Result
  /** Gives all room back. */
  readonly release: () => void
}

/** Runs that are computed in one step with the first of them: no more rows, and no more adapters, than there is room for. @internal */
export const together = (
  { installer }: SamplingThread,
  runs: ReadonlyArray<SampleRun>
): ReadonlyArray<SampleRun> => {
  const chosen: Array<SampleRun> = []
  const adapters: Array<Adapted | undefined> = []
  let rows = 0
  for (const run of runs) {
    const more = run.active().length
    const adapted = run.weights()
    if (chosen.length > 0 && (rows + more > sliceRows || !installer.fit([...adapters, adapted]))) continue
    chosen.push(run)
    adapters.push(adapted)
    rows += more
  }
  return chosen
}

/** Draws the next token of every active completion of some runs. @internal */
export function* drawStep({ installer, space }: SamplingThread, runs: ReadonlyArray<SampleRun>): Work<void> {
  // rows of one adapter lie together; weights that were replaced take over between two tokens
  const groups = new Map<number | undefined, { adapted: Adapted | undefined; rows: Array<[SampleRun, Row]> }>()
  for (const run of runs) {
    const adapted = run.weights()
    const group = groups.get(adapted?.key) ?? { adapted, rows: [] }
    groups.set(adapted?.key, group)
    for (const row of run.active()) group.rows.push([run, row])
  }
  const ordered = Array.from(groups.values())
  const rows = ordered.flatMap((group) => group.rows)
  const segments = yield* installer.installAll(ordered.map(({ adapted, rows }) => ({ adapted, rows: rows.length })))
  const read = yield* readNext(space, segments, rows.map(([, { continuation }]) => continuation))
  yield* eachDistribution(space, segments, read, 0, rows.length, (logprobs, index) => {
    const [run, row] = rows[index] ?? []
    if (run !== undefined && row !== undefined) run.receive(row, logprobs)
  }, 8)
}

/** Weights of a run, which may be replaced while it goes on. @internal */
export interface RunWeights {
  /** The weights to draw the next token with; absent: the frozen ones. */
  readonly current: () => Adapted | undefined
  /** Runs with this number share the keys and values of what they read. */
  readonly namespace: number
}

/** A request in progress. @internal */
export const makeSampleRun = (
  thread: SamplingThread,
  { current, namespace }: RunWeights,
  query: Query,
  seed: number
): SampleRun => {
  const { cache, installer, space } = thread
  const { prompt, samples } = query
  const { length } = prompt
  const scores = makeScores(query, seed)
  const completions = Array.from(
    { length: samples },
    (_, index) => makeCompletion(thread.tokenBytes, query, seed, index)
  )
  const single = samples === 1
  const shared = single ? 0 : length & ~7
  const perCompletion = ceil8(length - shared + query.maxTokens)
  let region: Region | undefined
  let read = 0
  let next: Float32Array | undefined
  /** Completions not started yet, and those that are being written. */
  let waiting: ReadonlyArray<Completion> = completions
  let active: ReadonlyArray<Row> = []
  let healthy = true

  const giveBack = (own: Region): void => {
    if (own !== region) cache.free(own)
  }

  /** Reads the prompt, a piece per turn, so that short requests need not wait for long prompts. */
  function* readPiece(segments: ReadonlyArray<Segment>, region: Region): Work<void> {
    const to = Math.min(length, read + sliceRows)
    const piece = prompt.subarray(read, to)
    yield* readPrompt(space, segments, region, piece, read)
    const from = Math.max(scores.first, read)
    const start = read
    if (from < to) {
      yield* eachDistribution(space, segments, piece, from - start, to - start, (logprobs, row) => {
        if (start + row === length - 1) next = logprobs.slice()
        else scores.receive(logprobs, start + row)
      }, scores.pauseRows)
    }
    read = to
  }

  /** Begins as many completions as there is room for; false when that is none. */
  const begin = (region: Region, distribution: Float32Array): boolean => {
    const limit = Math.max(1, Math.floor(space.layout.cacheTokens / 2 / Math.max(8, perCompletion)))
    const started: Array<Row> = []
    while (waiting.length > 0 && started.length < Math.min(limit, sliceRows)) {
      const [completion, ...others] = waiting
      if (completion === undefined) break
      const own = single ? region : cache.allocate(perCompletion)
      if (own === undefined) break
      waiting = others
      if (!completion.advance(distribution)) {
        giveBack(own)
        continue
      }
      if (!single) copyTokens(space, region, shared, length - shared, own)
      started.push({ completion, continuation: { prompt: region, shared, own, token: completion.last(), length } })
    }
    active = started
    return started.length > 0 || waiting.length === 0
  }

  return {
    hasReadPrompt: () => next !== undefined,
    healthy: () => healthy,
    weights: current,
    active: () => active,
    isDone: () => active.length === 0 && waiting.length === 0,
    receive: (row, logprobs) => {
      // released while the step went on
      if (!active.includes(row)) return
      healthy &&= !Number.isNaN(at(logprobs, 0))
      // not before: a step that is broken off is done again for the rows that it has not drawn
      row.continuation.length++
      if (row.completion.advance(logprobs)) row.continuation.token = row.completion.last()
      else {
        giveBack(row.continuation.own)
        active = active.filter((other) => other !== row)
      }
    },
    *prepare() {
      region ??= cache.allocate(single ? length + query.maxTokens : length)
      if (region === undefined) return "no room"
      if (next !== undefined) return begin(region, next) ? "more" : "no room"
      const installed = yield* installer.install(current())
      if (read === 0) read = cache.reuse(namespace, prompt, region, Math.min(scores.first, length - 1))
      yield* readPiece([{ installed, rows: Math.min(sliceRows, length - read) }], region)
      if (next === undefined) return "more"
      cache.share(namespace, region, prompt, length)
      healthy = !Number.isNaN(at(next, 0))
      if (!healthy || query.maxTokens === 0) {
        waiting = []
        return "done"
      }
      // a first token is worth showing at once
      if (!begin(region, next)) return "no room"
      return active.length === 0 && waiting.length === 0 ? "done" : "more"
    },
    take: () => next === undefined ? [] : completions.flatMap(({ take }) => take() ?? []),
    result: () => ({ sequences: completions.map(({ finish }) => finish()), ...scores.result() }),
    release: () => {
      for (const { continuation } of active) giveBack(continuation.own)
      active = []
      if (region === undefined) return
      if (next === undefined) cache.free(region)
      else {
        // the next turn of a conversation begins with this one
        const [only] = completions
        if (single && only !== undefined && only.tokens.length > 1) {
          const seen = Int32Array.from([...prompt, ...only.tokens.slice(0, -1)])
          cache.share(namespace, region, seen, seen.length)
        }
        cache.release(region)
      }
      region = undefined
    }
  }
}
