/**
 * Records kept as JSON files.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import type { Service, StorageFailed } from "../../Storage.js"
import * as Storage from "../../Storage.js"

/** @internal */
export interface Codec<A> {
  readonly encode: (record: A) => Uint8Array
  readonly read: (path: string) => Effect.Effect<Option.Option<A>, StorageFailed>
  readonly write: (path: string, record: A) => Effect.Effect<void, StorageFailed>
}

/** @internal */
export const makeCodec = <A, I>(storage: Service, schema: Schema.Schema<A, I>): Codec<A> => {
  const decode = ParseResult.decodeUnknown(schema)
  const encodeSync = ParseResult.encodeSync(schema)
  const encode = (record: A): Uint8Array =>
    new TextEncoder().encode(`${JSON.stringify(encodeSync(record), undefined, 2)}\n`)
  return {
    encode,
    read: (path) =>
      Effect.flatMap(
        storage.get(path),
        Option.match({
          onNone: () => Effect.succeedNone,
          onSome: (bytes) =>
            Effect.try(() => JSON.parse(new TextDecoder().decode(bytes))).pipe(
              Effect.flatMap(decode),
              Effect.mapBoth({
                onFailure: (cause) => new Storage.StorageFailed({ operation: "understand", path, cause }),
                onSuccess: Option.some
              })
            )
        })
      ),
    write: (path, record) => storage.put(path, encode(record))
  }
}
