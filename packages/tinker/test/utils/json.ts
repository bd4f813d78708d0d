import { Schema } from "effect"

/** What travels: the value as a body would have it. */
export const toJson = <A, I>(schema: Schema.Schema<A, I>, value: A): unknown =>
  JSON.parse(JSON.stringify(Schema.encodeSync(schema)(value)))

/** A value from what a body has, or the reason it is refused. */
export const fromJson = <A, I>(schema: Schema.Schema<A, I>) => Schema.decodeUnknownEither(schema)
