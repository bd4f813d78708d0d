/**
 * Made answers for every grader: right ones, wrong ones, and those that are right in another form. The same seed makes the same
 * answers.
 */
import { PCGRandom } from "effect/Utils"

/** One answer: the grader, and its arguments as both sides take them. */
export interface Made {
  readonly grader: "number" | "contest" | "math" | "choice" | "code" | "instruction" | "call"
  readonly arguments: ReadonlyArray<unknown>
}

interface Draw {
  readonly below: (n: number) => number
  readonly of: <A>(list: ReadonlyArray<A>) => A
  readonly chance: (share: number) => boolean
}

const drawFrom = (seed: number): Draw => {
  const random = new PCGRandom(seed)
  const below = (n: number) => random.integer(n)
  return {
    below,
    chance: (share) => random.number() < share,
    of: (list) => {
      const one = list[below(list.length)]
      if (one === undefined && list.length === 0) throw new Error("nothing to draw from")
      return one as (typeof list)[number]
    }
  }
}

const words = (
  "the cat sat on a mat while seven birds flew over our old house and nobody saw where they went after it had rained " +
  "for hours in that small town by the sea"
).split(" ")

const phrase = (draw: Draw, length: number): string => Array.from({ length }, () => draw.of(words)).join(" ")

const thousands = (n: number): string => n.toLocaleString("en-US")

/** A number as models write them. */
const numeral = (draw: Draw, n: number): string =>
  draw.of([
    String(n),
    thousands(n),
    `$${n}`,
    `${n}.0`,
    `${n}.00`,
    `${n} \\text{ dollars}`,
    `\\$${thousands(n)}`,
    `${n}%`,
    `-${n}`,
    `${n}.5`
  ])

const number = (draw: Draw): Made => {
  const wanted = draw.below(draw.of([10, 1000, 100000]))
  const given = draw.chance(0.7) ? wanted : wanted + 1 + draw.below(9)
  const value = numeral(draw, given)
  const before = `${phrase(draw, 6)} ${draw.below(50)} and ${draw.below(500)}. `
  const answer = draw.of([
    `${before}\\boxed{${value}}`,
    `${before}\\boxed{${value}} or \\boxed{${draw.below(9)}}`,
    `${before}\\boxed{\\text{${value}}}`,
    `${before}\\boxed{${value}`,
    `${before}\n#### ${value}`,
    `${before}The answer is ${value}.`,
    `${before}The answer is: ${value}.`,
    `${before}Answer: ${value}`,
    `${before}So **${value}** ${phrase(draw, 3)}`,
    `${before}**${draw.below(90)}** then **$${thousands(given)}**.`,
    `${before}${value}`,
    `${before}${value}, ${phrase(draw, 3)}.`,
    `${phrase(draw, 5)}`,
    "",
    `${before}The answer is ${draw.below(9)}-${draw.below(9)}`
  ])
  return { grader: "number", arguments: [answer, draw.chance(0.2) ? thousands(wanted) : String(wanted)] }
}

const contest = (draw: Draw): Made => {
  const wanted = draw.below(1000)
  const given = draw.chance(0.7) ? wanted : draw.below(1500)
  const value = draw.of([
    String(given),
    String(given).padStart(3, "0"),
    `${given}.0`,
    `${given}.5`,
    `-${given}`,
    `\\text{${given}}`,
    `${given}^\\circ`,
    `\\frac{${given}}{1}`,
    "x",
    thousands(given)
  ])
  return {
    grader: "contest",
    arguments: [
      draw.of([
        `${phrase(draw, 8)} \\boxed{${value}}`,
        `${phrase(draw, 8)} \\boxed{}`,
        `The answer is ${value}.`,
        `${phrase(draw, 4)} ${value}`,
        `**${value}**`
      ]),
      wanted
    ]
  }
}

/** Two ways to write one answer, or two answers that are not the same. */
const pair = (draw: Draw): readonly [given: string, wanted: string] => {
  const [a, b, c] = [1 + draw.below(20), 2 + draw.below(20), 1 + draw.below(9)]
  const other = a + 1 + draw.below(5)
  const x = draw.of(["x", "y", "n", "t"])
  const pairs: ReadonlyArray<readonly [string, string]> = [
    [`\\frac{${a}}{${b}}`, `\\frac{${a}}{${b}}`],
    [`${a}/${b}`, `\\frac{${a}}{${b}}`],
    [`\\dfrac{${a}}{${b}}`, `\\frac{${a}}{${b}}`],
    [`\\frac${c}${b % 10}`, `\\frac{${c}}{${b % 10}}`],
    [`\\frac{${a * 2}}{${b * 2}}`, `\\frac{${a}}{${b}}`],
    [`${a}`, `${a}.0`],
    [`${a}.`, `${a}`],
    [thousands(a * 1000 + b), String(a * 1000 + b)],
    [`${a}\\!,\\!${100 + b}`, `${a}${100 + b}`],
    [`\\sqrt{${a}}`, `\\sqrt{${a}}`],
    [`\\sqrt${c}`, `\\sqrt{${c}}`],
    [`${c}\\sqrt{${a}}`, `\\sqrt{${a * c * c}}`],
    [`${a}${x}+${b}`, `${b}+${a}${x}`],
    [`${a}${x} + ${b}`, `${a}${x}+${other}`],
    [`(${x}+${c})^2`, `${x}^2+${2 * c}${x}+${c * c}`],
    [`${x}^2-${c * c}`, `(${x}-${c})(${x}+${c})`],
    [`${a}\\pi`, `\\pi \\cdot ${a}`],
    [`${a}\\pi`, `${other}\\pi`],
    [`(${a}, ${b})`, `(${a},${b})`],
    [`(${a},${b})`, `(${b},${other})`],
    [`[${a},${b})`, `(${a},${b})`],
    [`(${a},\\frac{1}{${b}})`, `(${a},1/${b})`],
    [`(${a},\\sqrt{${4 * c}})`, `(${a},2\\sqrt{${c}})`],
    [`${a}^\\circ`, `${a}`],
    [`${a}\\%`, `${a}`],
    [`\\$${a}`, `${a}`],
    [`${a}\\text{ cm}`, `${a}`],
    [`${a} cm`, `${a}`],
    [`${a} inches`, `${a}`],
    [`\\text{${draw.of(["Monday", "even", "none"])}}`, draw.of(["Monday", "even", "none"])],
    [`${x}=${a}`, `${a}`],
    [`${a} million`, `${a}000000`],
    [`${a}\\frac{1}{${b}}`, `${a}+\\frac{1}{${b}}`],
    [`${a} \\frac{1}{${b}}`, `${a + 1}`],
    [`0.5`, `\\frac{1}{2}`],
    [`.5`, `0.5`],
    [`${c}.25`, `\\frac{${4 * c + 1}}{4}`],
    [`-${a}`, `- ${a}`],
    [`-\\frac{${a}}{${b}}`, `\\frac{-${a}}{${b}}`],
    [`2^{${c}}`, `${2 ** c}`],
    [`${x}^{${c}}`, `${x}^${c}`],
    [`\\frac{${x}}{${b}}`, `\\frac{1}{${b}}${x}`],
    [`\\left(${a},${b}\\right)`, `(${a},${b})`],
    [`\\{${a},${b}\\}`, `${a},${b}`],
    [`${a} and ${b}`, `${a}, ${b}`],
    [`${a}`, `${other}`],
    [`${a}${x}`, `${other}${x}`],
    [`${x}^${c}`, `${x}^${c + 1}`],
    [`\\sin ${x}`, `\\sin(${x})`],
    [`\\log ${a}`, `\\log(${a})`],
    [`${c}!`, `${[1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880][c] ?? 1}`],
    [`e^${x}`, `e^${x}`],
    [`\\frac{\\pi}{${b}}`, `\\pi/${b}`],
    [`\\frac{\\sqrt{${a}}}{${b}}`, `\\sqrt{${a}}/${b}`],
    [`\\infty`, `\\infty`],
    [`(-\\infty,${a})`, `(-\\infty, ${a})`],
    [`(-\\infty,${a}]`, `(-\\infty, ${a})`],
    [`(-\\infty,${a})\\cup(${a},\\infty)`, `(-\\infty, ${a}) \\cup (${a}, \\infty)`],
    [`${x}\\ge ${a}`, `${x} \\geq ${a}`],
    [``, `${a}`],
    [`\\text{(${draw.of(["A", "B"])})}`, `\\text{(A)}`],
    [`${a}i`, `${a}i`],
    [`${a}+${b}i`, `${b}i+${a}`],
    [`${a}_{${b}}`, `${a}_${b}`]
  ]
  // few people write it so
  return draw.chance(0.0005) ? [`\\pi ${a}`, `${a}\\pi`] : draw.of(pairs)
}

const math = (draw: Draw): Made => {
  const [one, other] = pair(draw)
  const [given, wanted] = draw.chance(0.3) ? [other, one] : [one, other]
  return {
    grader: "math",
    arguments: [
      draw.of([
        `${phrase(draw, 6)} \\boxed{${given}}`,
        `${phrase(draw, 6)} $\\boxed{${given}}$.`,
        `\\boxed{0} ${phrase(draw, 3)} \\boxed{${given}}`,
        `${phrase(draw, 6)} \\boxed{${given}} ${phrase(draw, 3)}`,
        ...(draw.chance(0.1)
          ? [`${phrase(draw, 6)} ${given}`, `\\boxed ${given}`, `\\boxed{${given}`, `} \\boxed{${given}}`]
          : [])
      ]),
      wanted
    ]
  }
}

const choice = (draw: Draw): Made => {
  const choices = draw.of([4, 4, 4, 5, 8, 10])
  const letter = String.fromCharCode(65 + draw.below(choices + 1))
  const second = String.fromCharCode(65 + draw.below(choices))
  const answer = draw.of([
    letter,
    `(${letter})`,
    `\\boxed{${letter}}`,
    `\\boxed{\\text{${letter}}}`,
    `\\boxed{${letter.toLowerCase()}}`,
    `The answer is (${letter}).`,
    `the answer is ${letter.toLowerCase()}`,
    `Answer: ${letter}`,
    `Answer: a cat, so ${letter}`,
    `**${letter}** ${phrase(draw, 4)}`,
    `${phrase(draw, 100)} ${letter} ${phrase(draw, 3)}`,
    `${letter} ${phrase(draw, 100)}`,
    `${second} is wrong, ${letter} is right: A ${phrase(draw, 4)}`,
    `选择${letter}`,
    `答案是 ${letter}。`,
    `été ${letter}é ${second}`,
    phrase(draw, 4),
    `${letter}_x ${letter}1 ${second}.`,
    ""
  ])
  return { grader: "choice", arguments: [answer, choices] }
}

const code = (draw: Draw): Made => {
  const body = (n: number) => `def f${n}(x):\n    return x + ${n}`
  const answer = draw.of([
    `\`\`\`python\n${body(1)}\n\`\`\``,
    `${phrase(draw, 3)}\n\`\`\`python\n${body(1)}\n\`\`\`\n${phrase(draw, 3)}\n\`\`\`python\n${body(2)}\n\`\`\``,
    `\`\`\`\n${body(3)}\n\`\`\``,
    `\`\`\`py\n${body(3)}\n\`\`\`\n\`\`\`\n${body(4)}\n\`\`\``,
    `\`\`\`python  \n\n${body(draw.below(9))}\n\n\`\`\``,
    `\`\`\`python\n${body(5)}`,
    body(draw.below(9)),
    `  ${body(6)}\n`,
    phrase(draw, 5),
    `\`\`\`c++\n${body(7)}\n\`\`\``,
    `\`\`\`python\n\`\`\``
  ])
  return { grader: "code", arguments: [answer] }
}

const english =
  "Our garden has apples, pears and plums. They ripen in late summer! Would you like some? We keep the best ones for winter."

const texts = [
  ["en", english],
  ["de", "Unser Garten hat viele Apfelbäume, die im späten Sommer reif werden. Möchten Sie einige davon haben?"],
  [
    "fr",
    "Notre jardin possède de nombreux pommiers qui mûrissent à la fin de l'été. Voulez-vous en goûter quelques-unes ?"
  ],
  ["es", "Nuestro jardín tiene muchos manzanos que maduran al final del verano. ¿Quieres probar algunas de ellas?"],
  ["hi", "हमारे बगीचे में बहुत से सेब के पेड़ हैं और वे गर्मी के अंत में पकते हैं।"],
  ["ko", "우리 정원에는 사과나무가 많이 있으며 늦여름에 익습니다."],
  ["ja", "私たちの庭にはたくさんのりんごの木があり、夏の終わりに熟します。"],
  ["ru", "В нашем саду много яблонь, и они созревают в конце лета. Хотите попробовать?"],
  ["ar", "توجد في حديقتنا أشجار تفاح كثيرة تنضج في نهاية الصيف"],
  ["th", "ในสวนของเรามีต้นแอปเปิลมากมายซึ่งสุกในปลายฤดูร้อน"],
  ["bn", "আমাদের বাগানে অনেক আপেল গাছ আছে এবং সেগুলি গ্রীষ্মের শেষে পাকে।"],
  ["it", "Il nostro giardino ha molti meli che maturano alla fine dell'estate. Volete assaggiarne qualcuno?"]
] as const

const sentence = (draw: Draw): string => {
  const text = phrase(draw, 3 + draw.below(6))
  return `${text[0]?.toUpperCase()}${text.slice(1)}${draw.of([".", "!", "?", ".", ".", "?!", "..."])}`
}

const paragraph = (draw: Draw): string => Array.from({ length: 1 + draw.below(4) }, () => sentence(draw)).join(" ")

const instructionsOf = (draw: Draw): readonly [kind: string, given: Record<string, unknown>, answer: string] => {
  const relation = draw.of(["less than", "at least"])
  const near = (n: number) => Math.max(1, n - 2 + draw.below(5))
  const body = Array.from({ length: 1 + draw.below(3) }, () => paragraph(draw)).join("\n\n")
  const some = () => draw.of(words)
  const numbered = 1 + draw.below(3)
  const capital = body.split(" ").map((one) => draw.chance(0.3) ? one.toUpperCase() : one).join(" ")
  const [language, text] = draw.of(texts)
  return draw.of<() => readonly [string, Record<string, unknown>, string]>([
    () => ["keywords:existence", { keywords: [some(), some()] }, body],
    () => ["keywords:frequency", { keyword: some(), relation, frequency: 1 + draw.below(4) }, body],
    () => ["keywords:forbidden_words", { forbidden_words: [draw.of(["cat", "th", "ran", "sea", "rain"])] }, body],
    () => [
      "keywords:letter_frequency",
      { letter: draw.of(["a", "e", "t", "q"]), let_relation: relation, let_frequency: 1 + draw.below(20) },
      body
    ],
    () => ["language:response_language", { language: draw.chance(0.6) ? language : draw.of(texts)[0] }, text],
    () => ["length_constraints:number_sentences", { relation, num_sentences: 1 + draw.below(9) }, body],
    () => [
      "length_constraints:number_paragraphs",
      { num_paragraphs: 2 + draw.below(2) },
      [...draw.chance(0.2) ? [""] : [], paragraph(draw), paragraph(draw), ...draw.chance(0.3) ? [" "] : []].join(
        draw.of(["\n***\n", " *** ", "***", "\n\n"])
      )
    ],
    () => ["length_constraints:number_words", { relation, num_words: near(body.split(" ").length) }, body],
    () => [
      "length_constraints:nth_paragraph_first_word",
      { nth_paragraph: 1 + draw.below(numbered), num_paragraphs: numbered, first_word: some() },
      draw.chance(0.5) ? body : `${some()}, ${body}\n\n"${some()}" ${body}`
    ],
    () => [
      "detectable_content:number_placeholders",
      { num_placeholders: 1 + draw.below(3) },
      `${body} [name] ${draw.chance(0.5) ? "[date]" : "[a\nb]"}`
    ],
    () => [
      "detectable_content:postscript",
      { postscript_marker: draw.of(["P.S.", "P.P.S"]) },
      `${body}\n\n${draw.of(["P.S. ", "P.P.S ", "P. S. ", "p.s. ", "P.P.S. ", "PS "])}${some()}`
    ],
    () => [
      "detectable_format:number_bullet_lists",
      { num_bullets: 2 + draw.below(2) },
      Array.from({ length: 2 + draw.below(3) }, () => `${draw.of(["* ", "- ", "** ", "  * ", "• "])}${phrase(draw, 3)}`)
        .join("\n")
    ],
    () => [
      "detectable_format:constrained_response",
      {},
      draw.of(["My answer is yes.", "My answer is maybe", "my answer is no."])
    ],
    () => [
      "detectable_format:number_highlighted_sections",
      { num_highlights: 1 + draw.below(4) },
      `*${some()}* ${body} **${some()}** ${draw.of(["* *", "****", "*a\nb*", ""])}`
    ],
    () => [
      "detectable_format:multiple_sections",
      { section_spliter: draw.of(["Section", "SECTION"]), num_sections: 1 + draw.below(4) },
      Array.from(
        { length: 1 + draw.below(4) },
        (_, i) => `${draw.of(["Section ", "SECTION ", "Section"])}${i + 1}\n${sentence(draw)}`
      ).join("\n")
    ],
    () => [
      "detectable_format:json_format",
      {},
      draw.of([
        `{"a": 1}`,
        "```json\n{\"a\": [1, 2]}\n```",
        "{'a': 1}",
        `[1, 2`,
        `"text"`,
        "```\n{}\n```",
        `${some()} {"a": 1}`,
        "1.5",
        "True"
      ])
    ],
    () => [
      "detectable_format:title",
      {},
      `${draw.of(["<<a title>>", "<< >>", "<title>", "<<a\nb>>", "# title"])}\n${body}`
    ],
    () => [
      "combination:two_responses",
      {},
      draw.of([
        `${some()} 1\n******\n${some()} 2`,
        `${some()}******`,
        "same\n******\nsame",
        `******\na\n******\nb`,
        `a******b******c`,
        `a******\n******b`
      ])
    ],
    () => [
      "combination:repeat_prompt",
      { prompt_to_repeat: `Say  ${language}` },
      `${draw.of(["Say  ", "say  ", "Say "])}${language} ${body}`
    ],
    () => [
      "startend:end_checker",
      { end_phrase: draw.of(["the end.", "That is all"]) },
      `${body} ${draw.of(["The end.", "That is all", "\"The end.\"", "that is all."])}`
    ],
    () => ["startend:quotation", {}, draw.of([`"${body}"`, body, `"${body}`, "\"", ` "${body}" `])],
    () => [
      "change_case:capital_word_frequency",
      { capital_relation: relation, capital_frequency: 1 + draw.below(12) },
      capital
    ],
    () => ["change_case:english_capital", {}, draw.of([english, english.toUpperCase(), texts[1][1].toUpperCase()])],
    () => ["change_case:english_lowercase", {}, draw.of([english, english.toLowerCase(), texts[2][1].toLowerCase()])],
    () => ["punctuation:no_comma", {}, draw.chance(0.5) ? body : `${body}, ${body}`]
  ])()
}

const instruction = (draw: Draw): Made => ({ grader: "instruction", arguments: instructionsOf(draw) })

const signature = {
  name: "trip.plan",
  parameters: {
    type: "dict",
    properties: {
      city: { type: "string" },
      days: { type: "integer" },
      budget: { type: "float" },
      direct: { type: "boolean" },
      stops: { type: "array", items: { type: "string" } },
      ages: { type: "array", items: { type: "integer" } },
      options: { type: "dict" },
      legs: { type: "array", items: { type: "dict" } }
    },
    required: ["city"]
  }
}

const second = {
  name: "weather",
  parameters: { type: "dict", properties: { city: { type: "string" }, unit: { type: "string" } }, required: ["city"] }
}

const accepted = {
  "trip.plan": {
    city: ["San Francisco", "San Francisco, CA"],
    days: [3],
    budget: [1200.5, 1200, ""],
    direct: [true, ""],
    stops: [["Oakland", "San Jose"], ""],
    ages: [[30, 4], [4, 30], ""],
    options: [{ class: ["economy", "eco"], seats: [2], meal: ["vegan", ""] }, ""],
    legs: [[{ from: ["A"], to: ["B"] }], ""]
  }
}

const acceptedWeather = { weather: { city: ["Oslo"], unit: ["celsius", ""] } }

const call = (draw: Draw): Made => {
  const planned = (): { name: string; arguments: Record<string, unknown> } => {
    const given: Record<string, unknown> = {
      city: draw.of(["San Francisco", "san francisco", "San Francisco CA", "San Jose"]),
      days: draw.of([3, 3, 3, 3, 4, "3"])
    }
    const maybe = (name: string, values: ReadonlyArray<unknown>) => {
      if (draw.chance(0.35)) given[name] = draw.of(values)
    }
    maybe("budget", [1200, 1200.5, 1300, "1200"])
    maybe("direct", [true, true, false, "true"])
    maybe("stops", [
      ["Oakland", "San Jose"],
      ["oakland", "san-jose"],
      ["San Jose", "Oakland"],
      ["Oakland", 1],
      "Oakland",
      []
    ])
    maybe("ages", [[30, 4], [4, 30], [4], ["4"], []])
    maybe("options", [
      { class: "economy", seats: 2 },
      { class: "eco", seats: 2, meal: "Vegan" },
      { class: "first", seats: 2 },
      { class: "eco" },
      { class: "eco", seats: 2, wifi: true },
      "economy"
    ])
    maybe("legs", [[{ from: "A", to: "B" }], [{ from: "a", to: "b" }], [{ from: "A" }], [{ from: "A", to: "B" }, {
      from: "A",
      to: "B"
    }], [1]])
    if (draw.chance(0.05)) given["extra"] = 1
    if (draw.chance(0.05)) delete given["city"]
    return { name: draw.of(["trip.plan", "trip.plan", "trip.plan", "trip.plan", "trip_plan"]), arguments: given }
  }
  const weather = () => ({
    name: draw.of(["weather", "weather", "weather", "climate"]),
    arguments: {
      city: draw.of(["Oslo", "oslo", "Bergen"]),
      ...draw.chance(0.5) ? { unit: draw.of(["celsius", "Celsius", "kelvin"]) } : {}
    }
  })
  return draw.of<() => Made>([
    () => ({ grader: "call", arguments: [[planned()], [signature], [accepted]] }),
    () => ({ grader: "call", arguments: [[planned()], [second, signature], [accepted]] }),
    () => ({
      grader: "call",
      arguments: [draw.chance(0.5) ? [planned(), weather()] : [weather(), planned()], [signature, second], [
        accepted,
        acceptedWeather
      ]]
    }),
    () => ({ grader: "call", arguments: [draw.chance(0.5) ? [] : [planned(), planned()], [signature], [accepted]] })
  ])()
}

const makers = { number, contest, math, choice, code, instruction, call }

/** So many answers for each grader. */
export const make = (count: number, seed: number): ReadonlyArray<Made> =>
  Object.values(makers).flatMap((maker, i) => {
    const draw = drawFrom(seed * 31 + i)
    return Array.from({ length: count }, () => maker(draw))
  })
