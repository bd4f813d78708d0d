/**
 * What the quickstart teaches: a few phrases in Pig Latin by example, then a taste for vowels by reward.
 */
import { Effect } from "effect"
import { Datum } from "effect-tinker"
import type { SampledSequence } from "effect-tinker/wire/Sample"

export const phrases: ReadonlyArray<readonly [english: string, pigLatin: string]> = [
  ["quick fox", "uick-qay ox-fay"],
  ["hello world", "ello-hay orld-way"],
  ["warm bread", "arm-way ead-bray"],
  ["space ship", "ace-spay ip-shay"],
  ["rubber duck", "ubber-ray uck-day"],
  ["green tea", "een-gray ea-tay"],
  ["coding wizard", "oding-cay izard-way"]
]

interface Words {
  readonly encode: (text: string) => Int32Array
}

export const question = (words: Words, english: string): Int32Array => words.encode(`English: ${english}\nPig Latin:`)

/** The phrases as data, how many tokens they have, and how many of them count: those of the answers. */
export const lessons = (words: Words) => {
  const read = phrases.map(([english, pigLatin]) => ({
    prompt: question(words, english),
    answer: words.encode(` ${pigLatin}\n`)
  }))
  const answerTokens = read.reduce((sum, { answer }) => sum + answer.length, 0)
  return Effect.map(
    Effect.forEach(read, ({ answer, prompt }) =>
      Datum.fromTokens(Int32Array.from([...prompt, ...answer]), {
        weights: Float32Array.from([...prompt.map(() => 0), ...answer.map(() => 1)])
      })),
    (data) => ({ data, answerTokens, tokens: read.reduce((sum, { prompt }) => sum + prompt.length, answerTokens) })
  )
}

export const opening = "My favourite letters: "

/** The share of vowels in what was written. */
export const reward = (text: string): number => text === "" ? 0 : (text.match(/[aeiou]/g) ?? []).length / text.length

/** A draw as training data: every token it wrote counts as much as the whole was better than its siblings. */
export const experience = (prompt: Int32Array, sequence: SampledSequence, advantage: number) => {
  const tokens = Int32Array.from([...prompt, ...sequence.tokens])
  const read = new Float32Array(prompt.length - 1)
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
