/**
 * Texts for comparing tokenizers, drawn from a seed so that a failure can be repeated.
 */

/** A small random generator: the corpus must not change with a library's version. */
export const random = (seed: number) => {
  let state = seed >>> 0
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    // the high bits of a linear congruence are the random ones
    return ((state >>> 8) ^ (state >>> 20)) >>> 0
  }
  return {
    below: (n: number): number => next() % n,
    pick: <A>(items: ReadonlyArray<A>): A => {
      const item = items[next() % items.length]
      if (item === undefined) throw new Error("nothing to pick from")
      return item
    }
  }
}

type Random = ReturnType<typeof random>

const fixed: ReadonlyArray<string> = [
  "",
  " ",
  "\n",
  "Hello, world!",
  "  two  leading, three   inner, four trailing    ",
  "It's they're we've I'm you'll he'd IT'S THEY'RE",
  "12 345 6789 1234567 3.14159 1e-9 0xDEADBEEF",
  "def main():\n\treturn [x**2 for x in range(10)]  # squares\n\n\nif __name__ == '__main__':\r\n    main()",
  "const f = async <A>(x: A): Promise<A> => { await 0; return x }",
  "SELECT * FROM t WHERE a <> 'b' AND c != \"d\";",
  "{\"a\": [1, 2, {\"b\": null}], \"c\": \"\\u00e9\\n\"}",
  "naïve façade coöperate Ærøskøbing Łódź İstanbul ß ẞ",
  "Съешь же ещё этих мягких французских булок, да выпей чаю",
  "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία",
  "我们在北京吃饺子。你好，世界！一二三四五",
  "日本語のテキスト、カタカナ、ひらがな。「引用」",
  "한국어 문장입니다. 안녕하세요",
  "مرحبا بالعالم، كيف حالك؟",
  "שלום עולם",
  "नमस्ते दुनिया ไทยภาษา தமிழ்",
  "😀 👩‍👩‍👧‍👦 🇫🇷🇩🇪 👍🏽 ✌️ 🏳️‍🌈",
  "½ ² Ⅷ ① ٣ ৩ ５",
  "e\u0301 a\u0308\u0323 \u1100\u1161\u11a8 \ufb01 \u2126",
  "\u00a0\u2003\u3000\u2028\u2029\t\v\f",
  "\u0000\u0001\u001f\u007f",
  "a".repeat(300),
  "ab".repeat(120) + "!".repeat(90) + " ".repeat(70),
  "https://user:pw@example.com:8080/a/b.html?x=1&y=%20#frag",
  "\ud800 lone \udc00 surrogates"
]

const letters: ReadonlyArray<readonly [number, number]> = [
  [0x20, 0x7e],
  [0xa1, 0x17f],
  [0x391, 0x3a1],
  [0x3b1, 0x3c9],
  [0x410, 0x44f],
  [0x5d0, 0x5ea],
  [0x627, 0x64a],
  [0x905, 0x939],
  [0xe01, 0xe2e],
  [0x3041, 0x3096],
  [0x30a1, 0x30fa],
  [0x4e00, 0x9fa5],
  [0xac00, 0xd7a3],
  [0x2010, 0x2027],
  [0x2190, 0x21ff],
  [0x1f600, 0x1f64f],
  [0x1d400, 0x1d419]
]

const word = (r: Random, ranges: ReadonlyArray<readonly [number, number]>, length: number): string => {
  let text = ""
  for (let i = 0; i < length; i++) {
    const [low, high] = r.pick(ranges)
    text += String.fromCodePoint(low + r.below(high - low + 1))
  }
  return text
}

const glue = [" ", "  ", "\n", "\n\n", "\t", "\r\n", "", "", ".", ", ", "'s ", "-", " \n ", "\u00a0"]

const scripts = (r: Random): string => {
  let text = ""
  for (let i = 1 + r.below(12); i > 0; i--) {
    // words are of one script, as in writing
    text += word(r, [r.pick(letters)], 1 + r.below(9)) + r.pick(glue)
  }
  return text
}

const ascii = (r: Random): string => {
  let text = ""
  for (let i = 1 + r.below(80); i > 0; i--) {
    text += r.below(4) === 0 ? r.pick(glue) : String.fromCharCode(32 + r.below(95))
  }
  return text
}

const control = (r: Random, tokens: ReadonlyArray<string>): string => {
  let text = ""
  for (let i = 1 + r.below(8); i > 0; i--) {
    const token = r.pick(tokens)
    const kind = r.below(6)
    // whole, cut short, doubled or with a stray bracket
    text += kind === 0 ? token.slice(0, -1) : kind === 1 ? `<${token}` : kind === 2 ? token + token : token
    text += r.below(2) === 0 ? ascii(r).slice(0, 6) : r.pick(glue)
  }
  return text
}

/** Combining marks, the newest of them unknown to older Unicode tables. */
const combining: ReadonlyArray<readonly [number, number]> = [
  [0x300, 0x36f],
  [0x483, 0x487],
  [0x591, 0x5bd],
  [0x610, 0x61a],
  [0x64b, 0x65f],
  [0x1ab0, 0x1aff],
  [0x1dc0, 0x1dff],
  [0x20d0, 0x20f0],
  [0xfe20, 0xfe2f],
  [0x10efa, 0x10eff],
  [0x1e8d0, 0x1e8d6]
]

const marks = (r: Random): string => {
  let text = ""
  for (let i = 1 + r.below(10); i > 0; i--) {
    text += String.fromCodePoint(0x61 + r.below(26)) + word(r, combining, r.below(4))
  }
  return text
}

const anything = (r: Random): string => {
  let text = ""
  for (let i = 1 + r.below(24); i > 0; i--) {
    const point = r.below(0x33480)
    text += point >= 0xd800 && point < 0xe000 ? " " : String.fromCodePoint(point)
  }
  return text
}

export interface Corpus {
  /** Writing as people and programs produce it: tokenizers must agree. */
  readonly ordinary: ReadonlyArray<string>
  /** Any code point, stacked marks: the Unicode tables of two implementations may differ. */
  readonly adversarial: ReadonlyArray<string>
}

export const corpus = (seed: number, runs: number, tokens: ReadonlyArray<string>): Corpus => {
  const r = random(seed)
  const many = (make: (r: Random) => string) => Array.from({ length: runs }, () => make(r))
  return {
    ordinary: [...fixed, ...many(scripts), ...many(ascii), ...many((r) => control(r, tokens))],
    adversarial: [...many(marks), ...many(anything)]
  }
}
