/**
 * Reading a prompt: what was asked about its own tokens, the keys and values for its completions, and the first
 * distribution to draw from.
 */
import type { Result } from "../../LocalSampler.js"
import { makeBatch } from "./batch.js"
import type { Cache } from "./decode.js"
import { rememberPrompt } from "./decode.js"
import { draw, makeTopK, writeTopK } from "./draw.js"
import { at, intAt } from "./floats.js"
import { forward, logSoftmax, unembed } from "./forward.js"
import type { Query } from "./query.js"
import { makeRandom } from "./random.js"
import type { Work } from "./work.js"
import type { Workspace } from "./workspace.js"

/** @internal */
export interface Prefilled {
  readonly cache: Cache
  /** Log probabilities of the token after the prompt. */
  readonly next: Float32Array
  readonly scores: Omit<Result, "sequences">
}

// The stream of random numbers for alternatives; completions use 0, 1, 2, ...
const alternativesStream = 0x7fffffff

/** @internal */
export function* prefill(workspace: Workspace, query: Query, seed: number): Work<Prefilled> {
  const { logits, shape: { model: { vocabularySize } } } = workspace
  const { altTokens, prompt, scoreFrom, targets, topkPrompt } = query
  const { length } = prompt
  yield* forward(workspace, makeBatch([prompt]))
  const cache = rememberPrompt(workspace, length)
  yield
  // Row i speaks about position i + 1.
  const everyRow = targets !== undefined || altTokens > 0
  const scored = query.promptLogprobs || topkPrompt > 0
  const first = everyRow ? 0 : scored ? scoreFrom - 1 : length - 1
  yield* unembed(workspace, prompt, first, length)
  const promptLogprobs = query.promptLogprobs ? new Float32Array(length).fill(NaN) : undefined
  const topk = topkPrompt > 0 ? makeTopK(length, topkPrompt) : undefined
  const targetScores = targets === undefined ? undefined : new Float32Array(targets.ids.length)
  const alternatives = altTokens > 0
    ? { tokens: new Int32Array((length - 1) * altTokens), logprobs: new Float32Array((length - 1) * altTokens) }
    : undefined
  const next = new Float32Array(vocabularySize)
  const random = makeRandom(seed, alternativesStream)
  for (let i = first; i < length; i++) {
    const logprobs = logSoftmax(workspace, logits + i * vocabularySize)
    // Ranking a whole vocabulary takes longer than reading one number of it.
    if (i % (topkPrompt > 0 || altTokens > 0 ? 8 : 64) === 7) yield
    if (i === length - 1) {
      next.set(logprobs)
      break
    }
    if (i + 1 >= scoreFrom) {
      if (promptLogprobs !== undefined) promptLogprobs[i + 1] = at(logprobs, intAt(prompt, i + 1))
      if (topk !== undefined) writeTopK(logprobs, topkPrompt, i + 1, topk)
    }
    if (targets !== undefined && targetScores !== undefined) {
      for (let cell = i * targets.columns; cell < (i + 1) * targets.columns; cell++) {
        const id = intAt(targets.ids, cell)
        if (id >= 0) targetScores[cell] = at(logprobs, id)
      }
    }
    if (alternatives !== undefined) {
      for (let cell = i * altTokens; cell < (i + 1) * altTokens; cell++) {
        const token = draw(logprobs, { temperature: query.settings.temperature, topK: -1, topP: 1 }, random)
        alternatives.tokens[cell] = token
        alternatives.logprobs[cell] = at(logprobs, token)
      }
    }
  }
  return {
    cache,
    next,
    scores: {
      ...(promptLogprobs === undefined ? {} : { promptLogprobs }),
      ...(topk === undefined ? {} : { topkPromptLogprobs: topk }),
      ...(targetScores === undefined || targets === undefined
        ? {}
        : { targetPromptLogprobs: { data: targetScores, shape: [length - 1, targets.columns] } }),
      ...(alternatives === undefined
        ? {}
        : { promptAltTokens: { ...alternatives, shape: [length - 1, altTokens] as const } })
    }
  }
}
