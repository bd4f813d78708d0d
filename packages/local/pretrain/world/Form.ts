/**
 * Instructions about the form of an answer, and the answer in that form.
 */
import { dumps } from "./Conversation.js"
import type { Source } from "./Source.js"
import type { Task } from "./Tasks.js"

export interface Form {
  /** The instruction within a question. */
  readonly asked: string
  /** The same as a standing instruction of the system. */
  readonly ruled: string
  readonly apply: (task: Task) => string
}

const withoutPeriod = (text: string): string => text.replace(/\.$/, "")

const bare = (task: Task): string => task.value.replace(/^the /, "")

const form = (asked: string, ruled: string, apply: (task: Task) => string): Form => ({ asked, ruled, apply })

const fixed: ReadonlyArray<Form> = [
  form("Answer in upper case.", "Always answer in upper case.", (task) => task.answer.toUpperCase()),
  form("Write in capital letters.", "Write everything in capital letters.", (task) => task.answer.toUpperCase()),
  form("Answer in lower case.", "Always answer in lower case.", (task) => task.answer.toLowerCase()),
  form("Answer in one word.", "Always answer in one word.", bare),
  form("Just the answer.", "Give only the answer, nothing else.", bare),
  form("Be brief.", "Be brief.", bare),
  form("Put the answer in quotes.", "Always put the answer in quotes.", (task) => `"${bare(task)}"`),
  form("Put the answer in brackets.", "Always put the answer in brackets.", (task) => `[${bare(task)}]`),
  form(
    "End with an exclamation mark.",
    "End every answer with an exclamation mark.",
    (task) => `${withoutPeriod(task.answer)}!`
  ),
  form("Do not end with a period.", "Never end with a period.", (task) => withoutPeriod(task.answer)),
  form("End with a period.", "End every answer with a period.", (task) => `${withoutPeriod(task.answer)}.`),
  form("Say it twice.", "Say every answer twice.", (task) => `${task.answer} ${task.answer}`)
]

const key = (source: Source): Form => {
  const name = source.chance(0.5) ? source.pick(["answer", "result", "value", "output"]) : source.word(7)
  return form(
    source.pick([`Answer as JSON with the key ${name}.`, `Reply in JSON with the key ${name}.`]),
    `Always answer in JSON with the key ${name}.`,
    (task) => dumps({ [name]: bare(task) })
  )
}

const around = (source: Source): Form => {
  const word = source.word(7)
  return source.chance(0.5)
    ? form(
      `Begin with the word ${word}.`,
      `Begin every answer with the word ${word}.`,
      (task) => `${word} ${task.answer}`
    )
    : form(`End with the word ${word}.`, `End every answer with the word ${word}.`, (task) => `${task.answer} ${word}`)
}

export const draw = (source: Source): Form => {
  const at = source.int(0, 9)
  return at < 2 ? key(source) : at < 4 ? around(source) : source.pick(fixed)
}
