/**
 * Who did what to which checkpoint, run or session, by the day.
 */
import * as Permits from "@effect-tinker/platform/Permits"
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
  resource: Schema.Literal("checkpoint", "project", "session", "training_run"),
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

// A file is rewritten with every entry, so it must not grow large.
const entriesPerFile = 256

/** @internal */
export const layer: Layer.Layer<AuditLog, never, Storage> = Layer.effect(
  AuditLog,
  Effect.gen(function*() {
    const storage = yield* Storage
    const codec = makeCodec(storage, Schema.Array(Entry))
    const turn = yield* Permits.make(1)
    const fileOf = (day: string, part: number) => `audit/${day}${part === 0 ? "" : `.${part}`}.json`
    /** The file that is written now. */
    let open: { readonly day: string; readonly part: number; readonly entries: ReadonlyArray<Entry> } | undefined

    const parts = Effect.fnUntraced(function*(day: string) {
      const read: Array<ReadonlyArray<Entry>> = []
      for (;;) {
        const entries = yield* codec.read(fileOf(day, read.length))
        if (Option.isNone(entries)) return read
        read.push(entries.value)
      }
    })
    const last = Effect.fnUntraced(function*(day: string) {
      if (open?.day === day) return open
      const read = yield* parts(day)
      return { day, part: Math.max(0, read.length - 1), entries: read.at(-1) ?? [] }
    })

    return AuditLog.of({
      note: (caller, entry) =>
        turn.withPermits(1)(Effect.gen(function*() {
          const at = yield* Clock.currentTimeMillis
          const { day, entries, part } = yield* last(dayOf(at))
          const full = entries.length >= entriesPerFile
          const next = {
            day,
            part: full ? part + 1 : part,
            entries: [...full ? [] : entries, { ...entry, at, user: caller.urn, email: caller.email }]
          }
          yield* codec.write(fileOf(next.day, next.part), next.entries)
          open = next
        })),
      day: (day) => Effect.map(parts(day), (read) => read.flat())
    })
  })
)
