/**
 * Sessions: opened by a client, alive while it sends heartbeats, over when it finishes or falls silent.
 */
import * as Entropy from "@effect-tinker/platform/Entropy"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { StorageFailed } from "../../Storage.js"
import { Storage } from "../../Storage.js"
import { fileName } from "./identity.js"
import type { HttpFailure } from "./message.js"
import { gone, notFound } from "./message.js"
import { makeCodec } from "./records.js"
import { Settings } from "./settings.js"

const Metadata = Schema.Record({ key: Schema.String, value: Schema.String })

const SessionRecord = Schema.Struct({
  id: Schema.String,
  owner: Schema.String,
  createdAt: Schema.Number,
  tags: Schema.Array(Schema.String),
  sdkVersion: Schema.String,
  userMetadata: Schema.optional(Metadata),
  projectId: Schema.optional(Schema.String),
  displayName: Schema.optional(Schema.String),
  /** Absent while it is alive. */
  ended: Schema.optional(Schema.Struct({
    at: Schema.Number,
    reason: Schema.Literal("success", "errored", "interrupted", "silent"),
    detail: Schema.optional(Schema.String)
  }))
})

/** @internal */
export type SessionRecord = typeof SessionRecord.Type

/** @internal */
export type EndReason = NonNullable<SessionRecord["ended"]>["reason"]

/** @internal */
export interface SessionsShape {
  readonly create: (
    options: Omit<SessionRecord, "id" | "createdAt" | "ended">
  ) => Effect.Effect<SessionRecord, StorageFailed>
  /** A session of this owner, alive or not. */
  readonly require: (id: string, owner: string) => Effect.Effect<SessionRecord, HttpFailure>
  /** A session of this owner that is alive, which asking proves; 410 when it is over. */
  readonly requireAlive: (id: string, owner: string) => Effect.Effect<SessionRecord, HttpFailure | StorageFailed>
  readonly isAlive: (id: string) => Effect.Effect<boolean>
  /** How long ago its client last said something; undefined when it is over. */
  readonly quietFor: (id: string) => Effect.Effect<Duration.Duration | undefined>
  /** The first reason counts. */
  readonly end: (
    id: string,
    reason: EndReason,
    detail?: string | undefined
  ) => Effect.Effect<void, StorageFailed>
  readonly assignProject: (id: string, projectId: string) => Effect.Effect<void, StorageFailed>
  readonly get: (id: string) => SessionRecord | undefined
  /** All of them, newest first. */
  readonly all: () => ReadonlyArray<SessionRecord>
  /** Runs when a session is over. */
  readonly onEnd: (listener: (session: SessionRecord) => Effect.Effect<void>) => Effect.Effect<void>
}

/** @internal */
export class Sessions extends Context.Tag("@effect-tinker/local/Sessions")<Sessions, SessionsShape>() {}

const directory = "sessions"

/** @internal */
export const layer: Layer.Layer<Sessions, StorageFailed, Settings | Storage> = Layer.scoped(
  Sessions,
  Effect.gen(function*() {
    const storage = yield* Storage
    const { sessionTimeout } = yield* Settings
    const codec = makeCodec(storage, SessionRecord)
    const sessions = new Map<string, SessionRecord>()
    const lastSeen = new Map<string, number>()
    const listeners: Array<(session: SessionRecord) => Effect.Effect<void>> = []
    const timeout = Duration.toMillis(sessionTimeout)

    const started = yield* Clock.currentTimeMillis
    for (const file of yield* storage.list(directory)) {
      const record = yield* codec.read(`${directory}/${file}`)
      if (Option.isNone(record)) continue
      sessions.set(record.value.id, record.value)
      // its client may still be there, and gets the time to report
      if (record.value.ended === undefined) lastSeen.set(record.value.id, started)
    }

    const save = (record: SessionRecord) =>
      Effect.zipRight(
        Effect.sync(() => sessions.set(record.id, record)),
        codec.write(`${directory}/${fileName(record.id)}.json`, record)
      )

    const end = Effect.fnUntraced(function*(id: string, reason: EndReason, detail?: string | undefined) {
      const session = sessions.get(id)
      if (session === undefined || session.ended !== undefined) return
      lastSeen.delete(id)
      const ended = { ...session, ended: { at: yield* Clock.currentTimeMillis, reason, detail } }
      yield* save(ended)
      yield* Effect.forEach(listeners, (listener) => listener(ended), { discard: true })
    })

    const endSilent = Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      for (const [id, seen] of lastSeen) if (now - seen > timeout) yield* end(id, "silent")
    })

    const require = (id: string, owner: string): Effect.Effect<SessionRecord, HttpFailure> => {
      const session = sessions.get(id)
      return session === undefined || session.owner !== owner
        ? notFound(`Session ${id} not found`)
        : Effect.succeed(session)
    }

    yield* endSilent.pipe(
      Effect.catchAllCause((cause) => Effect.logWarning("Failed to end idle sessions", cause)),
      Effect.repeat(Schedule.spaced(Duration.times(sessionTimeout, 0.5))),
      Effect.forkScoped
    )

    return Sessions.of({
      create: Effect.fnUntraced(function*(options) {
        const now = yield* Clock.currentTimeMillis
        const record: SessionRecord = { ...options, id: yield* Entropy.uuid, createdAt: now }
        yield* save(record)
        lastSeen.set(record.id, now)
        return record
      }),
      require,
      requireAlive: Effect.fnUntraced(function*(id, owner) {
        yield* endSilent
        const session = yield* require(id, owner)
        if (session.ended !== undefined) {
          return yield* gone(
            session.ended.reason === "silent"
              ? `Session ${id} expired: no heartbeat for ${Duration.format(sessionTimeout)}`
              : `Session ${id} is finished`
          )
        }
        lastSeen.set(id, yield* Clock.currentTimeMillis)
        return session
      }),
      isAlive: (id) => Effect.sync(() => lastSeen.has(id)),
      quietFor: (id) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          const seen = lastSeen.get(id)
          return seen === undefined ? undefined : Duration.millis(now - seen)
        }),
      end,
      assignProject: (id, projectId) => {
        const session = sessions.get(id)
        return session === undefined ? Effect.void : save({ ...session, projectId })
      },
      get: (id) => sessions.get(id),
      all: () => Array.from(sessions.values()).sort((a, b) => b.createdAt - a.createdAt),
      onEnd: (listener) => Effect.sync(() => void listeners.push(listener))
    })
  })
)
