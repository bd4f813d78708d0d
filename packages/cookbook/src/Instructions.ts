/**
 * Instructions whose following can be checked by a rule, such as "at least 300 words" or "no commas": the 25 kinds of IFEval.
 *
 * The rules are those of the paper's own checker, which `lm-eval` has too. Sentences are found by their punctuation, without a
 * list of abbreviations. The package `franc`, which three kinds need, determines the language of a text.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as JsonText from "./JsonText.js"
import * as Language from "./Language.js"

/**
 * An instruction: its kind, such as `length_constraints:number_words`, and what it says.
 *
 * @since 0.2.0
 * @category models
 */
export interface Instruction {
  readonly kind: string
  readonly arguments: Readonly<Record<string, unknown>>
}

/**
 * An instruction of a kind that there is no rule for.
 *
 * @since 0.2.0
 * @category errors
 */
export class UnknownInstruction
  extends Schema.TaggedError<UnknownInstruction>("@effect-tinker/cookbook/Instructions/UnknownInstruction")(
    "UnknownInstruction",
    { kind: Schema.String }
  )
{
  override get message(): string {
    return `There is no rule for instructions of the kind ${this.kind}`
  }
}

type Rule = (answer: string, given: Given, detect: Language.Detect) => boolean

/** Arguments of an instruction; what is missing is empty. */
interface Given {
  readonly text: (name: string) => string
  readonly number: (name: string) => number
  readonly texts: (name: string) => ReadonlyArray<string>
}

const givenOf = (given: Readonly<Record<string, unknown>>): Given => ({
  text: (name) => typeof given[name] === "string" ? given[name] : "",
  number: (name) => typeof given[name] === "number" ? given[name] : 0,
  texts: (name) => Array.isArray(given[name]) ? given[name].filter((one) => typeof one === "string") : []
})

const count = (text: string, pattern: RegExp): number => Array.from(text.matchAll(pattern)).length

/** "less than" a number, or at least that many. */
const compare = (found: number, relation: string, wanted: number): boolean =>
  relation === "less than" ? found < wanted : found >= wanted

/** A word of an instruction as a pattern: those that are no valid pattern are looked for as they are. */
const pattern = (source: string, flags: string): RegExp => {
  try {
    return new RegExp(source, flags)
  } catch {
    return new RegExp(source.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), flags)
  }
}

const word = "[\\p{L}\\p{N}_]"

/** Between a letter of a word and anything else, in every script. */
const wholeWord = (text: string): RegExp =>
  pattern(
    `(?:(?<=${word})(?!${word})|(?<!${word})(?=${word}))${text}(?:(?<=${word})(?!${word})|(?<!${word})(?=${word}))`,
    "iu"
  )

const sentenceEnd = /[.?!]+["')\]}]*(?=\s)/g

/** Sentences by their punctuation: an ellipsis and an initial before a capital letter end none. */
const sentences = (text: string): number => {
  const trimmed = text.trim()
  if (trimmed === "") return 0
  let found = 1
  for (const match of trimmed.matchAll(sentenceEnd)) {
    const before = /\S*$/.exec(trimmed.slice(0, match.index))?.[0] ?? ""
    const after = /\S/.exec(trimmed.slice(match.index + match[0].length))?.[0] ?? ""
    const marks = /^[.?!]+/.exec(match[0])?.[0] ?? ""
    const isEllipsis = marks.startsWith("..")
    const isInitial = marks === "." && /^[^\W\d]$/u.test(before) && /\p{Lu}/u.test(after)
    if (!isEllipsis && !isInitial) found++
  }
  return found
}

const isUpper = (text: string): boolean => /\p{Lu}/u.test(text) && !/[\p{Ll}\p{Lt}]/u.test(text)
const isLower = (text: string): boolean => /\p{Ll}/u.test(text) && !/[\p{Lu}\p{Lt}]/u.test(text)

/** Words and punctuation apart from each other, as they are counted when capitals are. */
const tokens = (text: string): ReadonlyArray<string> =>
  text.match(/[\p{L}\p{N}_]+(?:[-.'’/@&][\p{L}\p{N}_]+)*\.?|[^\s\p{L}\p{N}_]/gu) ?? []

const strip = (text: string, character: string): string => {
  let [start, end] = [0, text.length]
  while (start < end && text[start] === character) start++
  while (end > start && text[end - 1] === character) end--
  return text.slice(start, end)
}

const json = (text: string): string => {
  let bare = text.trim()
  for (const fence of ["```json", "```Json", "```JSON", "```"]) {
    if (bare.startsWith(fence)) bare = bare.slice(fence.length)
  }
  return (bare.endsWith("```") ? bare.slice(0, -3) : bare).trim()
}

const firstWord = (paragraph: string): string => {
  const start = (paragraph.split(/\s+/)[0] ?? "").replace(/^'+/, "").replace(/^"+/, "")
  return (/^[^.,?!'"]*/.exec(start)?.[0] ?? "").toLowerCase()
}

const postscripts: Readonly<Record<string, RegExp>> = {
  "P.P.S": /p\.\s?p\.\s?s/,
  "P.S.": /p\.\s?s\./
}

const rules: Readonly<Record<string, Rule>> = {
  "keywords:existence": (answer, given) => given.texts("keywords").every((one) => pattern(one, "i").test(answer)),
  "keywords:frequency": (answer, given) =>
    compare(
      count(answer, pattern(given.text("keyword").trim(), "gi")),
      given.text("relation"),
      given.number("frequency")
    ),
  "keywords:forbidden_words": (answer, given) =>
    !given.texts("forbidden_words").some((one) => wholeWord(one).test(answer)),
  "keywords:letter_frequency": (answer, given) => {
    const letter = given.text("letter").trim().toLowerCase()
    const found = Array.from(answer.toLowerCase()).filter((one) => one === letter).length
    return compare(found, given.text("let_relation"), given.number("let_frequency"))
  },
  "language:response_language": (answer, given, detect) => {
    const found = detect(answer)
    return found === undefined || found === given.text("language")
  },
  "length_constraints:number_sentences": (answer, given) =>
    compare(sentences(answer), given.text("relation"), given.number("num_sentences")),
  "length_constraints:number_paragraphs": (answer, given) => {
    const paragraphs = answer.split(/\s?\*\*\*\s?/)
    const empty = paragraphs.map((one) => one.trim() === "")
    if (empty.slice(1, -1).includes(true)) return false
    const filled = empty.filter((one) => !one).length
    return filled === given.number("num_paragraphs")
  },
  "length_constraints:number_words": (answer, given) =>
    compare(count(answer, /[\p{L}\p{N}_]+/gu), given.text("relation"), given.number("num_words")),
  "length_constraints:nth_paragraph_first_word": (answer, given) => {
    const paragraphs = answer.split("\n\n")
    const filled = paragraphs.filter((one) => one.trim() !== "").length
    const nth = given.number("nth_paragraph")
    const paragraph = paragraphs[nth - 1]?.trim() ?? ""
    return nth <= filled && paragraph !== "" && filled === given.number("num_paragraphs") &&
      firstWord(paragraph) === given.text("first_word").toLowerCase()
  },
  "detectable_content:number_placeholders": (answer, given) =>
    count(answer, /\[.*?\]/g) >= given.number("num_placeholders"),
  "detectable_content:postscript": (answer, given) => {
    const marker = given.text("postscript_marker").trim()
    return (postscripts[marker] ?? pattern(marker.toLowerCase(), "")).test(answer.toLowerCase())
  },
  "detectable_format:number_bullet_lists": (answer, given) =>
    count(answer, /^\s*\*[^*].*$/gm) + count(answer, /^\s*-.*$/gm) === given.number("num_bullets"),
  "detectable_format:constrained_response": (answer) =>
    ["My answer is yes.", "My answer is no.", "My answer is maybe."].some((one) => answer.includes(one)),
  "detectable_format:number_highlighted_sections": (answer, given) => {
    const single = (answer.match(/\*[^\n*]*\*/g) ?? []).filter((one) => strip(one, "*").trim() !== "")
    const double = (answer.match(/\*\*[^\n*]*\*\*/g) ?? []).filter((one) => one.slice(2, -2).trim() !== "")
    return single.length + double.length >= given.number("num_highlights")
  },
  "detectable_format:multiple_sections": (answer, given) =>
    count(answer, pattern(`\\s?${given.text("section_spliter").trim()}\\s?\\d+\\s?`, "g")) >=
      given.number("num_sections"),
  "detectable_format:json_format": (answer) => Either.isRight(JsonText.parse(json(answer))),
  "detectable_format:title": (answer) =>
    (answer.match(/<<[^\n]+>>/g) ?? []).some((title) => title.replace(/^<+/, "").replace(/>+$/, "").trim() !== ""),
  "combination:two_responses": (answer) => {
    const parts = answer.split("******").map((one) => one.trim())
    const filled = parts.filter((one) => one !== "")
    return !parts.slice(1, -1).includes("") && filled.length === 2 && filled[0] !== filled[1]
  },
  "combination:repeat_prompt": (answer, given) =>
    answer.trim().toLowerCase().startsWith(given.text("prompt_to_repeat").trim().toLowerCase()),
  "startend:end_checker": (answer, given) =>
    strip(answer.trim(), "\"").toLowerCase().endsWith(given.text("end_phrase").trim().toLowerCase()),
  "startend:quotation": (answer) => {
    const text = answer.trim()
    return text.length > 1 && text.startsWith("\"") && text.endsWith("\"")
  },
  "change_case:capital_word_frequency": (answer, given) =>
    compare(tokens(answer).filter(isUpper).length, given.text("capital_relation"), given.number("capital_frequency")),
  "change_case:english_capital": (answer, _, detect) => isUpper(answer) && (detect(answer) ?? "en") === "en",
  "change_case:english_lowercase": (answer, _, detect) => isLower(answer) && (detect(answer) ?? "en") === "en",
  "punctuation:no_comma": (answer) => !answer.includes(",")
}

/**
 * The kinds of instructions that there are rules for.
 *
 * @since 0.2.0
 * @category constants
 */
export const kinds: ReadonlyArray<string> = Object.keys(rules)

/** Kinds that ask for the language of an answer. */
const needLanguage: ReadonlySet<string> = new Set([
  "language:response_language",
  "change_case:english_capital",
  "change_case:english_lowercase"
])

/**
 * Which instructions an answer follows, in their order. An empty answer follows none.
 *
 * @since 0.2.0
 * @category grading
 */
export const follows: (
  answer: string,
  instructions: ReadonlyArray<Instruction>
) => Effect.Effect<ReadonlyArray<boolean>, UnknownInstruction | Language.LanguageUnavailable> = Effect.fnUntraced(
  function*(answer, instructions) {
    const detect = instructions.some(({ kind }) => needLanguage.has(kind)) ? yield* Language.detector : () => undefined
    return yield* Effect.forEach(instructions, ({ arguments: given, kind }) => {
      const rule = rules[kind]
      return rule === undefined
        ? new UnknownInstruction({ kind })
        : Effect.sync(() => answer.trim() !== "" && rule(answer, givenOf(given), detect))
    })
  }
)
