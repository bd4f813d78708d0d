/**
 * Samplers: frozen weights, and completions drawn from them, all completions of a request in step.
 */
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import * as EngineError from "../../EngineError.js"
import type { Snapshot } from "../../LocalAdapter.js"
import type { Result, Sampler, Sequence, Slice } from "../../LocalSampler.js"
import { snapshotFactors } from "./adapters.js"
import { beginTurn, decodeStep, endTurn, groupSize, makeContinuation } from "./decode.js"
import type { Cache, Continuation } from "./decode.js"
import { draw, makeTopK, writeTopK } from "./draw.js"
import { at } from "./floats.js"
import { logSoftmax, unembed } from "./forward.js"
import type { Machine, Machines } from "./machine.js"
import { load, merge } from "./merge.js"
import type { Packed } from "./merge.js"
import { prefill } from "./prefill.js"
import type { Query } from "./query.js"
import { checkQuery } from "./query.js"
import { makeRandom } from "./random.js"
import { makeStopWatch } from "./stops.js"
import type { Work } from "./work.js"
import type { Workspace } from "./workspace.js"

/** A completion being written. */
interface Completion {
  readonly continuation: Continuation
  /** Draws the next token from its distribution; false when the sequence is over. */
  readonly advance: (logprobs: Float32Array) => boolean
  /** What was drawn since the last time. */
  readonly take: () => Slice
  readonly finish: () => Sequence
}

const makeCompletion = (continuation: Continuation, query: Query, seed: number, index: number): Completion => {
  const random = makeRandom(seed, index)
  const watch = makeStopWatch(query.stops)
  const tokens: Array<number> = []
  const logprobs: Array<number> = []
  const rows: Array<ReturnType<typeof makeTopK>> = []
  let stopped = false
  let taken = 0
  const stopReason = (): Sequence["stopReason"] => stopped ? "stop" : "length"
  return {
    continuation,
    advance: (distribution) => {
      const token = draw(distribution, query.settings, random)
      tokens.push(token)
      logprobs.push(at(distribution, token))
      if (query.topkSample > 0) {
        const row = makeTopK(1, query.topkSample)
        writeTopK(distribution, query.topkSample, 0, row)
        rows.push(row)
      }
      continuation.token = token
      stopped = watch.push(token)
      return !stopped && tokens.length < query.maxTokens
    },
    take: () => {
      const from = taken
      taken = tokens.length
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

// Tokens per turn: enough to be worth fetching the weights for, few enough that others wait only milliseconds.
const tokensPerTurn = 16

// Whoever reads along sees words grow, at the price of fetching the weights more often.
const tokensPerSlice = 4

/** Draws the next token of each completion; returns those that go on. */
function* drawEach(
  active: ReadonlyArray<Completion>,
  distribution: (index: number) => Float32Array
): Work<ReadonlyArray<Completion>> {
  const going: Array<Completion> = []
  for (const [index, completion] of active.entries()) {
    if (completion.advance(distribution(index))) going.push(completion)
    // A draw from the likeliest tokens has to rank them all.
    if (index % 8 === 7) yield
  }
  return going
}

/** Advances all completions a few tokens; returns those that go on. */
function* advanceAll(
  workspace: Workspace,
  prompt: Cache,
  active: ReadonlyArray<Completion>,
  count: number
): Work<ReadonlyArray<Completion>> {
  const { logits, shape: { model: { vocabularySize } } } = workspace
  const rows = active.map(({ continuation }) => continuation)
  const remaining: Array<Completion> = []
  for (let from = 0; from < active.length;) {
    const to = from + groupSize(workspace, prompt, rows.slice(from), count)
    beginTurn(workspace, prompt, rows.slice(from, to), count)
    let going: ReadonlyArray<Completion> = active.slice(from, to)
    for (let turn = 0; turn < count && going.length > 0; turn++) {
      const tokens = decodeStep(workspace, prompt.length, going.map(({ continuation }) => continuation))
      yield* unembed(workspace, tokens, 0, tokens.length)
      going = yield* drawEach(going, (index) => logSoftmax(workspace, logits + index * vocabularySize))
      yield
    }
    endTurn(workspace, going.map(({ continuation }) => continuation))
    remaining.push(...going)
    from = to
  }
  return remaining
}

const makeSampler = (machine: Machine, packed: Packed): Sampler => {
  const { model } = machine.shape

  /** Reads the prompt and draws the first token of every completion. */
  const begin = Effect.fnUntraced(function*(query: Query) {
    const seed = query.seed ?? (yield* Random.nextIntBetween(0, Number.MAX_SAFE_INTEGER))
    const { cache, completions, going, healthy, scores } = yield* machine.runSampling(function*(workspace) {
      load(workspace, packed)
      const { cache, next, scores } = yield* prefill(workspace, query, seed)
      const completions = Array.from(
        { length: query.samples },
        (_, index) => makeCompletion(makeContinuation(), query, seed, index)
      )
      const going = query.maxTokens === 0 ? [] : yield* drawEach(completions, () => next)
      return { cache, completions, going, healthy: !Number.isNaN(at(next, 0)), scores }
    })
    if (!healthy) {
      return yield* new EngineError.NotFinite({
        description: "the weights give no probabilities any more; training has diverged"
      })
    }
    /** Draws more for those that go on; yields those that still do. */
    const advance = (active: ReadonlyArray<Completion>, count: number) =>
      machine.runSampling(function*(workspace) {
        load(workspace, packed)
        return yield* advanceAll(workspace, cache, active, count)
      })
    return { advance, completions, going, scores }
  })

  const complete = Effect.fnUntraced(function*(query: Query) {
    const { advance, completions, going, scores } = yield* begin(query)
    let active = going
    while (active.length > 0) active = yield* advance(active, tokensPerTurn)
    return { sequences: completions.map(({ finish }) => finish()), ...scores } satisfies Result
  })

  const follow = Effect.fnUntraced(function*(query: Query) {
    const { advance, completions, going } = yield* begin(query)
    const slices = (drawn: ReadonlyArray<Completion>) => Chunk.map(Chunk.fromIterable(drawn), ({ take }) => take())
    const rest = Stream.unfoldChunkEffect(going, (active) =>
      active.length === 0
        ? Effect.succeedNone
        : Effect.map(advance(active, tokensPerSlice), (next) => Option.some([slices(active), next] as const)))
    return Stream.concat(Stream.suspend(() => Stream.fromChunk(slices(completions))), rest)
  })

  return {
    baseModel: model.name,
    sample: (request) => Effect.flatMap(checkQuery(model, request), complete),
    stream: (request) => Effect.flatMap(checkQuery(model, request), follow)
  }
}

/** @internal */
export const makeSamplers = (machines: Machines): {
  readonly make: (source: Snapshot | string) => Effect.Effect<Sampler, EngineError.EngineError>
} => ({
  make: Effect.fnUntraced(function*(source) {
    const machine = yield* machines.get(typeof source === "string" ? source : source.baseModel)
    if (typeof source === "string") return makeSampler(machine, yield* machine.baseWeights)
    const adapter = yield* snapshotFactors(machine, source)
    return makeSampler(machine, yield* machine.runSampling((workspace) => merge(workspace, adapter, false)))
  })
})
