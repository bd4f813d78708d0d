/**
 * What the quickstart teaches: a few phrases in Pig Latin by example, then a taste for vowels by reward.
 */
import { LocalTokenizer } from "@effect-tinker/local"
import { Effect } from "effect"
import { Datum } from "effect-tinker"
import type { SampledSequence } from "effect-tinker/Sample"

export const phrases: ReadonlyArray<readonly [english: string, pigLatin: string]> = [
  ["quick fox", "uick-qay ox-fay"],
  ["hello world", "ello-hay orld-way"],
  ["warm bread", "arm-way ead-bray"],
  ["space ship", "ace-spay ip-shay"],
  ["rubber duck", "ubber-ray uck-day"],
  ["green tea", "een-gray ea-tay"],
  ["coding wizard", "oding-cay izard-way"]
]

export const question = (english: string): Int32Array => LocalTokenizer.encode(`English: ${english}\nPig Latin:`)

/** Only the answer counts; the question is there to be read. */
export const lessons = Effect.forEach(phrases, ([english, pigLatin]) => {
  const prompt = question(english)
  const answer = LocalTokenizer.encode(` ${pigLatin}\n`)
  return Datum.fromTokens(Int32Array.from([...prompt, ...answer]), {
    weights: Float32Array.from([...prompt.map(() => 0), ...answer.map(() => 1)])
  })
})

/** How many tokens the lessons have. */
export const lessonTokens: number = phrases.reduce((sum, [a, b]) => sum + `English: ${a}\nPig Latin: ${b}\n`.length, 0)

/** How many of them count. */
export const answerTokens: number = phrases.reduce((sum, [, pigLatin]) => sum + pigLatin.length + 2, 0)

export const opening: Int32Array = LocalTokenizer.encode("My favourite letters: ")

const vowels = new Set(LocalTokenizer.encode("aeiou"))

/** The share of vowels in what was written. */
export const reward = (tokens: Int32Array): number =>
  tokens.length === 0 ? 0 : tokens.filter((token) => vowels.has(token)).length / tokens.length

/** A draw as training data: every token it wrote counts as much as the whole was better than its siblings. */
export const experience = (sequence: SampledSequence, advantage: number) => {
  const tokens = Int32Array.from([...opening, ...sequence.tokens])
  const read = new Float32Array(opening.length - 1)
  return Datum.make({
    modelInput: tokens.subarray(0, -1),
    lossFnInputs: {
      target_tokens: tokens.subarray(1),
      logprobs: Float32Array.from([...read, ...(sequence.logprobs ?? [])]),
      advantages: Float32Array.from([...read, ...sequence.tokens.map(() => 1)]).map((counts) => counts * advantage)
    }
  })
}

/** How much better than the average of the group each one was, in units of their spread. */
export const advantages = (rewards: ReadonlyArray<number>): ReadonlyArray<number> => {
  const mean = rewards.reduce((sum, value) => sum + value, 0) / rewards.length
  const variance = rewards.reduce((sum, value) => sum + (value - mean) ** 2, 0) / rewards.length
  return rewards.map((value) => (value - mean) / (Math.sqrt(variance) + 1e-4))
}
