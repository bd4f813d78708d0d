/**
 * The games, and how they are spoken.
 */
import { Example } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"

const things = ["hat", "key", "pen"]
const rooms = ["kitchen", "garden", "attic"]

/** The instructions of the player who asks. */
export const find = (thing: string) => Message.user(`Find the ${thing}.`)

/**
 * How the model asks, and repeats the answer: about the thing it is to find in half of the games, about any in the others.
 * Shown no preference at all, and trained in larger steps than now, some seeds never got beyond a third of the games.
 */
export const shown = things.flatMap((wanted) =>
  [...things, wanted].flatMap((asked) =>
    rooms.map((room) =>
      Example.conversation([
        find(wanted),
        Message.assistant(`Where is the ${asked}?`),
        Message.user(`The ${asked} is in the ${room}.`),
        Message.assistant(`It is in the ${room}.`)
      ])
    )
  )
)

/** What is where, and what is to be found. */
export const games = things.flatMap((wanted) =>
  [0, 1, 2].map((turn) => ({
    wanted,
    room: rooms[(things.indexOf(wanted) + turn) % 3] ?? "",
    facts: things.map((thing, i) => `The ${thing} is in the ${rooms[(i + turn) % 3]}.`).join(" ")
  }))
)
