import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Instructions from "../src/Instructions.js"

const follows = (kind: string, given: Readonly<Record<string, unknown>>, answer: string) =>
  Effect.map(Instructions.follows(answer, [{ kind, arguments: given }]), ([one]) => one)

/** Of each kind an answer that follows it and one that does not. */
const cases: ReadonlyArray<readonly [kind: string, given: Readonly<Record<string, unknown>>, yes: string, no: string]> =
  [
    ["keywords:existence", { keywords: ["sea", "cat"] }, "A Cat at the sea.", "A cat."],
    ["keywords:frequency", { keyword: "cat", relation: "at least", frequency: 2 }, "cat, cats", "cat"],
    ["keywords:forbidden_words", { forbidden_words: ["cat"] }, "cats", "a cat."],
    ["keywords:letter_frequency", { letter: "A", let_relation: "less than", let_frequency: 2 }, "a", "A a"],
    [
      "language:response_language",
      { language: "de" },
      "Der Hund lief schnell über die Straße.",
      "The dog ran across the road."
    ],
    [
      "length_constraints:number_sentences",
      { relation: "less than", num_sentences: 3 },
      "One. J. Smith is two!",
      "One. Two. Three."
    ],
    ["length_constraints:number_paragraphs", { num_paragraphs: 2 }, "a\n***\nb", "a\n\nb"],
    ["length_constraints:number_words", { relation: "at least", num_words: 3 }, "one two-three", "one two"],
    [
      "length_constraints:nth_paragraph_first_word",
      { nth_paragraph: 2, num_paragraphs: 2, first_word: "so" },
      "a\n\n\"So, it is.",
      "so\n\na"
    ],
    ["detectable_content:number_placeholders", { num_placeholders: 2 }, "[name] and [date]", "[name]"],
    ["detectable_content:postscript", { postscript_marker: "P.S." }, "Bye.\n\nP. S. more", "Bye. PS more"],
    ["detectable_format:number_bullet_lists", { num_bullets: 2 }, "* a\n- b", "* a\n* b\n* c"],
    ["detectable_format:constrained_response", {}, "My answer is yes.", "Yes."],
    ["detectable_format:number_highlighted_sections", { num_highlights: 2 }, "*a* and *b*", "*a* and b"],
    [
      "detectable_format:multiple_sections",
      { section_spliter: "Section", num_sections: 2 },
      "Section 1 a Section 2 b",
      "Section 1"
    ],
    ["detectable_format:json_format", {}, "```json\n{\"a\": 1}\n```", "{a: 1}"],
    ["detectable_format:title", {}, "<<A title>>\ntext", "<< >>"],
    ["combination:two_responses", {}, "a\n******\nb", "a\n******\na"],
    ["combination:repeat_prompt", { prompt_to_repeat: "Say hi" }, "say hi. Hi!", "Hi!"],
    ["startend:end_checker", { end_phrase: "The end." }, "So it was. the end.", "The end. Or not"],
    ["startend:quotation", {}, "\"a\"", "\"a"],
    [
      "change_case:capital_word_frequency",
      { capital_relation: "at least", capital_frequency: 2 },
      "STOP it NOW",
      "Stop IT now"
    ],
    ["change_case:english_capital", {}, "THIS IS WRITTEN IN ENGLISH CAPITALS.", "This is not."],
    ["change_case:english_lowercase", {}, "this is written in small english letters.", "This is not."],
    ["punctuation:no_comma", {}, "none", "one, two"]
  ]

describe("Instructions", () => {
  it("has a rule for each of the kinds of IFEval, which are 25", () => {
    assert.lengthOf(Instructions.kinds, 25)
    assert.sameMembers(cases.map(([kind]) => kind), [...Instructions.kinds])
  })

  for (const [kind, given, yes, no] of cases) {
    it.effect(kind, () =>
      Effect.gen(function*() {
        assert.isTrue(yield* follows(kind, given, yes))
        assert.isFalse(yield* follows(kind, given, no))
        assert.isFalse(yield* follows(kind, given, " "), "an empty answer follows nothing")
      }))
  }

  it.effect("says which rule it does not have", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(follows("copy:repeat", {}, "a"))
      assert.strictEqual(error._tag, "UnknownInstruction")
    }))
})
