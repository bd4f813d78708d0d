/**
 * What the quickstart teaches: questions with one right answer each. Those that are held out share no name, city, thing or
 * sum with those that are trained on.
 */
import { Effect, Random } from "effect"
import { Datum } from "effect-tinker"
import type { SampledSequence } from "effect-tinker/wire/Sample"

export interface Problem {
  readonly question: string
  readonly answer: string
}

export interface Task {
  readonly train: ReadonlyArray<Problem>
  readonly heldOut: ReadonlyArray<Problem>
}

export const solves = ({ answer }: Problem, said: string): boolean => said.trim() === answer

/** The share of answers that are right. */
export const accuracy = ({ heldOut }: Task, answers: ReadonlyArray<string>): number =>
  heldOut.filter((problem, i) => solves(problem, answers[i] ?? "")).length / heldOut.length

const words = (text: string): ReadonlyArray<string> => text.trim().split(/\s+/)

const people = words(`
  Ada Alice Amir Astrid Bella Bruno Carla Cem Clara Daniel Diego Dora Elena Emil Emma Erik Fatima Felix Finn Frida Greta
  Hana Hugo Ida Igor Ines Ivan Jana Jonas Julia Kai Karl Kira Lars Lena Leo Lucy Luis Mara Marco Mei Mila Mira Nadia Nils
  Nora Olga Otto Pavel Petra Priya Raj Rosa Sam Sofia Sven Tara Theo Uma Vera Victor Yuki Zara Zoe`)
const cities = words(`
  Accra Athens Berlin Bogota Boston Cairo Chicago Dakar Delhi Denver Dublin Geneva Hanoi Havana Helsinki Jakarta Kyoto
  Lagos Lima Lisbon London Lyon Madrid Manila Milan Montreal Munich Nairobi Naples Osaka Oslo Paris Perth Porto Prague
  Quito Riga Rome Seoul Seville Sydney Tokyo Toronto Turin Vienna Warsaw Zagreb Zurich`)
const things = words(`
  apples balls bells boats bottles bowls boxes brushes candles chairs cups desks dolls drums forks hats kites knives lamps
  masks mugs pears pens phones pianos plates plums radios rings ropes scarves shirts spoons tables tents vases`)

/** A list in random order, cut in two: for training, and the last quarter to be held out. */
const split = <A>(list: ReadonlyArray<A>) =>
  Effect.map(Random.shuffle(list), (shuffled) => {
    const items = Array.from(shuffled)
    const at = Math.floor(items.length * 0.75)
    return { train: items.slice(0, at), heldOut: items.slice(at) }
  })

/** A format the model has never seen: `Send 12 lamps to Mira in Oslo.` becomes `Mira/Oslo: 12 lamps`. */
export const orders = (sizes: { readonly train: number; readonly heldOut: number }) =>
  Effect.gen(function*() {
    const [who, where, what] = yield* Effect.all([split(people), split(cities), split(things)])
    const order = (side: "train" | "heldOut") =>
      Effect.gen(function*() {
        const name = yield* Random.choice(who[side])
        const city = yield* Random.choice(where[side])
        const goods = yield* Random.choice(what[side])
        const count = yield* Random.nextIntBetween(2, 100)
        return {
          question: `Send ${count} ${goods} to ${name} in ${city}.`,
          answer: `${name}/${city}: ${count} ${goods}`
        }
      })
    const task: Task = {
      train: yield* Effect.replicateEffect(Effect.orDie(order("train")), sizes.train),
      heldOut: yield* Effect.replicateEffect(Effect.orDie(order("heldOut")), sizes.heldOut)
    }
    return task
  })

/** Whether something is carried in every column. */
const carries = (a: number, b: number): boolean => [10, 100, 1000].every((place) => a % place + b % place >= place)

/** Sums of two numbers of three digits that carry in every column, no two of them alike. */
export const sums = (sizes: { readonly train: number; readonly heldOut: number }) =>
  Effect.gen(function*() {
    const drawn = new Map<string, Problem>()
    while (drawn.size < sizes.train + sizes.heldOut) {
      const a = yield* Random.nextIntBetween(100, 1000)
      const b = yield* Random.nextIntBetween(100, 1000)
      if (!carries(a, b)) continue
      drawn.set(`${Math.min(a, b)}+${Math.max(a, b)}`, { question: `What is ${a} + ${b}?`, answer: String(a + b) })
    }
    const all = Array.from(drawn.values())
    const task: Task = { train: all.slice(sizes.heldOut), heldOut: all.slice(0, sizes.heldOut) }
    return task
  })

/** What was drawn as training data: each of its tokens counts as much as the whole was better than its group. */
export const experience = (prompt: Int32Array, sequence: SampledSequence, advantage: number) => {
  const tokens = Int32Array.from([...prompt, ...sequence.tokens])
  const given = new Float32Array(prompt.length - 1)
  return Datum.make({
    modelInput: tokens.subarray(0, -1),
    lossFnInputs: {
      target_tokens: tokens.subarray(1),
      logprobs: Float32Array.from([...given, ...(sequence.logprobs ?? [])]),
      advantages: Float32Array.from([...given, ...Array.from(sequence.tokens, () => advantage)])
    }
  })
}
