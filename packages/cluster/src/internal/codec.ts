/**
 * Trajectories as text, number for number: typed arrays as base64, and the numbers that JSON lacks by name (-0 is one). A schema of
 * every token would cost more than the rollout it describes.
 */
import type * as Trajectory from "@effect-tinker/cookbook/Trajectory"
import * as Either from "effect/Either"
import * as Encoding from "effect/Encoding"
import * as Predicate from "effect/Predicate"

const bytesOf = (array: Int32Array | Float32Array): string =>
  Encoding.encodeBase64(new Uint8Array(array.buffer, array.byteOffset, array.byteLength))

/** Copied, so that it starts where four bytes do. */
const bufferOf = (text: string): ArrayBuffer => {
  const bytes = Either.getOrThrow(Encoding.decodeBase64(text))
  const copy = new ArrayBuffer(bytes.byteLength)
  new Uint8Array(copy).set(bytes)
  return copy
}

const replace = (_key: string, value: unknown): unknown =>
  value instanceof Int32Array
    ? { $i32: bytesOf(value) }
    : value instanceof Float32Array
    ? { $f32: bytesOf(value) }
    : typeof value === "number" && (!Number.isFinite(value) || Object.is(value, -0))
    ? { $number: value === 0 ? "-0" : String(value) }
    : value

const revive = (_key: string, value: unknown): unknown => {
  if (!Predicate.isRecord(value)) return value
  if (typeof value["$i32"] === "string") return new Int32Array(bufferOf(value["$i32"]))
  if (typeof value["$f32"] === "string") return new Float32Array(bufferOf(value["$f32"]))
  if (typeof value["$number"] === "string") return Number(value["$number"])
  return value
}

const isTurn = (u: unknown): u is Trajectory.Turn =>
  Predicate.hasProperty(u, "prompt") && u.prompt instanceof Int32Array &&
  Predicate.hasProperty(u, "action") &&
  Predicate.hasProperty(u.action, "tokens") && u.action.tokens instanceof Int32Array &&
  Predicate.hasProperty(u.action, "logprobs") && u.action.logprobs instanceof Float32Array &&
  u.action.tokens.length === u.action.logprobs.length

const isTrajectory = (u: unknown): u is Trajectory.Trajectory =>
  Predicate.hasProperty(u, "turns") && Array.isArray(u.turns) && u.turns.every(isTurn) &&
  Predicate.hasProperty(u, "reward") && typeof u.reward === "number"

/** Texts of what was received to be stored: they are stored as they came. */
const received = new WeakMap<object, string>()

/** @internal */
export const encode = (trajectories: ReadonlyArray<Trajectory.Trajectory>): string =>
  received.get(trajectories) ?? JSON.stringify(trajectories, replace)

/** The trajectories, or what is wrong with the text. @internal */
export const decode = (text: string): Either.Either<ReadonlyArray<Trajectory.Trajectory>, string> =>
  Either.try({
    try: (): unknown => JSON.parse(text, revive),
    catch: (error) => error instanceof Error ? error.message : String(error)
  }).pipe(
    Either.flatMap((value) =>
      Array.isArray(value) && value.every(isTrajectory) ? Either.right(value) : Either.left("no trajectories")
    )
  )

/** As `decode`, of what is to be stored next: its text is kept until then. @internal */
export const receive = (text: string): Either.Either<ReadonlyArray<Trajectory.Trajectory>, string> =>
  Either.map(decode(text), (trajectories) => {
    received.set(trajectories, text)
    return trajectories
  })

/** The text is not needed any more. @internal */
export const release = (trajectories: ReadonlyArray<Trajectory.Trajectory>): void => {
  received.delete(trajectories)
}
