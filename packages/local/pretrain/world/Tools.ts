/**
 * Tools as agents have them: a request, the call that serves it, what comes back and what is then said.
 */
import type { Json, ToolCall, ToolSpec } from "./Conversation.js"
import { dumps } from "./Conversation.js"
import * as Lexicon from "./Lexicon.js"
import type { Source } from "./Source.js"
import { capitalize } from "./Source.js"

/** One use of one tool. */
export interface Use {
  readonly kind: string
  readonly tool: ToolSpec
  readonly request: string
  readonly call: ToolCall
  readonly result: string
  readonly answer: string
  /** The request with a required value left out, the question about it and the reply. */
  readonly incomplete?: { readonly request: string; readonly question: string; readonly reply: string } | undefined
}

interface Parameter {
  readonly name: string
  readonly type: string
  readonly optional?: boolean | undefined
  /** Left out of the call if undefined. */
  readonly value: Json | undefined
}

type Kind = (source: Source) => Use

const toolName = (source: Source, verbs: ReadonlyArray<string>, nouns: ReadonlyArray<string>): string =>
  source.toolName(() => {
    const verb = source.pick(verbs)
    const noun = source.pick(nouns)
    const made = source.word(7)
    switch (source.int(0, 9)) {
      case 0:
        return `${verb}${capitalize(noun)}`
      case 1:
        return `${noun}_${verb}`
      case 2:
      case 3:
        return `${made}_${noun}`
      case 4:
        return `${verb}_${made}`
      case 5:
        return source.chance(0.5) ? made : noun
      case 6:
        return `${verb}_${noun}_${made}`
      default:
        return `${verb}_${noun}`
    }
  })

const use = (
  kind: string,
  name: string,
  description: string,
  parameters: ReadonlyArray<Parameter>,
  rest: Pick<Use, "request" | "result" | "answer" | "incomplete">
): Use => ({
  kind,
  tool: {
    name,
    description,
    parameters: {
      type: "object",
      properties: Object.fromEntries(parameters.map((parameter) => [parameter.name, { type: parameter.type }])),
      required: parameters.filter(({ optional }) => optional !== true).map((parameter) => parameter.name)
    }
  },
  call: {
    name,
    arguments: Object.fromEntries(
      parameters.flatMap((parameter) => parameter.value === undefined ? [] : [[parameter.name, parameter.value]])
    )
  },
  ...rest
})

/** A result as a tool returns it: bare, or as JSON under one of the keys. */
const returned = (source: Source, value: Json, keys: ReadonlyArray<string>): string =>
  source.chance(0.5) ? (typeof value === "string" ? value : dumps(value)) : dumps({ [source.pick(keys)]: value })

const weather: Kind = (source) => {
  const city = source.city()
  const sky = source.pick(["sunny", "rainy", "cloudy", "windy", "snowy", "foggy", "stormy", "clear"])
  const unit = source.chance(0.5) ? source.pick(["celsius", "fahrenheit"]) : undefined
  const value = source.chance(0.5) ? sky : `${sky}, ${source.int(1, 35)} degrees`
  const asked = unit !== undefined && source.chance(0.5) ? unit : undefined
  return use(
    "weather",
    toolName(source, ["get", "check", "fetch", "find", "show", "read"], ["weather", "forecast"]),
    source.pick(["Get the weather of a city.", "Weather in a city.", "Current weather for a place."]),
    [
      { name: source.pick(["city", "location", "place", "town"]), type: "string", value: city },
      ...(unit === undefined
        ? []
        : [{ name: source.pick(["unit", "units"]), type: "string", optional: true, value: asked }])
    ],
    {
      request: source.pick([
        `What is the weather in ${city}`,
        `How is the weather in ${city}`,
        `Tell me the weather in ${city}`
      ]) + (asked === undefined ? "?" : ` in ${asked}?`),
      result: returned(source, value, ["weather", "forecast", "sky"]),
      answer: `The weather in ${city} is ${value}.`,
      incomplete: asked === undefined
        ? { request: "What is the weather?", question: "For which city?", reply: source.pick([city, `In ${city}.`]) }
        : undefined
    }
  )
}

const calculator: Kind = (source) => {
  const [a, b] = source.pair(10, 9999)
  const sign = source.pick(["+", "-", "*", "/"])
  const spoken = { "+": "plus", "-": "minus", "*": "times", "/": "divided by" }[sign] ?? sign
  const expression = `${a} ${sign} ${b}`
  const value = { "+": a + b, "-": a - b, "*": a * b, "/": Math.round(a / b) }[sign] ?? 0
  return use(
    "calculator",
    toolName(source, ["run", "use", "calculate", "evaluate", "compute"], ["calculator", "calc", "math", "expression"]),
    source.pick(["Compute an expression.", "Evaluate an arithmetic expression.", "Calculator."]),
    [{ name: source.pick(["expression", "input", "formula", "query"]), type: "string", value: expression }],
    {
      request: source.pick([`What is ${expression}?`, `Compute ${expression}.`, `Calculate ${a} ${spoken} ${b}.`]),
      result: returned(source, value, ["result", "value", "answer"]),
      answer: `The result is ${value}.`
    }
  )
}

const operands: Kind = (source) => {
  const [a, b] = source.pair(10, 999)
  const names = source.pick([["a", "b"], ["x", "y"], ["left", "right"], ["first", "second"]] as const)
  const kind = source.pick(
    [
      ["add", "Add two numbers.", `Add ${a} and ${b}.`, a + b],
      ["multiply", "Multiply two numbers.", `Multiply ${a} by ${b}.`, a * b],
      ["subtract", "Subtract the second number from the first.", `Subtract ${b} from ${a}.`, a - b]
    ] as const
  )
  const [verb, description, request, value] = kind
  return use(
    verb,
    toolName(source, [verb], ["numbers", "two", "values"]),
    description,
    names.map((name, i) => ({ name, type: source.pick(["number", "integer"]), value: i === 0 ? a : b })),
    { request, result: returned(source, value, ["result", "value", "sum"]), answer: `The result is ${value}.` }
  )
}

const sum: Kind = (source) => {
  const numbers = Array.from({ length: source.int(2, 5) }, () => source.int(1, 99))
  const value = numbers.reduce((total, n) => total + n, 0)
  return use(
    "sum",
    toolName(source, ["sum", "total"], ["list", "numbers", "values"]),
    source.pick(["Sum a list of numbers.", "Total of a list."]),
    [{ name: source.pick(["numbers", "values", "list", "items"]), type: "array", value: numbers }],
    {
      request: source.pick([`Sum the list ${numbers.join(", ")}.`, `What is the total of ${numbers.join(", ")}?`]),
      result: returned(source, value, ["sum", "total", "result"]),
      answer: `The total is ${value}.`
    }
  )
}

const search: Kind = (source) => {
  const query = source.distinct(source.int(1, 3), () => source.anyWord()).join(" ")
  const value = source.distinct(source.int(1, 3), () => source.anyWord()).join(" ")
  return use(
    "search",
    toolName(source, ["search", "query", "browse"], ["web", "internet", "docs", "pages"]),
    source.pick(["Search the web.", "Search for pages.", "Find pages about a topic."]),
    [{ name: source.pick(["query", "q", "text", "topic"]), type: "string", value: query }],
    {
      request: source.pick([`Search for ${query}.`, `Search the web for ${query}.`, `Find pages about ${query}.`]),
      result: returned(source, value, ["result", "title", "page"]),
      answer: `I found: ${value}.`,
      incomplete: { request: "Search the web.", question: "What should I search for?", reply: query }
    }
  )
}

const order: Kind = (source) => {
  const id = source.code()
  const value = source.pick(["shipped", "delivered", "delayed", "packed", "lost", "returned", "paid", "on the way"])
  return use(
    "order",
    toolName(source, ["get", "track", "lookup", "find", "check"], ["order", "orders", "package"]),
    source.pick(["Look up an order.", "Status of an order.", "Track an order by its number."]),
    [{ name: source.pick(["order_id", "id", "order", "number", "orderId"]), type: "string", value: id }],
    {
      request: source.pick([`Where is my order ${id}?`, `What is the status of order ${id}?`, `Track order ${id}.`]),
      result: returned(source, value, ["status", "state"]),
      answer: `Order ${id} is ${value}.`,
      incomplete: { request: "Where is my order?", question: "What is the order number?", reply: id }
    }
  )
}

const time: Kind = (source) => {
  const city = source.city()
  const value = `${source.int(1, 23)}:${source.int(10, 59)}`
  return use(
    "time",
    toolName(source, ["get", "show", "read", "local"], ["time", "clock"]),
    source.pick(["Get the time in a city.", "Local time of a place."]),
    [{ name: source.pick(["city", "zone", "place", "location"]), type: "string", value: city }],
    {
      request: source.pick([`What time is it in ${city}?`, `Tell me the time in ${city}.`]),
      result: returned(source, value, ["time", "now"]),
      answer: `It is ${value} in ${city}.`,
      incomplete: { request: "What time is it?", question: "In which city?", reply: source.pick([city, `In ${city}.`]) }
    }
  )
}

const translate: Kind = (source) => {
  const text = source.distinct(source.int(1, 2), () => source.anyWord()).join(" ")
  const language = source.pick(["French", "German", "Spanish", "Italian", "Danish", "Dutch", "Polish", "Greek"])
  const value = source.word()
  return use(
    "translate",
    toolName(source, ["translate", "convert"], ["text", "words", "phrase"]),
    source.pick(["Translate text into a language.", "Translate a phrase."]),
    [
      { name: source.pick(["text", "phrase", "input"]), type: "string", value: text },
      { name: source.pick(["language", "target", "to", "lang"]), type: "string", value: language }
    ],
    {
      request: source.pick([`Translate ${text} into ${language}.`, `How do you say ${text} in ${language}?`]),
      result: returned(source, value, ["translation", "text", "result"]),
      answer: `In ${language} it is ${value}.`
    }
  )
}

const message: Kind = (source) => {
  const to = source.name()
  const text = source.distinct(source.int(1, 3), () => source.anyWord()).join(" ")
  const value = source.pick(["sent", "ok", "done", "delivered"])
  return use(
    "message",
    toolName(source, ["send", "post", "write"], ["message", "mail", "email", "text"]),
    source.pick(["Send a message to a person.", "Send somebody a message."]),
    [
      { name: source.pick(["to", "recipient", "person", "name"]), type: "string", value: to },
      { name: source.pick(["text", "body", "message", "content"]), type: "string", value: text }
    ],
    {
      request: source.pick([`Send ${to} the message: ${text}`, `Tell ${to}: ${text}`, `Write to ${to}: ${text}`]),
      result: returned(source, value, ["status", "result"]),
      answer: `I sent the message to ${to}.`
    }
  )
}

const reminder: Kind = (source) => {
  const minutes = source.int(2, 90)
  const text = source.distinct(source.int(1, 2), () => source.anyWord()).join(" ")
  return use(
    "reminder",
    toolName(source, ["set", "create", "add"], ["reminder", "alarm", "timer"]),
    source.pick(["Set a reminder.", "Remind the user after some minutes."]),
    [
      { name: source.pick(["minutes", "delay", "after"]), type: "integer", value: minutes },
      { name: source.pick(["text", "note", "label", "title"]), type: "string", value: text }
    ],
    {
      request: source.pick([
        `Remind me of ${text} in ${minutes} minutes.`,
        `In ${minutes} minutes, remind me of ${text}.`
      ]),
      result: returned(source, source.pick(["ok", "set", "done"]), ["status", "result"]),
      answer: `I will remind you of ${text} in ${minutes} minutes.`
    }
  )
}

const money: Kind = (source) => {
  const amount = source.int(2, 999)
  const [from, to] = source.distinct(2, () => source.pick(["USD", "EUR", "GBP", "JPY", "SEK", "CHF", "INR", "CAD"]))
  const value = source.int(2, 9999)
  return use(
    "money",
    toolName(source, ["convert", "exchange", "change"], ["money", "currency", "amount"]),
    source.pick(["Convert money between currencies.", "Exchange an amount of money."]),
    [
      { name: source.pick(["amount", "value", "sum"]), type: "number", value: amount },
      { name: source.pick(["from", "source", "base"]), type: "string", value: from },
      { name: source.pick(["to", "target", "into"]), type: "string", value: to }
    ],
    {
      request: source.pick([`Convert ${amount} ${from} to ${to}.`, `How much is ${amount} ${from} in ${to}?`]),
      result: returned(source, value, ["amount", "result", "value"]),
      answer: `${amount} ${from} is ${value} ${to}.`
    }
  )
}

const lamp: Kind = (source) => {
  const room = source.of(Lexicon.rooms)
  const on = source.chance(0.5)
  return use(
    "lamp",
    toolName(source, ["set", "switch", "turn"], ["lamp", "light", "lights"]),
    source.pick(["Switch the light of a room.", "Turn a light on or off."]),
    [
      { name: source.pick(["room", "place", "where"]), type: "string", value: room },
      { name: source.pick(["on", "enabled", "state", "active"]), type: "boolean", value: on }
    ],
    {
      request: source.pick([
        `Turn ${on ? "on" : "off"} the light in the ${room}.`,
        `Switch the ${room} light ${on ? "on" : "off"}.`
      ]),
      result: returned(source, source.pick(["ok", "done"]), ["status", "result"]),
      answer: `The light in the ${room} is ${on ? "on" : "off"}.`
    }
  )
}

const contact: Kind = (source) => {
  const who = source.name()
  const value = source.code()
  return use(
    "contact",
    toolName(source, ["get", "find", "lookup"], ["contact", "phone", "number"]),
    source.pick(["Find the phone number of a person.", "Look up a contact."]),
    [{ name: source.pick(["name", "person", "contact", "who"]), type: "string", value: who }],
    {
      request: source.pick([`What is the phone number of ${who}?`, `Find the number of ${who}.`]),
      result: returned(source, value, ["phone", "number", "value"]),
      answer: `The number of ${who} is ${value}.`,
      incomplete: { request: "Find a phone number.", question: "Of whom?", reply: who }
    }
  )
}

const booking: Kind = (source) => {
  const people = source.int(2, 12)
  const day = source.pick(["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"])
  const value = source.code()
  return use(
    "booking",
    toolName(source, ["book", "reserve"], ["table", "room", "seat"]),
    source.pick(["Book a table.", "Reserve a table for some people."]),
    [
      { name: source.pick(["people", "guests", "count", "size"]), type: "integer", value: people },
      { name: source.pick(["day", "date", "when"]), type: "string", value: day }
    ],
    {
      request: source.pick([`Book a table for ${people} on ${day}.`, `I need a table for ${people} people on ${day}.`]),
      result: returned(source, value, ["booking", "code", "id"]),
      answer: `The table is booked for ${day}: ${value}.`,
      incomplete: {
        request: `Book a table for ${people}.`,
        question: "For which day?",
        reply: source.pick([day, `On ${day}.`])
      }
    }
  )
}

const define: Kind = (source) => {
  const word = source.anyWord()
  const value = source.distinct(source.int(2, 3), () => source.anyWord()).join(" ")
  return use(
    "define",
    toolName(source, ["define", "explain", "lookup"], ["word", "term", "meaning"]),
    source.pick(["Meaning of a word.", "Define a word."]),
    [{ name: source.pick(["word", "term", "entry"]), type: "string", value: word }],
    {
      request: source.pick([`What does ${word} mean?`, `Define ${word}.`, `What is the meaning of ${word}?`]),
      result: returned(source, value, ["meaning", "definition"]),
      answer: `${capitalize(word)} means ${value}.`
    }
  )
}

const file: Kind = (source) => {
  const path = `${source.word()}.${source.pick(["txt", "md", "csv", "json"])}`
  const value = source.distinct(source.int(1, 3), () => source.anyWord()).join(" ")
  return use(
    "file",
    toolName(source, ["read", "open", "load"], ["file", "document"]),
    source.pick(["Read a file.", "Content of a file."]),
    [{ name: source.pick(["path", "file", "filename"]), type: "string", value: path }],
    {
      request: source.pick([`Read the file ${path}.`, `What is in the file ${path}?`, `Open ${path}.`]),
      result: returned(source, value, ["content", "text"]),
      answer: `The file says: ${value}`,
      incomplete: { request: "Read a file.", question: "Which file?", reply: path }
    }
  )
}

const stock: Kind = (source) => {
  const thing = source.of(Lexicon.things)
  const value = source.int(1, 999)
  return use(
    "stock",
    toolName(source, ["get", "check", "find"], ["price", "cost"]),
    source.pick(["Price of a product.", "Get the price of an item."]),
    [{ name: source.pick(["product", "item", "name"]), type: "string", value: thing }],
    {
      request: source.pick([`What is the price of the ${thing}?`, `How much is the ${thing}?`]),
      result: returned(source, value, ["price", "cost", "value"]),
      answer: `The ${thing} costs ${value}.`
    }
  )
}

/** A tool whose purpose is a made-up verb: only its line says what it is for. */
const madeUp: Kind = (source) => {
  const verb = source.word(6)
  const word = source.chance(0.7) ? source.anyWord() : source.code()
  const value = source.chance(0.5) ? source.word() : source.code()
  return use(
    verb,
    source.toolName(() => source.chance(0.5) ? source.word(7) : `${source.word(6)}_${source.word(6)}`),
    source.pick([`${capitalize(verb)} a word.`, `Use this to ${verb}.`, `${capitalize(verb)} something.`]),
    [{
      name: source.chance(0.5) ? source.word(6) : source.pick(["input", "word", "value", "x"]),
      type: "string",
      value: word
    }],
    {
      request: source.pick([`${capitalize(verb)} ${word}.`, `Please ${verb} ${word}.`, `Can you ${verb} ${word}?`]),
      result: returned(source, value, ["result", "output", "value"]),
      answer: `The result is ${value}.`
    }
  )
}

const dice: Kind = (source) => {
  const value = source.int(1, 6)
  return use(
    "dice",
    toolName(source, ["roll", "throw"], ["dice", "die"]),
    "Roll a die.",
    [],
    {
      request: source.pick(["Roll the dice.", "Throw a die.", "Roll a die."]),
      result: returned(source, value, ["value", "result"]),
      answer: `You rolled ${value}.`
    }
  )
}

const kinds: ReadonlyArray<Kind> = [
  weather,
  calculator,
  operands,
  sum,
  search,
  order,
  time,
  translate,
  message,
  reminder,
  money,
  lamp,
  contact,
  booking,
  define,
  file,
  stock,
  madeUp,
  madeUp,
  madeUp,
  dice
]

/** Different uses: no two of one kind or one name. */
export const draw = (source: Source, count: number): Array<Use> => {
  const uses: Array<Use> = []
  while (uses.length < count) {
    const next = source.pick(kinds)(source)
    const clash = uses.some(({ kind, tool }) => kind === next.kind || tool.name === next.tool.name) ||
      // The calculator serves what these serve: which one to call would be a matter of taste.
      uses.concat(next).filter(({ kind }) => ["calculator", "add", "multiply", "subtract", "sum"].includes(kind))
          .length > 1
    if (!clash) uses.push(next)
  }
  return uses
}
