/**
 * Records kept as JSON files. One that cannot be read is moved aside, so that the rest of the data stays usable.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import type { Service, StorageFailed } from "../../Storage.js"
import { fileName } from "./identity.js"

/** @internal */
export interface Codec<A> {
  readonly encode: (record: A) => Uint8Array
  /** The record; nothing when there is none, or when it was damaged and has been moved to `quarantine/`. */
  readonly read: (path: string) => Effect.Effect<Option.Option<A>, StorageFailed>
  readonly write: (path: string, record: A) => Effect.Effect<void, StorageFailed>
}

/** @internal */
export const quarantine = "quarantine"

/** @internal */
export const makeCodec = <A, I>(storage: Service, schema: Schema.Schema<A, I>): Codec<A> => {
  const decode = ParseResult.decodeUnknown(schema)
  const encodeSync = ParseResult.encodeSync(schema)
  const encode = (record: A): Uint8Array =>
    new TextEncoder().encode(`${JSON.stringify(encodeSync(record), undefined, 2)}\n`)

  const setAside = Effect.fnUntraced(function*(path: string, bytes: Uint8Array, cause: unknown) {
    const aside = `${quarantine}/${fileName(path)}`
    const moved = yield* Effect.zipRight(storage.put(aside, bytes), storage.remove(path)).pipe(
      Effect.as("It was moved to"),
      Effect.catchAll((error) => Effect.succeed(`It could not be moved (${error.message}) to`))
    )
    const why = cause instanceof Error ? cause.message.split("\n").slice(0, 4).join(" ") : String(cause)
    yield* Effect.logWarning(
      `The record ${path} is damaged and is ignored: ${why}. ${moved} ${aside}. ` +
        "Repair it, put it back under its name and restart, or delete it."
    )
    return Option.none<A>()
  })

  return {
    encode,
    read: (path) =>
      Effect.flatMap(
        storage.get(path),
        Option.match({
          onNone: () => Effect.succeedNone,
          onSome: (bytes) =>
            Effect.try(() => JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))).pipe(
              Effect.mapError(({ error }) => error),
              Effect.flatMap(decode),
              Effect.map(Option.some),
              Effect.catchAll((cause) => setAside(path, bytes, cause))
            )
        })
      ),
    write: (path, record) => storage.put(path, encode(record))
  }
}
