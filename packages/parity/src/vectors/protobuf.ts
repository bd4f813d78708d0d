/**
 * Requests of the protobuf corpus as values of ours.
 */
import { Either, Schema } from "effect"
import { Datum } from "effect-tinker"
import { ForwardBackward } from "effect-tinker/wire"
import type { RequestInput, Span } from "./corpus.js"

const span = ({ kind, length, offset, sequence_id: sequenceId }: Span): Datum.ProvenanceSpan => ({
  source: kind,
  length,
  offset,
  sequenceId
})

const datum = (input: RequestInput["data"][number]): Datum.Datum => {
  const { loss_fn_input_spans: losses, model_input_spans: inputs, ...json } = input
  const value = Schema.decodeUnknownSync(Datum.FromJson)(json)
  return inputs === undefined || losses === undefined
    ? value
    : new Datum.Datum({ ...value, modelInputSpans: inputs.map(span), lossFnInputSpans: losses.map(span) })
}

/** A request of the corpus. Throws on what its parts refuse. */
export const toRequest = (input: RequestInput): ForwardBackward.Request => ({
  modelId: input.model_id,
  seqId: input.seq_id,
  lossFn: input.loss_fn,
  lossFnConfig: input.loss_fn_config,
  forwardOnly: input.forward_only,
  data: input.data.map(datum)
})

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex")

/** The bytes of a request in hexadecimal, or why there are none. */
export const encode = (request: ForwardBackward.Request): Either.Either<string, string> =>
  ForwardBackward.encodeRequest(request).pipe(Either.mapBoth({ onLeft: (error) => error.message, onRight: hex }))
