/**
 * The problems, how they are asked, and the worth of an answer. Yours go here.
 */
export interface Sum {
  readonly a: number
  readonly b: number
}

/** Sums of three digits with a carry in every column, no two of them the same. */
const sums: ReadonlyArray<Sum> = Array.from({ length: 900 }, (_, n) => ({
  a: 100 + (467 * n) % 900,
  b: 100 + (613 * n + 211) % 900
})).filter(({ a, b }) => [10, 100, 1000].every((place) => a % place + b % place >= place))

/** Problems that the model is measured by; it never trains on these. */
export const heldOut = sums.slice(0, 32)

export const training = sums.slice(32)

export const question = ({ a, b }: Sum) => `What is ${a} + ${b}?`

/** 1 for a right answer, 0 for anything else; any number will do. */
export const reward = ({ a, b }: Sum, answer: string) => answer.trim() === String(a + b) ? 1 : 0
