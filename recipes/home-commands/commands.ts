/**
 * What people say to a house, and the command it should become. Rooms of the held-out ones are not among those that are
 * trained on.
 */
import { Effect, Random } from "effect"

export interface Spoken {
  readonly said: string
  readonly command: Readonly<Record<string, string | number>>
}

const rooms = {
  train: [
    ...["kitchen", "bedroom", "hallway", "office", "garage", "attic", "pantry", "library", "workshop", "studio"],
    ...["dining room", "guest room", "laundry room", "playroom", "balcony", "sauna", "gallery", "conservatory"],
    ...["bakery", "winter garden", "music room", "stairwell", "greenhouse", "chapel", "gym", "lobby", "dairy"],
    ...["scullery", "parlour", "boiler room", "wine store", "observatory"]
  ],
  heldOut: ["bathroom", "living room", "cellar", "nursery"]
}

const times = [
  ["at six in the morning", "06:00"],
  ["at seven in the morning", "07:00"],
  ["at half past seven", "07:30"],
  ["at half past nine", "09:30"],
  ["at noon", "12:00"],
  ["at three in the afternoon", "15:00"],
  ["at eight tonight", "20:00"],
  ["at nine tonight", "21:00"],
  ["at midnight", "00:00"]
] as const

/** A device, what may be said about it, and what its command says. */
interface Kind {
  readonly phrases: ReadonlyArray<(room: string, value: number) => string>
  readonly command: (room: string, value: number) => Readonly<Record<string, string | number>>
  readonly values: readonly [least: number, most: number]
}

const kinds: ReadonlyArray<Kind> = [
  {
    phrases: [
      (room, value) => `dim the ${room} lights to ${value} percent`,
      (room, value) => `I want the lamps in the ${room} at ${value} %`,
      (room, value) => `bring the light in the ${room} down to ${value} percent`
    ],
    command: (room, value) => ({ device: "light", room, action: "dim", value }),
    values: [5, 95]
  },
  {
    phrases: [
      (room, value) => `heat the ${room} to ${value} degrees`,
      (room, value) => `it is cold, make it ${value} degrees in the ${room}`,
      (room, value) => `set the ${room} thermostat to ${value}`
    ],
    command: (room, value) => ({ device: "heating", room, action: "set", value }),
    values: [15, 26]
  },
  {
    phrases: [
      (room) => `close the blinds in the ${room}`,
      (room) => `pull the ${room} blinds down`,
      (room) => `too much sun in the ${room}, shut the blinds`
    ],
    command: (room) => ({ device: "blinds", room, action: "close" }),
    values: [0, 1]
  },
  {
    phrases: [
      (room) => `switch the fan in the ${room} off`,
      (room) => `turn off the ${room} fan`,
      (room) => `the fan in the ${room} is too loud, stop it`
    ],
    command: (room) => ({ device: "fan", room, action: "off" }),
    values: [0, 1]
  }
]

const draw = (side: "train" | "heldOut") =>
  Effect.gen(function*() {
    const kind = yield* Random.choice(kinds)
    const phrase = yield* Random.choice(kind.phrases)
    const room = yield* Random.choice(rooms[side])
    const value = yield* Random.nextIntBetween(...kind.values)
    const [when, at] = yield* Random.choice(times)
    const timed = yield* Random.nextBoolean
    const sentence = phrase(room, value)
    const said = timed ? `${sentence} ${when}` : sentence
    const isOrder = /^(dim|bring|heat|set|close|pull|switch|turn) /.test(said)
    const polite = yield* Random.choice(["", "Hey, ", ...(isOrder ? ["Please ", "Could you "] : [])])
    const spoken: Spoken = {
      said: `${polite}${polite === "" ? said.charAt(0).toUpperCase() + said.slice(1) : said}.`,
      command: { ...kind.command(room, value), ...(timed ? { at } : {}) }
    }
    return spoken
  }).pipe(Effect.orDie)

/** Sentences to train on, and others to be measured by; a seed draws both. */
export const commands = (seed: number, count: { readonly train: number; readonly heldOut: number }) =>
  Effect.all({
    train: Effect.replicateEffect(draw("train"), count.train),
    heldOut: Effect.replicateEffect(draw("heldOut"), count.heldOut)
  }).pipe(Effect.withRandom(Random.make(seed)))

/** Whether an answer is the command, whatever the order of its fields. */
export const isRight = ({ command }: Spoken, answer: string): boolean => {
  try {
    const given: unknown = JSON.parse(answer)
    const sorted = (value: object) => JSON.stringify(Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1))
    return typeof given === "object" && given !== null && sorted(given) === sorted(command)
  } catch {
    return false
  }
}
