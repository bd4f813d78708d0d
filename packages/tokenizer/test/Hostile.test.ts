/**
 * Files from strangers: whatever they hold, loading and using them ends soon, in a tokenizer or a typed failure.
 */
import { ChatTemplate, Tokenizer } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Exit } from "effect"
import { kimiPattern } from "../src/internal/load.js"
import { patternProblem } from "../src/internal/patterns.js"
import { renders } from "./support/golden.js"
import { breathe, generator, renderGarbled, runs } from "./support/hostile.js"
import * as tiny from "./support/tiny.js"

const load = (tokenizerJson: unknown) =>
  Effect.exit(Tokenizer.fromHuggingFace({ id: "hostile", tokenizerJson, tokenizerConfig: tiny.tokenizerConfig }))

const refusal = (tokenizerJson: unknown) => Effect.flip(Tokenizer.fromHuggingFace({ id: "hostile", tokenizerJson }))

const template = (source: string, budget?: { readonly steps?: number; readonly length?: number }) =>
  Effect.flatMap(
    ChatTemplate.compile(source),
    (template) => template.render([{ role: "user", content: "hi" }], { budget })
  )

describe("tokenizer files", () => {
  it.effect("refuses an id that would fill the memory with gaps", () =>
    Effect.gen(function*() {
      const { model } = tiny.tokenizerJson
      for (const id of [2 ** 31 - 1, 2 ** 53, -1, 1.5, Number.NaN]) {
        const vocab = yield* refusal({ ...tiny.tokenizerJson, model: { ...model, vocab: { ...model.vocab, zzz: id } } })
        assert.strictEqual(vocab._tag, "TokenizerMalformed")
        assert.include(vocab.message, String(id))
      }
      const [first] = tiny.addedTokens
      const added = yield* refusal({ ...tiny.tokenizerJson, added_tokens: [{ ...first, id: 2 ** 31 - 1 }] })
      assert.include(added.message, "out of proportion")
      const ranks = yield* Effect.flip(Tokenizer.fromTiktoken({ ranks: `YQ== ${2 ** 31 - 1}\n`, pattern: "." }))
      assert.include(ranks.message, "out of proportion")
      const special = yield* Effect.flip(
        Tokenizer.fromTiktoken({ ranks: "YQ== 0\n", pattern: ".", specialTokens: { "<a>": 2 ** 31 - 1 } })
      )
      assert.include(special.message, "out of proportion")
    }))

  it.effect("refuses patterns that can take forever, wherever they are", () =>
    Effect.gen(function*() {
      const split = (Regex: string) => ({ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false })
      for (const pattern of ["(a+)+$", "(?:a*)*b", "(a|a)*$", "((a{1,9}){2,})x", "(?:(?:a+)b?)+c", "(.*,){11}P"]) {
        const inside = yield* refusal({ ...tiny.tokenizerJson, pre_tokenizer: split(pattern) })
        assert.strictEqual(inside._tag, "TokenizerMalformed", pattern)
        const nested = yield* refusal({
          ...tiny.tokenizerJson,
          normalizer: { type: "Sequence", normalizers: [{ type: "Replace", pattern: { Regex: pattern }, content: "" }] }
        })
        assert.include(nested.message, "repeats a group", pattern)
        assert.isTrue(Exit.isFailure(yield* Effect.exit(Tokenizer.fromTiktoken({ ranks: "YQ== 0\n", pattern }))))
      }
      let deep: unknown = { type: "ByteLevel" }
      for (let i = 0; i < 5000; i++) deep = { type: "Sequence", pretokenizers: [deep] }
      assert.include((yield* refusal({ ...tiny.tokenizerJson, pre_tokenizer: deep })).message, "nested")
    }))

  it("refuses patterns that take a power of the text's length", () => {
    const slow = [
      "a*a*b",
      "a*a*a*",
      "\\s*\\s*\\s*x",
      "(a*)(a*)b",
      "\\w*\\d*$",
      "a{0,1000}a{0,1000}b",
      "x*(?:x*|y)x*",
      "[^b]*c?[a-z]+(?=!)",
      "(?:ab)+(?:ab)+c",
      "(",
      ")",
      "(".repeat(100) + ")".repeat(100),
      "(a|b)".repeat(30),
      "a?".repeat(25) + "a".repeat(25),
      "a?".repeat(9_000)
    ]
    for (const pattern of slow) assert.isDefined(patternProblem(pattern), pattern)
    // what is left is at worst quadratic in a run of the same characters
    for (const pattern of ["\\s+$", "a+b", "a*ba*c", "\\s*[\\r\\n]+", "[a-z]*[A-Z]+!"]) {
      assert.isUndefined(patternProblem(pattern), pattern)
    }
  })

  it("takes the patterns of ours", () => {
    assert.isUndefined(patternProblem(kimiPattern))
    assert.isUndefined(patternProblem(Tokenizer.o200kPattern))
    assert.isUndefined(patternProblem("(?:ab)+|(?i:'s|'t)?|\\(\\)+|[(a+)+]+"))
  })
})

describe("chat templates", () => {
  it.live("stops what does not end by itself", () =>
    Effect.gen(function*() {
      const sources = [
        "{% for i in range(9007199254740992, 9007199254740994) %}x{% endfor %}",
        "{% for i in range(0, 9007199254740993, 1) %}x{% endfor %}",
        "{% for i in range(100000) %}{% for j in range(100000) %}{% for k in range(100000) %}{% endfor %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(64) %}{% set ns.x = ns.x|replace('a', ns.x) %}{% endfor %}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(64) %}{% set ns.x = ns.x.replace('a', ns.x) %}{% endfor %}",
        "{% for i in range(100000) %}{{ 'x' * 3 ~ messages|tojson(indent=1000000000) }}{% endfor %}",
        "{{ 'a\nb'|indent(500000000) }}",
        "{{ range(100000)|list|join('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') }}",
        "{% set l = range(100000)|list %}{% for i in range(100000) %}{% if -1 in l %}{% endif %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ ".repeat(50_000),
        "x".repeat(2_000_000)
      ]
      for (const source of sources) {
        const exit = yield* Effect.exit(template(source))
        assert.isTrue(Exit.isFailure(exit) && exit.cause._tag === "Fail", source.slice(0, 80))
      }
    }))

  it.effect("has a budget that callers set", () =>
    Effect.gen(function*() {
      const source = "{% for i in range(1000) %}{{ i }},{% endfor %}"
      assert.strictEqual((yield* template(source)).length, 3890)
      assert.include((yield* Effect.flip(template(source, { steps: 100 }))).message, "100 steps")
      assert.include((yield* Effect.flip(template(source, { length: 100 }))).message, "100 characters")
    }))

  it.effect("still renders what filters that are watched write", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        yield* template(
          "{{ 'abca'|replace('a', 'xy') }}{{ 'abca'.replace('a', 'z') }}{{ [1, 'b']|join('-') }}{{ 'a\nb'|indent(2) }}"
        ),
        "xybcxyzbcz1-ba\n  b"
      )
    }))
})

const odd: ReadonlyArray<unknown> = [
  null,
  true,
  -1,
  0,
  1.5,
  2 ** 31 - 1,
  2 ** 53,
  1e308,
  "",
  "a",
  "(a+)+$",
  "(a|a)*b",
  "a*a*a*a*a*b",
  "\\p{L}+",
  "[",
  "Ġ",
  "<|end|>",
  [],
  [[]],
  {},
  { type: "Sequence", pretokenizers: [] },
  { type: "Unigram", vocab: [["", 0]], unk_id: 0 },
  { type: "WordPiece", vocab: { "": 0 } },
  { type: "Replace", pattern: { Regex: "a*" }, content: "aa" },
  { Regex: "(?:x*)*y" },
  { Regex: "[^x]*a*\\w*a*\\S*$" }
]

/** One place of a JSON value changed: replaced, left out, doubled, or exchanged with another. */
const mutate = (value: unknown, random: (below: number) => number, depth = 0): unknown => {
  if (typeof value !== "object" || value === null || depth > 6 || random(5) === 0) return odd[random(odd.length)]
  const entries: Array<readonly [string, unknown]> = Object.entries(value)
  const at = random(entries.length || 1)
  const changed = entries.flatMap(([key, item], i): ReadonlyArray<readonly [string, unknown]> => {
    if (i !== at) return [[key, item]]
    const kind = random(8)
    if (kind === 0) return []
    if (kind === 1) return [[key, item], [`${key}${key}`, item]]
    if (kind === 2) return [[key, entries[random(entries.length)]?.[1]]]
    return [[key, mutate(item, random, depth + 1)]]
  })
  return Array.isArray(value) ? changed.map(([, item]) => item) : Object.fromEntries(changed)
}

describe("mutated files", () => {
  const texts = ["the cat sat on the mat", `${"a".repeat(3000)}!`, `${" ".repeat(3000)}x`, "<|bos|> é 中文\n\n  x", ""]

  it.live("load and work, or fail with a tag", () =>
    Effect.gen(function*() {
      const count = { loaded: 0, refused: 0, slowest: 0, odd: new Set<string>() }
      for (let seed = 0; seed < runs; seed++) {
        if (seed % 50 === 0) yield* breathe
        const random = generator(seed)
        let json: unknown = tiny.tokenizerJson
        for (let i = random(3); i >= 0; i--) json = mutate(json, random)
        const started = performance.now()
        const exit = yield* load(json)
        if (Exit.isSuccess(exit)) {
          count.loaded++
          // a tokenizer that loaded works on any text
          for (const text of texts) {
            const used = Either.try(() => exit.value.decode(exit.value.encode(text)))
            if (Either.isLeft(used)) count.odd.add(`${seed}: ${String(used.left)}`)
          }
        } else {
          count.refused++
          assert.isTrue(exit.cause._tag === "Fail" && exit.cause.error._tag === "TokenizerMalformed", `seed ${seed}`)
        }
        count.slowest = Math.max(count.slowest, performance.now() - started)
      }
      assert.strictEqual(count.loaded + count.refused, runs)
      assert.deepStrictEqual(Array.from(count.odd).slice(0, 5), [])
      if (runs > 1000) {
        yield* Effect.log("tokenizers", { ...count, odd: count.odd.size })
      }
    }), 3_600_000)

  it.live(
    "render, or fail with a tag",
    () => renderGarbled([tiny.tokenizerConfig.chat_template, ...Object.keys(renders.snippets)]),
    3_600_000
  )
})
