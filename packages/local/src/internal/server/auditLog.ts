/**
 * Who did what to which checkpoint or session, by the day.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { StorageFailed } from "../../Storage.js"
import { Storage } from "../../Storage.js"
import type { Caller } from "./accounts.js"
import { makeCodec } from "./records.js"

const Entry = Schema.Struct({
  at: Schema.Number,
  resource: Schema.Literal("checkpoint", "project"),
  action: Schema.String,
  user: Schema.String,
  email: Schema.String,
  path: Schema.optional(Schema.String),
  modelId: Schema.optional(Schema.String),
  projectId: Schema.optional(Schema.String),
  sessionId: Schema.optional(Schema.String)
})

/** @internal */
export type Entry = typeof Entry.Type

/** @internal */
export interface AuditLogShape {
  readonly note: (
    caller: Pick<Caller, "urn" | "email">,
    entry: Omit<Entry, "at" | "user" | "email">
  ) => Effect.Effect<void, StorageFailed>
  /** The entries of a UTC day such as `2026-01-31`, oldest first. */
  readonly day: (day: string) => Effect.Effect<ReadonlyArray<Entry>, StorageFailed>
}

/** @internal */
export class AuditLog extends Context.Tag("@effect-tinker/local/AuditLog")<AuditLog, AuditLogShape>() {}

/** @internal */
export const dayOf = (millis: number): string => DateTime.formatIsoDateUtc(DateTime.unsafeMake(millis))

/** @internal */
export const layer: Layer.Layer<AuditLog, never, Storage> = Layer.effect(
  AuditLog,
  Effect.gen(function*() {
    const storage = yield* Storage
    const codec = makeCodec(storage, Schema.Array(Entry))
    const turn = yield* Effect.makeSemaphore(1)
    const fileOf = (day: string) => `audit/${day}.json`
    const read = (day: string) => Effect.map(codec.read(fileOf(day)), Option.getOrElse((): ReadonlyArray<Entry> => []))
    return AuditLog.of({
      note: (caller, entry) =>
        turn.withPermits(1)(Effect.gen(function*() {
          const at = yield* Clock.currentTimeMillis
          const day = dayOf(at)
          const entries = yield* read(day)
          yield* codec.write(fileOf(day), [...entries, { ...entry, at, user: caller.urn, email: caller.email }])
        })),
      day: read
    })
  })
)
