/**
 * Answers to multiple-choice questions: writes the choices, and finds the letter that an answer comes to.
 *
 * @since 0.2.0
 */
import * as Option from "effect/Option"
import * as MathAnswer from "./MathAnswer.js"

/**
 * The letter of a choice, counted from 0.
 *
 * @since 0.2.0
 * @category combinators
 */
export const letter = (choice: number): string => String.fromCharCode(65 + choice)

/**
 * Choices below each other, with their letters.
 *
 * @since 0.2.0
 * @category combinators
 */
export const list = (choices: ReadonlyArray<string>): string =>
  choices.map((choice, i) => `(${letter(i)}) ${choice}`).join("\n")

/** The end of an answer, in which a letter alone is taken for the choice. */
const ending = 300

/**
 * The letter that an answer comes to, of the first so many letters: in `\boxed{…}`, after "answer is", or the last one that
 * stands alone near the end. Empty where there is none.
 *
 * @since 0.2.0
 * @category combinators
 */
export const find = (answer: string, choices: number = 4): string => {
  const letters = `[A-${letter(Math.min(26, Math.max(1, choices)) - 1)}]`
  const boxed = Option.getOrElse(MathAnswer.firstBoxed(answer), () => "").trim().toUpperCase()
  if (new RegExp(`^${letters}$`).test(boxed)) return boxed
  const stated = new RegExp(`(?:answer is|answer:)\\s*\\(?(${letters})\\)?`, "i").exec(answer)?.[1]
  if (stated !== undefined) return stated.toUpperCase()
  // characters, not halves of them; and letters of every script are part of a word
  const end = Array.from(answer).slice(-ending).join("")
  return Array.from(end.matchAll(new RegExp(`(?<![\\p{L}\\p{N}_])(${letters})(?![\\p{L}\\p{N}_])`, "gu"))).at(-1)
    ?.[1] ?? ""
}
