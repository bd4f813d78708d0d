/**
 * What accepting an operation answers, and how its result is written.
 */
import { UntypedFuture } from "effect-tinker/wire/Future"
import { ModelId, RequestId, SequenceId } from "effect-tinker/wire/Id"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import type { Future, Outcome } from "./futures.js"
import { completed } from "./futures.js"

/** @internal */
export const accepted = (
  future: Future,
  more?: { readonly modelId?: string | undefined; readonly sequences?: ReadonlyArray<string> | undefined }
): UntypedFuture =>
  new UntypedFuture({
    requestId: RequestId.make(future.requestId),
    ...(more?.modelId === undefined ? {} : { modelId: ModelId.make(more.modelId) }),
    ...(more?.sequences === undefined ? {} : { sampleSequenceIds: more.sequences.map((id) => SequenceId.make(id)) })
  })

/** A result written by its schema. @internal */
export const result = <A, I>(schema: Schema.Schema<A, I>, value: A, proto?: () => Uint8Array): Outcome => {
  const encode = ParseResult.encodeSync(schema)
  return completed(() => encode(value), proto)
}
