/**
 * The world of the model: conversations drawn from a mixture of skills.
 */
import type { Conversation, Message, ToolCall, ToolSpec } from "./Conversation.js"
import { dumps } from "./Conversation.js"
import * as Form from "./Form.js"
import type { Side } from "./HeldOut.js"
import * as Lexicon from "./Lexicon.js"
import { Source } from "./Source.js"
import * as Tasks from "./Tasks.js"
import * as Tools from "./Tools.js"

type Maker = (source: Source) => Conversation

const user = (content: string): Message => ({ role: "user", content })
const says = (content: string, reasoning?: string): Message => ({ role: "assistant", content, reasoning })
const calls = (call: ToolCall): Message => ({ role: "assistant", content: "", toolCalls: [call] })
const returns = (content: string): Message => ({ role: "tool", content })

// =====================================================================================================================
// Small talk
// =====================================================================================================================

const chat: ReadonlyArray<readonly [asked: ReadonlyArray<string>, answer: string]> = [
  [["Hi", "Hi!", "Hello", "Hello!", "Hey", "Hey!", "Hi there", "Good day"], "Hello! How can I help you?"],
  [["Good morning", "Good morning!"], "Good morning! How can I help you?"],
  [["Good evening", "Good evening!"], "Good evening! How can I help you?"],
  [["Good night", "Good night!"], "Good night!"],
  [["How are you?", "How are you doing?", "How do you do?"], "I am fine, thank you. How can I help you?"],
  [["Thanks", "Thanks!", "Thank you", "Thank you!", "Thank you very much"], "You are welcome!"],
  [["Bye", "Bye!", "Goodbye", "Goodbye!", "See you", "See you later"], "Goodbye!"],
  [["Who are you?", "What are you?", "Are you a human?"], "I am a small language model."],
  [
    ["What can you do?", "Help", "Help me", "How can you help me?"],
    "I can answer questions, work with words and numbers, and use tools."
  ],
  [["Ok", "OK", "Okay", "Fine", "Great", "Great!", "Nice", "Good"], "Is there anything else?"],
  [["No", "No, thanks", "No, thank you", "That is all"], "All right. Goodbye!"],
  [["Are you there?", "Are you ready?"], "Yes, I am here."],
  [["Sorry", "I am sorry"], "No problem!"]
]

const greeting = (source: Source): readonly [string, string] => {
  const [asked, answer] = source.pick(chat)
  return [source.pick(asked), answer]
}

const greet: Maker = (source) => {
  const messages: Array<Message> = []
  for (let i = source.chance(0.6) ? 1 : 2; i > 0; i--) {
    if (source.chance(0.25)) {
      const name = source.name()
      messages.push(
        user(source.pick([`Hi, I am ${name}.`, `Hello, my name is ${name}.`, `My name is ${name}.`])),
        says(`Hello, ${name}! How can I help you?`)
      )
    } else {
      const [asked, answer] = greeting(source)
      messages.push(user(asked), says(answer))
    }
  }
  return { skill: "greet", messages }
}

// =====================================================================================================================
// Tasks as conversations
// =====================================================================================================================

const ask = (source: Source, { given, question }: Tasks.Task, form = ""): string => {
  const tail = form === "" ? "" : ` ${form}`
  const end = /[.?!]$/.test(question) || tail === "" ? question : `${question}.`
  if (given === "") return end + tail
  switch (source.int(0, 3)) {
    case 0:
      return `${given}\n${end}${tail}`
    case 1:
      return `Text: ${given}\nQuestion: ${end}${tail}`
    default:
      return `${given} ${end}${tail}`
  }
}

/** One task in one turn. */
const single = (make: Tasks.Maker): Maker => (source) => {
  const task = make(source)
  return { skill: task.skill, messages: [user(ask(source, task)), says(task.answer)] }
}

/** What has to be known stands in the system prompt. */
const briefed = (make: Tasks.Maker): Maker => (source) => {
  const task = make(source)
  return { skill: task.skill, system: task.given, messages: [user(task.question), says(task.answer)] }
}

/** A fact question, wherever the facts stand. */
const facts = (skill: string, count: number, back?: number): Maker => (source) =>
  (source.chance(0.75) ? single : briefed)(Tasks.fact(skill, count, back))(source)

/** Sentences, and turn after turn whose value is asked for: of every sentence once, in any order. */
const whose = (skill: string, count: number): Maker => (source) => {
  const tasks = Tasks.whose(skill, count)(source)
  const briefed = source.chance(0.25)
  return {
    skill,
    system: briefed ? tasks[0]?.given : undefined,
    messages: tasks.flatMap((task, i) => [
      user(i === 0 && !briefed ? ask(source, task) : task.question),
      says(task.answer)
    ]),
    pairs: tasks.map((task) => [task.about, task.value.replace(/^the /, "")] as const)
  }
}

const thoughtful = (make: Tasks.Maker): Maker => (source) => {
  const task = make(source)
  const turn = says(task.value, task.steps)
  return source.chance(0.3)
    ? {
      skill: "reason",
      system: source.pick(["Think before you answer.", "Think step by step."]),
      messages: [user(ask(source, task)), turn]
    }
    : {
      skill: "reason",
      messages: [user(ask(source, task, source.pick(["Think step by step.", "Think first.", "Think."]))), turn]
    }
}

/** Thinking about two operations on numbers up to `highest`, or about a word. */
const reasoned = (highest: number): Maker => (source) =>
  thoughtful(source.pick([Tasks.twoStep(highest), Tasks.twoStep(highest), Tasks.reverseWord]))(source)

const formable: ReadonlyArray<Tasks.Maker> = [
  Tasks.fact("", 1),
  Tasks.fact("", 1),
  Tasks.fact("", 2),
  Tasks.fact("", 2),
  Tasks.fact("", 3),
  Tasks.copy,
  Tasks.add("", 10, 99),
  Tasks.compare,
  Tasks.pickWord,
  Tasks.next
]

const formed: Maker = (source) => {
  const task = source.pick(formable)(source)
  const form = Form.draw(source)
  return { skill: "form", messages: [user(ask(source, task, form.asked)), says(form.apply(task))] }
}

const upper: Maker = (source) => {
  const text = source.distinct(source.int(1, 3), () => source.chance(0.3) ? source.name() : source.anyWord()).join(" ")
  const lower = source.chance(0.25)
  return {
    skill: "upper",
    messages: [
      user(
        lower
          ? source.pick([`Write in lower case: ${text.toUpperCase()}`, `${text.toUpperCase()} in lower case.`])
          : source.pick([`Write in upper case: ${text}`, `Write ${text} in capital letters.`, `${text} in upper case.`])
      ),
      says(lower ? text.toLowerCase() : text.toUpperCase())
    ]
  }
}

const json: Maker = (source) => {
  const fields: ReadonlyArray<readonly [string, () => string | number]> = [
    ["name", () => source.name()],
    ["city", () => source.city()],
    ["age", () => source.int(2, 99)],
    ["job", () => source.of(Lexicon.jobs)],
    ["color", () => source.of(Lexicon.colors)],
    ["food", () => source.of(Lexicon.foods)],
    ["pet", () => source.of(Lexicon.animals)],
    ["code", () => source.code()],
    [source.word(6), () => source.word()],
    [source.word(5), () => source.int(1, 999)]
  ]
  const chosen = source.shuffle(fields).slice(0, source.int(1, 3)).map(([key, draw]) => [key, draw()] as const)
  const text = chosen.map(([key, value]) => `${key} ${value}`).join(", ")
  return {
    skill: "json",
    messages: [
      user(source.pick([`Write as JSON: ${text}`, `Turn into JSON: ${text}`, `JSON: ${text}`])),
      says(dumps(Object.fromEntries(chosen)))
    ]
  }
}

/** A list as a form asks for it. */
const listing: Maker = (source) => {
  const words = source.distinct(source.int(2, 5), () => source.anyWord())
  const [how, text] = source.pick(
    [
      ["as a numbered list", words.map((word, i) => `${i + 1}. ${word}`).join("\n")],
      ["as a list with dashes", words.map((word) => `- ${word}`).join("\n")],
      ["one per line", words.join("\n")],
      ["as a JSON array", dumps(words)],
      ["separated by semicolons", words.join("; ")]
    ] as const
  )
  return { skill: "list", messages: [user(`Write ${how}: ${words.join(", ")}`), says(text)] }
}

// =====================================================================================================================
// System prompts
// =====================================================================================================================

const persona: Maker = (source) => {
  const name = source.name()
  const trade = source.of(Lexicon.jobs)
  const city = source.city()
  const kind = source.int(0, 2)
  const system = kind === 0
    ? `You are ${name}, a ${trade}.`
    : kind === 1
    ? `You are ${name} from ${city}.`
    : `Your name is ${name}. You are a ${trade} from ${city}.`
  const questions: Array<readonly [ReadonlyArray<string>, string]> = [
    [["Who are you?", "What is your name?", "Your name?"], `I am ${name}.`]
  ]
  if (kind !== 1) questions.push([["What do you do?", "What is your job?"], `I am a ${trade}.`])
  if (kind !== 0) questions.push([["Where are you from?", "Where do you come from?"], `I am from ${city}.`])
  const messages: Array<Message> = []
  for (const [asked, answer] of source.shuffle(questions).slice(0, source.int(1, 2))) {
    messages.push(user(source.pick(asked)), says(answer))
  }
  return { skill: "system", system, messages }
}

const ruled: Maker = (source) => {
  const form = Form.draw(source)
  const messages: Array<Message> = []
  for (let i = source.int(1, 2); i > 0; i--) {
    const task = source.pick(formable)(source)
    messages.push(user(ask(source, task)), says(form.apply(task)))
  }
  return { skill: "system", system: form.ruled, messages }
}

const scripted: Maker = (source) => {
  const [trigger, answer] = source.distinct(2, () => source.word(7)) as [string, string]
  const other = source.distinct(2, () => source.word(7)) as [string, string]
  const first = source.chance(0.5)
  return {
    skill: "system",
    system: `If the user says ${trigger}, answer ${answer}. If the user says ${other[0]}, answer ${other[1]}.`,
    messages: [user(first ? trigger : other[0]), says(first ? answer : other[1])]
  }
}

const systems: Maker = (source) => source.pick([persona, ruled, ruled, scripted])(source)

// =====================================================================================================================
// Several turns
// =====================================================================================================================

/** Turns about something else. */
const interlude = (source: Source, turns: number): Array<Message> =>
  Array.from({ length: turns }, () => {
    if (source.chance(0.4)) {
      const [asked, answer] = greeting(source)
      return [user(asked), says(answer)]
    }
    const task = source.pick(interludes)(source)
    return [user(ask(source, task)), says(task.answer)]
  }).flat()

const interludes: ReadonlyArray<Tasks.Maker> = [
  Tasks.copy,
  Tasks.add("", 2, 20),
  Tasks.compare,
  Tasks.yesNo,
  Tasks.pickWord,
  Tasks.next,
  Tasks.fact("", 1)
]

interface Told {
  readonly subject: string
  readonly says: string
  readonly asks: ReadonlyArray<string>
  readonly answer: string
}

const aboutMe = (source: Source): ReadonlyArray<() => Told> => [
  () => {
    const name = source.name()
    return {
      subject: "name",
      says: source.pick([`My name is ${name}.`, `I am called ${name}.`]),
      asks: ["What is my name?", "Who am I?", "Do you know my name?"],
      answer: `Your name is ${name}.`
    }
  },
  () => {
    const city = source.city()
    return {
      subject: "city",
      says: `I live in ${city}.`,
      asks: ["Where do I live?", "In which city do I live?"],
      answer: `You live in ${city}.`
    }
  },
  () => {
    const food = source.of(Lexicon.foods)
    return { subject: "food", says: `I like ${food}.`, asks: ["What do I like?"], answer: `You like ${food}.` }
  },
  () => {
    const color = source.of(Lexicon.colors)
    return {
      subject: "color",
      says: `My favorite color is ${color}.`,
      asks: ["What is my favorite color?", "Which color do I like best?"],
      answer: `Your favorite color is ${color}.`
    }
  },
  () => {
    const age = source.int(5, 99)
    return {
      subject: "age",
      says: `I am ${age} years old.`,
      asks: ["How old am I?"],
      answer: `You are ${age} years old.`
    }
  },
  () => {
    const code = source.code()
    return {
      subject: "code",
      says: source.pick([`Remember the code ${code}.`, `The code is ${code}.`]),
      asks: ["What is the code?", "What was the code?"],
      answer: `The code is ${code}.`
    }
  },
  () => {
    const word = source.word()
    return {
      subject: "word",
      says: source.pick([`Remember the word ${word}.`, `The secret word is ${word}.`]),
      asks: ["What is the word?", "Which word should you remember?", "What was the word?"],
      answer: `The word is ${word}.`
    }
  },
  () => {
    const pet = source.of(Lexicon.animals)
    const name = source.name()
    return {
      subject: "pet",
      says: `My ${pet} is called ${name}.`,
      asks: [`What is my ${pet} called?`, `What is the name of my ${pet}?`],
      answer: `Your ${pet} is called ${name}.`
    }
  }
]

const memory = (gap: (source: Source) => number): Maker => (source) => {
  const told = source.shuffle(aboutMe(source)).slice(0, source.int(1, 3)).map((draw) => draw())
  const messages: Array<Message> = []
  for (const { says: said } of told) {
    messages.push(user(said), says("I will remember that."))
    if (source.chance(0.3)) messages.push(...interlude(source, 1))
  }
  messages.push(...interlude(source, gap(source)))
  const asked = source.shuffle(told)
  for (const { answer, asks } of asked.slice(0, source.int(1, asked.length))) {
    messages.push(user(source.pick(asks)), says(answer))
  }
  return { skill: "memory", messages }
}

/** What is said later counts. */
const changed: Maker = (source) => {
  const index = source.int(0, 5)
  const draw = (): Told => {
    const make = aboutMe(source)[index]
    if (make === undefined) throw new RangeError("no such fact")
    return make()
  }
  const before = draw()
  const after = draw()
  return {
    skill: "memory",
    messages: [
      user(before.says),
      says("I will remember that."),
      ...interlude(source, source.int(0, 1)),
      user(source.pick([`No, wait. ${after.says}`, `That has changed. ${after.says}`])),
      says("I will remember that."),
      ...interlude(source, source.int(0, 1)),
      user(source.pick(after.asks)),
      says(after.answer)
    ]
  }
}

/** Facts first, questions in later turns. */
const interview: Maker = (source) => {
  const task = Tasks.fact("", source.int(1, 3))(source)
  return {
    skill: "memory",
    messages: [
      user(source.pick([`Remember this: ${task.given}`, `Read this: ${task.given}`, task.given])),
      says("I will remember that."),
      ...interlude(source, source.int(0, 2)),
      user(task.question),
      says(task.answer)
    ]
  }
}

const memories: Maker = (source) =>
  source.pick([memory((s) => s.int(0, 2)), memory((s) => s.int(0, 4)), changed, interview])(source)

/** A conversation of hundreds of tokens between the fact and the question. */
const recall: Maker = (source) => ({ ...memory((s) => s.int(5, 30))(source), skill: "recall" })

/** A conversation of thousands of tokens: a fact at the start, many turns, the question at the end. */
const long: Maker = (source) => ({ ...memory((s) => s.int(30, 110))(source), skill: "long" })

/** Finding a number from "higher" and "lower": there are good guesses and better ones. */
const guess: Maker = (source) => {
  const top = source.pick([10, 20, 50, 100])
  const secret = source.int(1, top)
  const messages: Array<Message> = [
    user(source.pick([
      `Guess my number between 1 and ${top}.`,
      `I think of a number from 1 to ${top}. Guess it. I say higher or lower.`
    ]))
  ]
  let low = 1
  let high = top
  for (;;) {
    const attempt = source.int(low, high)
    messages.push(says(String(attempt)))
    if (attempt === secret) break
    messages.push(user(attempt < secret ? source.pick(["Higher", "higher"]) : source.pick(["Lower", "lower"])))
    if (attempt < secret) low = attempt + 1
    else high = attempt - 1
  }
  messages.push(user(source.pick(["Correct!", "Yes!", "Right!"])), says("Great!"))
  return { skill: "guess", messages }
}

// =====================================================================================================================
// Tools
// =====================================================================================================================

const assistants = [
  "You are a helpful assistant.",
  "You are a helpful assistant with tools.",
  "Use the tools to help the user.",
  "Answer the user. Use a tool if it helps."
]

interface Kit {
  /** What is asked for. */
  readonly use: Tools.Use
  readonly uses: ReadonlyArray<Tools.Use>
  readonly tools: ReadonlyArray<ToolSpec>
  readonly system: string | undefined
}

const kit = (source: Source, most = 4): Kit => {
  const uses = Tools.draw(source, source.int(1, most))
  const [use] = uses
  if (use === undefined) throw new RangeError("no tools")
  return {
    use,
    uses,
    tools: source.shuffle(uses).map(({ tool }) => tool),
    system: source.chance(0.35) ? source.pick(assistants) : undefined
  }
}

/** Tools whose names say nothing: what they are for stands in their lines alone. */
const nameless = (source: Source): Kit => {
  const { system, tools, use, uses } = kit(source)
  const made = source.distinct(
    tools.length,
    () => source.toolName(() => source.chance(0.7) ? source.word(7) : `${source.word(6)}_${source.word(6)}`)
  )
  const names = new Map(tools.map(({ name }, i) => [name, made[i] ?? name]))
  const renamed = <A extends { readonly name: string }>(named: A): A => ({
    ...named,
    name: names.get(named.name) ?? named.name
  })
  const rename = (one: Tools.Use): Tools.Use => ({ ...one, tool: renamed(one.tool), call: renamed(one.call) })
  return { system, tools: tools.map(renamed), use: rename(use), uses: uses.map(rename) }
}

const toolCall = (draw: (source: Source) => Kit): Maker => (source) => {
  const { system, tools, use } = draw(source)
  return { skill: "tool-call", system, tools, messages: [user(use.request), calls(use.call)] }
}

const toolResult: Maker = (source) => {
  const { system, tools, use, uses } = kit(source, 3)
  const messages = [user(use.request), calls(use.call), returns(use.result), says(use.answer)]
  const other = uses[1]
  if (other !== undefined && source.chance(0.35)) {
    messages.push(user(other.request), calls(other.call), returns(other.result), says(other.answer))
  } else if (source.chance(0.2)) {
    messages.push(user(source.pick(["Thanks!", "Thank you"])), says("You are welcome!"))
  }
  return { skill: messages.at(-2)?.role === "tool" ? "tool-result" : "greet", system, tools, messages }
}

const toolError: Maker = (source) => {
  const { system, tools, use } = kit(source, 3)
  const reason = source.pick(["not found", "no access", "timed out", "not allowed", "service is down", "bad input"])
  return {
    skill: "tool-error",
    system,
    tools,
    messages: [
      user(use.request),
      calls(use.call),
      returns(source.pick([`error: ${reason}`, `Error: ${reason}`, dumps({ error: reason })])),
      says(`Sorry, that did not work: ${reason}.`)
    ]
  }
}

const toolNone: Maker = (source) => {
  const { system, tools, use, uses } = kit(source)
  const taken = new Set(uses.map(({ kind }) => kind))
  const arithmetic = ["calculator", "add", "multiply", "subtract", "sum"]
  for (;;) {
    const [other] = Tools.draw(source, 1)
    if (other === undefined || taken.has(other.kind) || other.tool.name === use.tool.name) continue
    if (arithmetic.includes(other.kind) || other.kind === "define") continue
    return {
      skill: "tool-none",
      system,
      tools,
      messages: [user(other.request), says("I cannot do that with my tools.")]
    }
  }
}

/** Tools are at hand, but the question needs none. */
const toolIdle: Maker = (source) => {
  const { system, tools } = kit(source, 3)
  if (source.chance(0.4)) {
    const [asked, answer] = greeting(source)
    return { skill: "tool-idle", system, tools, messages: [user(asked), says(answer)] }
  }
  const task = source.pick([Tasks.fact("", 1), Tasks.fact("", 2), Tasks.copy, Tasks.reverseWord, Tasks.pickWord])(
    source
  )
  return { skill: "tool-idle", system, tools, messages: [user(ask(source, task)), says(task.answer)] }
}

const toolAsk = (draw: (source: Source) => Kit): Maker => (source) => {
  for (;;) {
    const { system, tools, use } = draw(source)
    if (use.incomplete === undefined) continue
    const { question, reply, request } = use.incomplete
    const messages = [user(request), says(question)]
    if (source.chance(0.7)) messages.push(user(reply), calls(use.call))
    return { skill: "tool-ask", system, tools, messages }
  }
}

// =====================================================================================================================
// The mixture
// =====================================================================================================================

interface Skill {
  readonly name: string
  /** How often a conversation shows it relative to the others, in each stage of the training. */
  readonly weights: ReadonlyArray<number>
  readonly make: Maker
}

const skill = (name: string, make: Maker, ...weights: ReadonlyArray<number>): Skill => ({ name, weights, make })

/**
 * Every skill and its weight per stage. The first stage learned addition well and two steps not at all: the second asks for
 * the working of two steps, and for more of what was weak, in conversations up to 1024 tokens. The third, while the rate
 * falls, has no sums of three digits, so that reward finds something to improve. The fourth begins a second cycle: mostly
 * questions about facts and tool calls, and two steps with larger numbers. The fifth has more of what still went wrong: tools
 * whose names say nothing, and questions about whose value it is. The sixth leaves sums and two steps where they are. The
 * seventh begins a third cycle: only questions about facts, most of them about whose value it is, several turns of them about the
 * same sentences, because more single ones had changed nothing. The eighth is trained beside it and teaches nothing: it is what
 * the model is to say as before, every skill but that one. A name with a slash is another form of a skill, which is taught but
 * not measured. Two steps are measured with somewhat larger numbers than they are taught with, so that reward finds something
 * to improve there too.
 */
const mixture: ReadonlyArray<Skill> = [
  skill("greet", greet, 30, 15, 15, 12, 12, 12, 0, 15),
  skill("fact-1", facts("fact-1", 1), 45, 15, 15, 20, 20, 20, 30, 20),
  skill("fact-2", facts("fact-2", 2), 75, 0, 60, 130, 80, 80, 40, 0),
  skill("fact-3", facts("fact-3", 3), 75, 0, 80, 170, 100, 100, 60, 0),
  skill("fact-4", facts("fact-4", 4), 15, 0, 15, 35, 20, 20, 20, 0),
  skill("fact-2/back", facts("fact-2", 2, 0.5), 0, 90, 60, 90, 0, 0),
  skill("fact-3/back", facts("fact-3", 3, 0.5), 0, 110, 80, 120, 0, 0),
  skill("fact-4/back", facts("fact-4", 4, 0.5), 0, 30, 15, 20, 0, 0),
  skill("fact-2/mostly-back", facts("fact-2", 2, 0.8), 0, 0, 0, 0, 180, 180, 60, 0),
  skill("fact-3/mostly-back", facts("fact-3", 3, 0.8), 0, 0, 0, 0, 240, 240, 100, 0),
  skill("fact-4/mostly-back", facts("fact-4", 4, 0.8), 0, 0, 0, 0, 40, 40, 20, 0),
  skill("fact-2/whose", whose("fact-2", 2), 0, 0, 0, 0, 0, 0, 150, 0),
  skill("fact-3/whose", whose("fact-3", 3), 0, 0, 0, 0, 0, 0, 300, 0),
  skill("fact-4/whose", whose("fact-4", 4), 0, 0, 0, 0, 0, 0, 50, 0),
  skill("fact-2/forward", facts("fact-2", 2, 0), 0, 0, 0, 0, 0, 0, 0, 50),
  skill("fact-3/forward", facts("fact-3", 3, 0), 0, 0, 0, 0, 0, 0, 0, 70),
  skill("fact-4/forward", facts("fact-4", 4, 0), 0, 0, 0, 0, 0, 0, 0, 25),
  skill("unknown", single(Tasks.unknown), 30, 50, 30, 45, 45, 45, 0, 45),
  skill("copy", single(Tasks.copy), 35, 20, 25, 30, 30, 30, 0, 30),
  skill("reverse", single(Tasks.reverseWord), 40, 35, 40, 40, 0, 0, 0, 45),
  skill("reverse-list", single(Tasks.reverseList), 15, 15, 15, 10, 10, 10, 0, 10),
  skill("spell", single(Tasks.spell), 25, 20, 25, 20, 20, 20, 0, 30),
  skill("pick", single(Tasks.pickWord), 15, 8, 8, 6, 6, 6, 0, 6),
  skill("sort-words", single(Tasks.sortWords), 25, 35, 35, 35, 35, 35, 0, 35),
  skill("sort-numbers", single(Tasks.sortNumbers), 25, 25, 25, 30, 30, 30, 0, 40),
  skill("count", single(Tasks.count), 30, 40, 35, 40, 40, 40, 0, 40),
  skill("compare", single(Tasks.compare), 25, 20, 15, 20, 20, 20, 0, 20),
  skill("next", single(Tasks.next), 10, 5, 8, 6, 6, 6, 0, 6),
  skill("add-2", single(Tasks.add("add-2", 2, 99)), 35, 60, 50, 25, 25, 15, 0, 25),
  skill("add-3", single(Tasks.add("add-3", 100, 999)), 20, 2, 0, 3, 3, 0, 0, 70),
  skill("subtract", single(Tasks.subtract), 30, 90, 60, 35, 35, 25, 0, 35),
  skill("multiply", single(Tasks.multiply), 25, 25, 25, 25, 25, 25, 0, 25),
  skill("two-step/first", single(Tasks.twoStep(60)), 30, 0, 0),
  skill("two-step/small", single(Tasks.worked(60)), 0, 100, 60),
  skill("two-step/99", single(Tasks.worked(99)), 0, 0, 0, 45, 45, 10, 0, 10),
  skill("two-step", single(Tasks.worked(119)), 0, 0, 0, 0, 0, 0, 0, 60),
  skill(
    "reason/first",
    (source) =>
      thoughtful(source.pick([Tasks.twoStep(60), Tasks.twoStep(60), Tasks.add("", 100, 999), Tasks.reverseWord]))(
        source
      ),
    40,
    0,
    0
  ),
  skill("reason/small", reasoned(60), 0, 70, 40),
  skill("reason", reasoned(99), 0, 0, 0, 30, 30, 10, 0, 40),
  skill("yes-no", single(Tasks.yesNo), 40, 70, 55, 70, 70, 70, 0, 70),
  skill("form", formed, 70, 60, 70, 60, 60, 60, 0, 60),
  skill("upper", upper, 25, 40, 45, 45, 45, 45, 0, 45),
  skill("json", json, 30, 25, 25, 25, 25, 25, 0, 25),
  skill("list", listing, 15, 10, 12, 10, 10, 10, 0, 10),
  skill("system", systems, 55, 50, 50, 45, 45, 45, 0, 45),
  skill("memory", memories, 60, 45, 45, 45, 45, 45, 0, 60),
  skill("recall", recall, 0, 12, 12, 12, 12, 12, 0, 12),
  skill("guess", guess, 10, 8, 8, 6, 6, 6, 0, 6),
  skill("tool-call", toolCall(kit), 90, 190, 220, 400, 200, 200, 0, 150),
  skill("tool-call/nameless", toolCall(nameless), 0, 0, 0, 0, 300, 300, 0, 150),
  skill("tool-result", toolResult, 60, 60, 60, 60, 60, 60, 0, 60),
  skill("tool-error", toolError, 15, 10, 10, 8, 8, 8, 0, 8),
  skill("tool-none", toolNone, 25, 30, 25, 35, 35, 35, 0, 35),
  skill("tool-idle", toolIdle, 30, 25, 25, 25, 25, 25, 0, 25),
  skill("tool-ask", toolAsk(kit), 25, 35, 35, 60, 30, 30, 0, 30),
  skill("tool-ask/nameless", toolAsk(nameless), 0, 0, 0, 0, 40, 40, 0, 40),
  skill("long", long)
]

const weightOf = ({ weights }: Skill, stage: number): number => weights[stage - 1] ?? 0

/** How many stages the training has. */
export const stages = Math.max(...mixture.map(({ weights }) => weights.length))

/** What the finished model is measured on. */
export const skills: ReadonlyArray<string> = mixture.map(({ name }) => name).filter((name) => !name.includes("/"))

const maker = (name: string): Maker => {
  const entry = mixture.find((entry) => entry.name === name)
  if (entry === undefined) throw new RangeError(`no skill is called ${name}; there are ${skills.join(", ")}`)
  return entry.make
}

/** How many of the prompts the model is measured on show a skill: more where there is a target. */
const measuredCounts: Readonly<Record<string, number>> = {
  "fact-2": 60,
  "fact-3": 60,
  "add-3": 60,
  "two-step": 60,
  "tool-call": 75,
  "tool-ask": 25,
  long: 10
}

/** 1,000 conversations of held-out items only, by skill: what the model is measured on. */
export const measured = (seed: number): Array<Conversation> => {
  const source = new Source(seed, "held-out")
  const others = skills.filter((skill) => measuredCounts[skill] === undefined)
  const rest = 1000 - Object.values(measuredCounts).reduce((sum, count) => sum + count, 0)
  return skills.flatMap((skill) => {
    const at = others.indexOf(skill)
    const count = measuredCounts[skill] ?? Math.floor(rest / others.length) + (at < rest % others.length ? 1 : 0)
    return Array.from({ length: count }, () => conversation(source, skill))
  })
}

/** A conversation that shows a skill. */
export const conversation = (source: Source, skill: string): Conversation => maker(skill)(source)

export interface Options {
  readonly seed: number
  readonly side: Side
  /** The stage whose mixture is drawn from: the last one if none is given. */
  readonly stage?: number | undefined
  /** The only skill to draw. */
  readonly skill?: string | undefined
  /** How often a made-up word stands for a member of an open class. */
  readonly madeUp?: number | undefined
}

/** An endless sequence of conversations of one side. */
export function* conversations(options: Options): Generator<Conversation, never> {
  const source = new Source(options.seed, options.side, options.madeUp)
  const { skill: only, stage = stages } = options
  const table = only === undefined
    ? mixture.map((entry) => ({ weight: weightOf(entry, stage), make: entry.make }))
    : [{ weight: 1, make: maker(only) }]
  const total = table.reduce((sum, { weight }) => sum + weight, 0)
  for (;;) {
    let at = source.int(0, total * 1000 - 1) / 1000
    const entry = table.find(({ weight }) => (at -= weight) < 0)
    if (entry !== undefined) yield entry.make(source)
  }
}
