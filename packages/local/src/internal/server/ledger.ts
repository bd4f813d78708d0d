/**
 * Usage: tokens and checkpoints, counted by the hour.
 */
import * as Permits from "@effect-tinker/platform/Permits"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { StorageFailed } from "../../Storage.js"
import { Storage } from "../../Storage.js"
import { makeCodec } from "./records.js"

const Usage = Schema.Struct({
  kind: Schema.Literal("training", "sampling_prefill", "sampling_sample", "checkpoint"),
  owner: Schema.String,
  baseModel: Schema.String,
  sessionId: Schema.optional(Schema.String),
  projectId: Schema.optional(Schema.String),
  count: Schema.Number
})

/** @internal */
export type Usage = typeof Usage.Type

/** @internal */
export interface Hour {
  /** When it began, in milliseconds. */
  readonly start: number
  readonly usage: ReadonlyArray<Usage>
}

/** @internal */
export interface LedgerShape {
  /** Counts it at once; it is written down a little later. */
  readonly charge: (usage: Usage) => Effect.Effect<void>
  /** Writes down what was counted, before something is acknowledged that outlives the process. */
  readonly flush: Effect.Effect<void>
  /** The hours from `from` and before `to`. */
  readonly hours: (from: number, to: number) => ReadonlyArray<Hour>
  /** Tokens trained on, read and sampled since the start. */
  readonly tokens: () => number
}

/** @internal */
export class Ledger extends Context.Tag("@effect-tinker/local/Ledger")<Ledger, LedgerShape>() {}

const directory = "billing"

/** So much usage at most is lost with a process that is killed. */
const delay = "250 millis"

/** @internal */
export const hourMillis = 3_600_000

/** @internal */
export const layer: Layer.Layer<Ledger, StorageFailed, Storage> = Layer.scoped(
  Ledger,
  Effect.gen(function*() {
    const storage = yield* Storage
    const codec = makeCodec(storage, Schema.Array(Usage))
    const hours = new Map<number, Map<string, Usage>>()
    const changed = new Set<number>()
    let tokens = 0
    const keyOf = ({ count: _, ...rest }: Usage) => JSON.stringify(Object.entries(rest).sort())

    for (const file of yield* storage.list(directory)) {
      const usage = yield* codec.read(`${directory}/${file}`)
      if (Option.isSome(usage)) {
        hours.set(Number(file.replace(".json", "")), new Map(usage.value.map((entry) => [keyOf(entry), entry])))
      }
    }

    const turn = yield* Permits.make(1)
    const flush = turn.withPermits(1)(Effect.suspend(() => {
      const due = Array.from(changed)
      changed.clear()
      return Effect.forEach(
        due,
        (start) => codec.write(`${directory}/${start}.json`, Array.from(hours.get(start)?.values() ?? [])),
        { discard: true }
      ).pipe(
        Effect.catchAll((error) => {
          for (const start of due) changed.add(start)
          return Effect.logWarning("Usage could not be written down", error)
        })
      )
    }))

    // counts change with every request: written down soon after the first change, with every checkpoint, and at the end
    const scope = yield* Effect.scope
    yield* Effect.addFinalizer(() => flush)
    const flushSoon = Effect.forkIn(Effect.interruptible(Effect.delay(flush, delay)), scope)

    return Ledger.of({
      charge: Effect.fnUntraced(function*(usage) {
        if (usage.count === 0) return
        if (usage.kind !== "checkpoint") tokens += usage.count
        const start = Math.floor((yield* Clock.currentTimeMillis) / hourMillis) * hourMillis
        const hour = hours.get(start) ?? new Map<string, Usage>()
        hours.set(start, hour)
        const key = keyOf(usage)
        hour.set(key, { ...usage, count: usage.count + (hour.get(key)?.count ?? 0) })
        if (changed.size === 0) yield* flushSoon
        changed.add(start)
      }),
      flush,
      tokens: () => tokens,
      hours: (from, to) =>
        Array.from(hours).filter(([start]) => start >= from && start < to).sort(([a], [b]) => a - b).map(
          ([start, usage]) => ({ start, usage: Array.from(usage.values()).sort((a, b) => b.count - a.count) })
        )
    })
  })
)
