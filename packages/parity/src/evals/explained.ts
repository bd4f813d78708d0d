/** Why verdicts differ, where they do. */
import type { Made } from "./answers.js"

/**
 * Rules of the cookbook that are simpler than those of IFEval's own checker, which lm-eval has and ours follow. Its relations are
 * "at most" and "exactly", so that it takes IFEval's "less than" for always fulfilled.
 */
const simpler: Readonly<Record<string, string>> = {
  "detectable_format:constrained_response": "passes every answer",
  "combination:two_responses": "asks for any separator",
  "detectable_format:title": "takes a heading or an opening << for a title",
  "combination:repeat_prompt": "passes every answer",
  "keywords:forbidden_words": "finds forbidden words within longer ones",
  "keywords:frequency": "has no relation \"less than\"",
  "keywords:letter_frequency": "has no relation \"less than\"",
  "length_constraints:number_words": "has no relation \"less than\"",
  "length_constraints:number_sentences": "has no relation \"less than\"",
  "change_case:capital_word_frequency": "counts words with a capital letter, not those in capitals",
  "length_constraints:number_paragraphs": "counts paragraphs by blank lines, not by ***, and passes more of them",
  "length_constraints:nth_paragraph_first_word": "does not count the paragraphs, and leaves out punctuation",
  "detectable_format:multiple_sections": "counts Markdown headings",
  "change_case:english_lowercase": "does not look at the language",
  "change_case:english_capital": "looks at first letters only",
  "detectable_format:number_bullet_lists": "passes more bullets than asked for",
  "detectable_content:postscript": "knows other markers",
  "startend:quotation": "passes a single mark, and single quotes",
  "startend:end_checker": "does not leave out quotes at the end",
  "detectable_format:number_highlighted_sections": "highlights over several lines count",
  "detectable_format:json_format": "passes an object within other text"
}

/** Why a project's verdict on an answer is not comparable with ours, whatever it is. */
export const apart = ({ arguments: [kind], grader }: Made, project: string): string | undefined => {
  const reason = grader === "instruction" && project === "cookbook" && typeof kind === "string"
    ? simpler[kind]
    : undefined
  return reason === undefined ? undefined : `${kind}: the cookbook ${reason}`
}

/** Why a verdict differs from ours. */
export const explain = ({ arguments: given, grader }: Made, verdict: unknown): string | undefined => {
  if (
    grader === "instruction" && given[0] === "length_constraints:number_sentences" && String(given[2]).includes("?!")
  ) {
    return "a sentence that ends in ?! is sometimes two to Punkt"
  }
  if (grader === "math" && verdict === false && given.some((text) => /\\pi \d/.test(String(text)))) {
    return "\\pi 11 is a name, pi11, to the cookbook"
  }
  return undefined
}
