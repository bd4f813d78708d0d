/**
 * From the body of an answer to the result of an operation.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"

/**
 * How to read the result. JSON is read for every type, also for those newer servers only send as protobuf.
 *
 * @internal
 */
export interface Decoder<A> {
  readonly protobuf?: ((body: Uint8Array) => Either.Either<A, string>) | undefined
  readonly json: (json: unknown) => Either.Either<A, string>
}

/** @internal */
export const fromSchema = <A, I>(schema: Schema.Schema<A, I>): Decoder<A> => {
  const decode = ParseResult.decodeUnknownEither(schema)
  return { json: (json) => Either.mapLeft(decode(json), ParseResult.TreeFormatter.formatIssueSync) }
}
