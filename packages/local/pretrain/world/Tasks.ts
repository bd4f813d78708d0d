/**
 * What can be asked in one turn: the question, the answer as a value and the answer as the model says it.
 */
import * as Lexicon from "./Lexicon.js"
import type { Source } from "./Source.js"
import { capitalize } from "./Source.js"

export interface Task {
  readonly skill: string
  /** What has to be known to answer; empty if the question says it all. */
  readonly given: string
  readonly question: string
  /** The bare answer. */
  readonly value: string
  /** The answer as it is said when nothing is asked about its form. */
  readonly answer: string
  /** The steps to the answer, for questions that can be answered by thinking. */
  readonly steps?: string | undefined
}

export type Maker = (source: Source) => Task

const task = (skill: string, question: string, value: string, answer = value, given = "", steps?: string): Task => ({
  skill,
  given,
  question,
  value,
  answer,
  steps
})

const list = (words: ReadonlyArray<string>): string => words.join(", ")

// =====================================================================================================================
// Facts
// =====================================================================================================================

interface Relation {
  readonly subject: (source: Source) => string
  readonly value: (source: Source) => string
  readonly says: (subject: string, value: string) => string
  readonly asks: (subject: string) => ReadonlyArray<string>
  readonly asksBack: (value: string) => ReadonlyArray<string>
  readonly asksWhether: (subject: string, value: string) => string
}

const person = (source: Source) => source.name()
const thing = (source: Source) => `the ${source.of(Lexicon.things)}`

const relations: ReadonlyArray<Relation> = [
  {
    subject: person,
    value: (source) => source.city(),
    says: (who, city) => `${who} lives in ${city}`,
    asks: (who) => [`Where does ${who} live?`, `In which city does ${who} live?`],
    asksBack: (city) => [`Who lives in ${city}?`],
    asksWhether: (who, city) => `Does ${who} live in ${city}?`
  },
  {
    subject: person,
    value: (source) => source.of(Lexicon.foods),
    says: (who, food) => `${who} likes ${food}`,
    asks: (who) => [`What does ${who} like?`, `Which food does ${who} like?`],
    asksBack: (food) => [`Who likes ${food}?`],
    asksWhether: (who, food) => `Does ${who} like ${food}?`
  },
  {
    subject: person,
    value: (source) => source.of(Lexicon.animals),
    says: (who, animal) => `${who} has a ${animal}`,
    asks: (who) => [`What pet does ${who} have?`, `Which animal does ${who} have?`],
    asksBack: (animal) => [`Who has a ${animal}?`],
    asksWhether: (who, animal) => `Does ${who} have a ${animal}?`
  },
  {
    subject: person,
    value: (source) => String(source.int(2, 99)),
    says: (who, age) => `${who} is ${age} years old`,
    asks: (who) => [`How old is ${who}?`, `What is the age of ${who}?`],
    asksBack: (age) => [`Who is ${age} years old?`],
    asksWhether: (who, age) => `Is ${who} ${age} years old?`
  },
  {
    subject: person,
    value: (source) => source.of(Lexicon.jobs),
    says: (who, job) => `${who} works as a ${job}`,
    asks: (who) => [`What does ${who} do?`, `What is the job of ${who}?`],
    asksBack: (job) => [`Who works as a ${job}?`],
    asksWhether: (who, job) => `Does ${who} work as a ${job}?`
  },
  {
    subject: person,
    value: (source) => source.of(Lexicon.hobbies),
    says: (who, hobby) => `${who} plays ${hobby}`,
    asks: (who) => [`What does ${who} play?`, `Which game does ${who} play?`],
    asksBack: (hobby) => [`Who plays ${hobby}?`],
    asksWhether: (who, hobby) => `Does ${who} play ${hobby}?`
  },
  {
    subject: person,
    value: (source) => source.code(),
    says: (who, code) => `The code of ${who} is ${code}`,
    asks: (who) => [`What is the code of ${who}?`, `Which code does ${who} have?`],
    asksBack: (code) => [`Whose code is ${code}?`],
    asksWhether: (who, code) => `Is the code of ${who} ${code}?`
  },
  {
    subject: thing,
    value: (source) => source.of(Lexicon.colors),
    says: (what, color) => `${capitalize(what)} is ${color}`,
    asks: (what) => [`What color is ${what}?`, `Which color does ${what} have?`],
    asksBack: (color) => [`What is ${color}?`, `Which thing is ${color}?`],
    asksWhether: (what, color) => `Is ${what} ${color}?`
  },
  {
    subject: thing,
    value: (source) => `${source.int(2, 99)} dollars`,
    says: (what, price) => `${capitalize(what)} costs ${price}`,
    asks: (what) => [`How much does ${what} cost?`, `What is the price of ${what}?`],
    asksBack: (price) => [`What costs ${price}?`],
    asksWhether: (what, price) => `Does ${what} cost ${price}?`
  },
  {
    subject: thing,
    value: (source) => `the ${source.of(Lexicon.rooms)}`,
    says: (what, room) => `${capitalize(what)} is in ${room}`,
    asks: (what) => [`Where is ${what}?`, `In which room is ${what}?`],
    asksBack: (room) => [`What is in ${room}?`],
    asksWhether: (what, room) => `Is ${what} in ${room}?`
  },
  {
    subject: (source) => capitalize(source.word(7)),
    value: (source) => source.city(),
    says: (land, city) => `The capital of ${land} is ${city}`,
    asks: (land) => [`What is the capital of ${land}?`, `Which city is the capital of ${land}?`],
    asksBack: (city) => [`${city} is the capital of which country?`],
    asksWhether: (land, city) => `Is ${city} the capital of ${land}?`
  }
]

/** `count` sentences about different subjects. */
const tell = (source: Source, count: number) => {
  // One relation for all makes the subject matter; different ones make the relation matter too.
  const same = source.chance(0.65) ? source.pick(relations) : undefined
  const entries = Array.from({ length: count }, () => ({ relation: same ?? source.pick(relations) }))
  const seen = new Set<string>()
  const fresh = (draw: () => string): string => {
    for (;;) {
      const value = draw()
      if (seen.has(value.toLowerCase())) continue
      seen.add(value.toLowerCase())
      return value
    }
  }
  const told = entries.map(({ relation }) => ({
    relation,
    subject: fresh(() => relation.subject(source)),
    value: fresh(() => relation.value(source))
  }))
  const given = told.map(({ relation, subject, value }) => `${relation.says(subject, value)}.`).join(" ")
  return { fresh, given, told }
}

/** A question about one of `count` sentences. */
const facts = (skill: string, count: number, kind: "value" | "subject" | "whether" | "unknown"): Maker => (source) => {
  const { fresh, given, told } = tell(source, count)
  const { relation, subject, value } = source.pick(told)
  const sentence = `${relation.says(subject, value)}.`
  switch (kind) {
    case "value":
      return task(skill, source.pick(relation.asks(subject)), value, sentence, given)
    case "subject":
      return task(skill, source.pick(relation.asksBack(value)), subject, sentence, given)
    case "whether": {
      const yes = source.chance(0.5)
      const others = told.filter((other) => other.relation === relation && other.value !== value)
      const wrong = others.length > 0 ? source.pick(others).value : fresh(() => relation.value(source))
      return task(
        skill,
        relation.asksWhether(subject, yes ? value : wrong),
        yes ? "Yes" : "No",
        yes
          ? `Yes, ${decapitalize(relation.says(subject, value))}.`
          : `No, ${decapitalize(relation.says(subject, value))}.`,
        given
      )
    }
    case "unknown":
      return task(
        skill,
        source.pick(relation.asks(fresh(() => relation.subject(source)))),
        "unknown",
        "I do not know.",
        given
      )
  }
}

const decapitalize = (text: string): string => text.startsWith("The ") ? `t${text.slice(1)}` : text

/** Questions about sentences in the prompt: about the value of a subject or, the harder way, about whose value it is. */
export const fact = (skill: string, count: number, back = 0.3): Maker => (source) =>
  facts(skill, count, source.chance(1 - back) ? "value" : "subject")(source)

/** `count` sentences and, about each of them in any order, whose value it is: more answers that depend on the sentences. */
export const whose = (skill: string, count: number) => (source: Source) => {
  const { given, told } = tell(source, count)
  return source.shuffle(told).map(({ relation, subject, value }) => ({
    ...task(skill, source.pick(relation.asksBack(value)), subject, `${relation.says(subject, value)}.`, given),
    about: value
  }))
}

export const unknown: Maker = (source) => facts("unknown", source.int(1, 3), "unknown")(source)

// =====================================================================================================================
// Words
// =====================================================================================================================

const reverse = (text: string): string => Array.from(text).reverse().join("")

const items = (source: Source, low: number, high: number): Array<string> =>
  source.distinct(source.int(low, high), () => source.anyWord())

export const copy: Maker = (source) => {
  const text = source.chance(0.25)
    ? source.code()
    : items(source, 1, 6).join(source.chance(0.7) ? " " : ", ")
  return task("copy", source.pick([`Repeat: ${text}`, `Say ${text}`, `Copy this: ${text}`, `Echo: ${text}`]), text)
}

export const reverseWord: Maker = (source) => {
  const word = source.word(7)
  return task(
    "reverse",
    source.pick([`Reverse the word ${word}.`, `Spell ${word} backwards.`, `Write ${word} in reverse.`]),
    reverse(word),
    reverse(word),
    "",
    Array.from(word).join(" ")
  )
}

export const reverseList: Maker = (source) => {
  const words = items(source, 2, 5)
  return task(
    "reverse-list",
    source.pick([`Reverse the list: ${list(words)}`, `Give these in reverse order: ${list(words)}`]),
    list(words.slice().reverse())
  )
}

export const spell: Maker = (source) => {
  const word = source.anyWord()
  return task("spell", source.pick([`Spell ${word}.`, `Spell the word ${word}.`]), Array.from(word).join("-"))
}

export const pickWord: Maker = (source) => {
  const words = items(source, 2, 5)
  const last = source.chance(0.5)
  const which = last ? "last" : "first"
  const word = (last ? words.at(-1) : words[0]) ?? ""
  return task(
    "pick",
    source.pick([
      `What is the ${which} word: ${list(words)}`,
      `Give me the ${which} item of this list: ${list(words)}`
    ]),
    word
  )
}

export const sortWords: Maker = (source) => {
  const words = items(source, 2, 5)
  const sorted = words.slice().sort()
  return task(
    "sort-words",
    source.pick([`Sort these words: ${list(words)}`, `Put in alphabetical order: ${list(words)}`]),
    list(sorted)
  )
}

export const sortNumbers: Maker = (source) => {
  const count = source.int(3, 5)
  const top = source.pick([20, 99, 99, 999])
  const numbers = new Set<number>()
  while (numbers.size < count) numbers.add(source.int(1, top))
  const up = source.chance(0.6)
  const order = Array.from(numbers)
  // A list of numbers is an item as its first pair: enough to keep the whole list apart.
  for (let i = 0; !source.allows(order[0] ?? 0, order[1] ?? 0) && i < 10_000; i++) order[0] = source.int(1, top)
  if (new Set(order).size < count) return sortNumbers(source)
  const sorted = order.slice().sort((a, b) => up ? a - b : b - a)
  return task(
    "sort-numbers",
    up
      ? source.pick([`Sort these numbers: ${order.join(", ")}`, `Sort from small to large: ${order.join(", ")}`])
      : source.pick([`Sort these numbers from large to small: ${order.join(", ")}`, `Sort down: ${order.join(", ")}`]),
    sorted.join(", ")
  )
}

export const count: Maker = (source) => {
  switch (source.int(0, 2)) {
    case 0: {
      const words = items(source, 1, 9)
      return task(
        "count",
        source.pick([`How many words are here: ${words.join(" ")}`, `Count the words: ${words.join(" ")}`]),
        String(words.length)
      )
    }
    case 1: {
      const word = source.word()
      return task(
        "count",
        source.pick([`How many letters are in ${word}?`, `Count the letters of ${word}.`]),
        String(word.length),
        String(word.length),
        "",
        Array.from(word).map((letter, i) => `${i + 1} ${letter}`).join("\n")
      )
    }
    default: {
      const words = items(source, 2, 3)
      const many = Array.from({ length: source.int(3, 7) }, () => source.pick(words))
      const asked = source.pick(many)
      return task(
        "count",
        `How many times does ${asked} occur: ${many.join(" ")}`,
        String(many.filter((word) => word === asked).length)
      )
    }
  }
}

export const yesNo: Maker = (source) => {
  switch (source.int(0, 4)) {
    case 0: {
      const [a, b] = source.pair(2, 99)
      const even = source.chance(0.5)
      const n = source.chance(0.5) ? a : b
      return task("yes-no", `Is ${n} ${even ? "even" : "odd"}?`, (n % 2 === 0) === even ? "Yes" : "No")
    }
    case 1: {
      const [a, b] = source.pair(1, source.pick([99, 999]))
      if (a === b) return yesNo(source)
      const more = source.chance(0.5)
      return task(
        "yes-no",
        `Is ${a} ${more ? source.pick(["greater", "larger", "more"]) : source.pick(["smaller", "less"])} than ${b}?`,
        (a > b) === more ? "Yes" : "No"
      )
    }
    case 2: {
      const words = items(source, 2, 5)
      const inside = source.chance(0.5)
      const word = inside ? source.pick(words) : source.anyWord()
      return task(
        "yes-no",
        source.pick([`Is ${word} in this list: ${list(words)}`, `Does this list contain ${word}: ${list(words)}`]),
        words.includes(word) ? "Yes" : "No"
      )
    }
    default:
      return facts("yes-no", source.int(1, 3), "whether")(source)
  }
}

// =====================================================================================================================
// Numbers
// =====================================================================================================================

const asksFor = (source: Source, a: number, sign: "+" | "-" | "*", b: number): string => {
  const spoken = { "+": "plus", "-": "minus", "*": "times" }[sign]
  const templates = [
    `What is ${a} ${sign} ${b}?`,
    `What is ${a} ${spoken} ${b}?`,
    `${a} ${sign} ${b}`,
    `Compute ${a} ${sign} ${b}.`,
    `How much is ${a} ${sign} ${b}?`
  ]
  if (sign === "+") templates.push(`Add ${a} and ${b}.`)
  if (sign === "-") templates.push(`Subtract ${b} from ${a}.`)
  if (sign === "*") templates.push(`Multiply ${a} by ${b}.`)
  return source.pick(templates)
}

/** Addition by columns, from the right, with what is carried. */
const columns = (a: number, b: number): string => {
  const lines: Array<string> = []
  const x = Array.from(String(a)).reverse().map(Number)
  const y = Array.from(String(b)).reverse().map(Number)
  let carry = 0
  for (let i = 0; i < Math.max(x.length, y.length); i++) {
    const p = x[i] ?? 0
    const q = y[i] ?? 0
    const sum = p + q + carry
    lines.push(carry === 0 ? `${p} + ${q} = ${sum}` : `${p} + ${q} + ${carry} = ${sum}`)
    carry = sum >= 10 ? 1 : 0
  }
  return lines.join("\n")
}

export const add = (skill: string, low: number, high: number): Maker => (source) => {
  const [a, b] = source.pair(low, high)
  return task(skill, asksFor(source, a, "+", b), String(a + b), String(a + b), "", columns(a, b))
}

export const subtract: Maker = (source) => {
  const [a, b] = source.pair(1, 99)
  const [high, low] = a > b ? [a, b] : [b, a]
  return task("subtract", asksFor(source, high, "-", low), String(high - low))
}

export const multiply: Maker = (source) => {
  const [a, b] = source.chance(0.6) ? source.pair(2, 9, 2, 12) : source.pair(2, 9, 10, 30)
  const [x, y] = source.chance(0.5) ? [a, b] : [b, a]
  return task("multiply", asksFor(source, x, "*", y), String(x * y))
}

/** Two operations on numbers up to `highest`, bare or in a little story. */
export const twoStep = (highest: number): Maker => (source) => {
  for (;;) {
    const [a, b] = source.pair(2, highest)
    const first = source.chance(0.7) || a < b ? "+" : "-"
    const middle = first === "+" ? a + b : a - b
    const c = source.int(2, highest)
    const second = source.chance(0.5) ? "+" : "-"
    const end = second === "+" ? middle + c : middle - c
    if (middle < 2 || end < 0 || end > 2.5 * highest || !source.allows(middle, c)) continue
    const steps = `${a} ${first} ${b} = ${middle}\n${middle} ${second} ${c} = ${end}`
    if (source.chance(0.5)) {
      const expression = `${a} ${first} ${b} ${second} ${c}`
      return task(
        "two-step",
        source.pick([`What is ${expression}?`, `Compute ${expression}.`, expression, `How much is ${expression}?`]),
        String(end),
        String(end),
        "",
        steps
      )
    }
    const who = source.name()
    const goods = source.of(Lexicon.countable)
    const change = (sign: string, n: number) =>
      sign === "+"
        ? `${source.pick(["gets", "buys", "finds"])} ${n} more`
        : `${source.pick(["eats", "sells", "loses"])} ${n}`
    return task(
      "two-step",
      `How many ${goods} does ${who} have now?`,
      String(end),
      String(end),
      `${who} has ${a} ${goods}. Then ${who} ${change(first, b)} and ${change(second, c)}.`,
      steps
    )
  }
}

/** Two operations, with the working in the answer. */
export const worked = (highest: number): Maker => (source) => {
  const task = twoStep(highest)(source)
  return { ...task, answer: task.steps?.replace("\n", ", ") ?? task.answer }
}

export const compare: Maker = (source) => {
  const top = source.pick([20, 99, 999, 9999])
  const [a, b] = source.pair(1, top)
  const large = source.chance(0.5)
  const numbers = source.chance(0.3) ? [a, b, source.int(1, top)] : [a, b]
  if (new Set(numbers).size < numbers.length) return compare(source)
  const value = String(large ? Math.max(...numbers) : Math.min(...numbers))
  const text = numbers.length === 2 ? `${a} or ${b}` : `${numbers[0]}, ${numbers[1]} or ${numbers[2]}`
  return task(
    "compare",
    large
      ? source.pick([`Which is larger, ${text}?`, `Which number is greater: ${text}?`, `What is more: ${text}?`])
      : source.pick([`Which is smaller, ${text}?`, `Which number is less: ${text}?`, `What is the smallest: ${text}?`]),
    value
  )
}

export const next: Maker = (source) => {
  const [start] = source.pair(1, 90)
  const step = source.pick([1, 1, 2, 3, 5, 10])
  const shown = Array.from({ length: 4 }, (_, i) => start + i * step)
  return task(
    "next",
    source.pick([`What comes next: ${shown.join(", ")}`, `Continue: ${shown.join(", ")}`]),
    String(start + 4 * step)
  )
}
