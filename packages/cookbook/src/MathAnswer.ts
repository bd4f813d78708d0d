/**
 * Answers to problems of mathematics: finds the answer in a text, and decides whether two answers are the same number, expression,
 * tuple or interval.
 *
 * Answers are compared in three steps: as they are written, after everything that does not change the meaning was removed, and
 * as expressions. Two expressions are the same when they have the same values at several points, which is what a computer
 * algebra system decides by rewriting. Where an exercise asks for a form, the form counts: an integer must be given as one, and
 * a fraction must be reduced. These are the rules of the official cookbook's grader.
 *
 * @since 0.2.0
 */
import * as Option from "effect/Option"
import * as Expression from "./internal/expression.js"

// =============================================================================
// finding the answer
// =============================================================================

/**
 * The content of the first `\boxed{…}`, which may have braces of its own.
 *
 * @since 0.2.0
 * @category combinators
 */
export const firstBoxed = (text: string): Option.Option<string> => {
  const marker = "\\boxed{"
  const at = text.indexOf(marker)
  if (at < 0) return Option.none()
  const start = at + marker.length
  let depth = 1
  for (let i = start; i < text.length; i++) {
    if (text[i] === "{") depth++
    else if (text[i] === "}" && --depth === 0) return Option.some(text.slice(start, i))
  }
  return Option.none()
}

/**
 * The content of the last `\boxed{…}`, or a bare word or number after `\boxed`. Nothing where the braces of the text do not
 * match.
 *
 * @since 0.2.0
 * @category combinators
 */
export const lastBoxed = (text: string): Option.Option<string> => {
  const open: Array<number> = []
  let last: string | undefined
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "{") open.push(i)
    else if (text[i] === "}") {
      const start = open.pop()
      if (start === undefined) return Option.none()
      if (text.slice(Math.max(0, start - 6), start) === "\\boxed") last = text.slice(start + 1, i)
    }
  }
  return last === undefined
    ? Option.fromNullable(/\\boxed\s+([a-zA-Z0-9]+)/.exec(text)?.[1])
    : Option.some(last)
}

/**
 * The first number of a text in LaTeX, or the text without its markup where it has none.
 *
 * @since 0.2.0
 * @category combinators
 */
export const firstNumber = (text: string): string => {
  const bare = text.replace(/\\text\{[^}]*\}/g, "").replace(/\\[a-zA-Z]+/g, "").replace(/[{}$, ]/g, "")
  return /-?\d+\.?\d*/.exec(bare)?.[0] ?? bare.trim()
}

/**
 * The number that an answer to a word problem comes to, as digits: from `\boxed{…}`, after `####`, after "answer is", from the
 * last bold number, or else the last number of all. Empty where there is none.
 *
 * @since 0.2.0
 * @category combinators
 */
export const finalNumber = (text: string): string => {
  const boxed = Option.getOrElse(firstBoxed(text), () => "")
  if (boxed !== "") return firstNumber(boxed)
  const marked = /####\s*(.+)/.exec(text)?.[1]
  if (marked !== undefined) return firstNumber(marked)
  const stated = /(?:answer is|answer:)\s*\$?([0-9,.-]+)/i.exec(text)?.[1]
  if (stated !== undefined) return stated.trim().replaceAll(",", "").replace(/\.+$/, "")
  const bold = Array.from(text.matchAll(/\*\*\$?(-?\d+[,\d]*\.?\d*)/g), (match) => match[1] ?? "").at(-1)
  if (bold !== undefined) return bold.replaceAll(",", "").replace(/\.+$/, "")
  return Array.from(text.matchAll(/-?\d+[,\d]*\.?\d*/g), ([number]) => number).at(-1)?.replaceAll(",", "") ?? ""
}

const decimal = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i

/** A number as it is usually written; `NaN` for anything else. */
const numberOf = (text: string): number => decimal.test(text.trim()) ? Number(text.trim()) : NaN

/**
 * Whether an answer to a word problem comes to a number, up to 0.00001.
 *
 * @since 0.2.0
 * @category grading
 */
export const isNumber = (answer: string, expected: string): boolean => {
  const [given, wanted] = [finalNumber(answer), expected.replaceAll(",", "")]
  const difference = Math.abs(numberOf(given) - numberOf(wanted))
  return Number.isNaN(difference) ? given.trim() === wanted.trim() : difference < 1e-5
}

/**
 * Whether an answer comes to an integer from 0 to 999, which is what the AIME asks for.
 *
 * @since 0.2.0
 * @category grading
 */
export const isContestInteger = (answer: string, expected: number): boolean => {
  const boxed = Option.getOrElse(firstBoxed(answer), () => "")
  const given = numberOf(boxed === "" ? finalNumber(answer) : firstNumber(boxed))
  return Number.isInteger(given) && given >= 0 && given <= 999 && given === expected
}

// =============================================================================
// comparing answers
// =============================================================================

/** `\frac12` and `\frac1{72}` with all their braces; left as it is where something is missing. */
const braceFractions = (text: string): string => {
  const [first = "", ...rest] = text.split("\\frac")
  let braced = first
  for (const part of rest) {
    if (part.startsWith("{")) braced += `\\frac${part}`
    else if (part.length < 2) return text
    else braced += `\\frac{${part[0]}}${part[1] === "{" ? part.slice(1) : `{${part[1]}}${part.slice(2)}`}`
  }
  return braced
}

/** `\sqrt3` with braces. */
const braceRoots = (text: string): string =>
  text.split("\\sqrt").map((part, i) =>
    i === 0 || part.startsWith("{") ? part : `{${part.slice(0, 1)}}${part.slice(1)}`
  ).join("\\sqrt")

/** An answer without what does not change its meaning; `undefined` where a unit is written twice. */
const written = (answer: string): string | undefined => {
  const inText = /^\\text\{(.+?)\}$/.exec(answer.trim())?.[1]
  let text = (inText ?? answer).trim()
    .replaceAll("\n", "").replaceAll("\\!", "").replaceAll("\\\\", "\\")
    .replaceAll("tfrac", "frac").replaceAll("dfrac", "frac")
    .replaceAll("\\left", "").replaceAll("\\right", "")
    .replaceAll("^{\\circ}", "").replaceAll("^\\circ", "")
    .replaceAll("\\$", "")
  const [value = "", ...units] = text.split("\\text{ ")
  if (units.length > 1) return undefined
  text = value.replaceAll("\\%", "").replaceAll(" .", " 0.").replaceAll("{.", "{0.")
  if (text.startsWith(".")) text = `0${text}`
  const [name = "", right, ...more] = text.split("=")
  if (right !== undefined && more.length === 0 && name.length <= 2) text = right
  text = braceFractions(braceRoots(text).replaceAll(" ", ""))
  if (text === "0.5") return "\\frac{1}{2}"
  const quotient = /^(-?(?:0|[1-9]\d*))\/(-?(?:0|[1-9]\d*))$/.exec(text)
  return quotient === null ? text : `\\frac{${quotient[1]}}{${quotient[2]}}`
}

/** Thousands separators, without commas that separate the elements of a tuple. */
const joinThousands = (text: string): string => {
  let [before, after] = ["", text]
  while (before !== after) {
    before = after
    after = before.replace(/(\d),(\d\d\d)($|\D)/g, "$1$2$3")
  }
  return after
}

const isInteger = (text: string): boolean => {
  const value = numberOf(joinThousands(text))
  return Math.abs(value - Math.round(value)) <= 1e-7
}

/** Digits of an integer, which may be longer than a number is exact. */
const integerText = (text: string): string => {
  const bare = text.replaceAll(",", "").trim()
  return /^[+-]?\d+$/.test(bare) ? String(BigInt(bare.replace(/^\+/, ""))) : String(BigInt(Math.trunc(Number(bare))))
}

const units =
  /(?:degree|cm|centimeter|meter|mile|second|minute|hour|day|week|month|year|foot|feet|inch|yard)(?:es)?s? *(?:\^[0-9]+)?/g

/** An answer as plain text that an expression can be read from. */
const plain = (answer: string): string => {
  let text = (/^\\text\{(.+?)\}$/.exec(answer)?.[1] ?? answer)
    .replaceAll("\\%", "%").replaceAll("\\$", "$").replace(/[$%]/g, "")
    .replaceAll(" or ", " , ").replaceAll(" and ", " , ")
    .replaceAll("million", "*10^6").replaceAll("billion", "*10^9").replaceAll("trillion", "*10^12")
    .replace(units, "")
    .replace(/\^ *\\circ/g, "")
  if (text.startsWith("{") && text.endsWith("}")) text = text.slice(1, -1)
  text = text.replace(/,\\! */g, "")
  if (!Number.isNaN(numberOf(text)) && isInteger(text)) text = integerText(text)
  if (text.includes("\\")) text = Expression.fromLatex(text)
  text = text.replace(/- */g, "-").replace(/([0-9]) +([0-9])/g, "$1+$2").replace(/[ {}]/g, "").toLowerCase()
  return !Number.isNaN(numberOf(joinThousands(text))) && isInteger(text) ? integerText(text) : text
}

/** The elements of a tuple or an interval, or the answer alone. */
const elements = (answer: string): ReadonlyArray<string> => {
  const text = joinThousands(answer)
  return /^[()[\]][^()[\]]+[()[\]]$/.test(text) ? text.slice(1, -1).split(",").map((part) => part.trim()) : [text]
}

const isFraction = (text: string): boolean => /^-?[0-9]+.?\/0*[1-9][0-9]*.?$/.test(text)

/** More letters than this are taken for words. */
const maxLetters = 2

const isWords = (text: string): boolean => {
  const letters = text.replaceAll("sqrt", "").replaceAll("frac", "").match(/\p{L}/gu)
  return new Set(letters).size > maxLetters
}

const sameElement = (given: string, wanted: string): boolean =>
  isFraction(given) && isFraction(wanted)
    ? given === wanted
    : isInteger(given) === isInteger(wanted) && !isWords(`${given}${wanted}`) && Expression.same(given, wanted)

/**
 * Whether an answer is the same as the right one.
 *
 * @example
 * ```ts
 * import { MathAnswer } from "@effect-tinker/cookbook"
 *
 * MathAnswer.isSame("\\dfrac{\\sqrt{8}}{2}", "\\sqrt2") // true
 * MathAnswer.isSame("\\frac{2}{4}", "\\frac{1}{2}") // false: not reduced
 * ```
 *
 * @since 0.2.0
 * @category grading
 */
export const isSame = (answer: string, expected: string): boolean => {
  // what nobody would write as an answer is not worth the time to read it
  if (answer.length > 2000 || expected.length > 2000) return answer === expected
  if ((written(answer) ?? answer.trim()) === (written(expected) ?? expected.trim())) return true
  const [given, wanted] = [plain(answer), plain(expected)]
  if (given === wanted) return true
  if (given === "") return false
  const [parts, wantedParts] = [elements(given), elements(wanted)]
  if (parts.length !== wantedParts.length) return false
  // (0, 1] and [0, 1) are not the same
  if (wantedParts.length > 1 && (given[0] !== wanted[0] || given.at(-1) !== wanted.at(-1))) return false
  return parts.every((part, i) => sameElement(part, wantedParts[i] ?? ""))
}

/**
 * Whether the last boxed answer of a text is the right one.
 *
 * @since 0.2.0
 * @category grading
 */
export const isBoxed = (answer: string, expected: string): boolean =>
  Option.exists(lastBoxed(answer), (given) => isSame(given, expected))
