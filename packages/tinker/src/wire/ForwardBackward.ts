/**
 * A training pass over a batch: which loss, with which settings, and what comes back.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Datum from "../Datum.js"
import { Key, Metrics, strict } from "../internal/wire/json.js"
import * as outputProtobuf from "../internal/wire/protobuf/output.js"
import * as reader from "../internal/wire/protobuf/reader.js"
import * as requestProtobuf from "../internal/wire/protobuf/request.js"
import * as writer from "../internal/wire/protobuf/writer.js"
import * as TensorData from "../TensorData.js"
import { InvalidInput, MalformedResponse } from "../TinkerError.js"

/**
 * The losses of the hosted service. Other servers know more, so requests take any name.
 *
 * @since 0.1.0
 * @category schemas
 */
export const LossName: Schema.Literal<
  ["cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo", "stable_reinforce", "custom"]
> = Schema.Literal(
  "cross_entropy",
  "importance_sampling",
  "ppo",
  "cispo",
  "dro",
  "gspo",
  "stable_reinforce",
  "custom"
)

/**
 * The losses of the service.
 *
 * @since 0.1.0
 * @category models
 */
export type LossName = typeof LossName.Type

/**
 * Any name a server may know, with those of the hosted service offered first.
 *
 * @since 0.1.0
 * @category models
 */
export type AnyLossName = LossName | (string & {})

/**
 * Settings of a loss, e.g. `clip_low_threshold` or `beta`.
 *
 * @since 0.1.0
 * @category models
 */
export type LossConfig = Readonly<Record<string, number | string>>

/**
 * One pass as it is sent: a chunk of a batch.
 *
 * @since 0.1.0
 * @category models
 */
export interface Request {
  readonly modelId: string
  /** Position in the order of the model's operations, from 1. */
  readonly seqId?: number | undefined
  readonly data: ReadonlyArray<Datum.Datum>
  readonly lossFn: AnyLossName
  readonly lossFnConfig?: LossConfig | undefined
  /** No backward pass: nothing is added to the gradients. Defaults to false. */
  readonly forwardOnly?: boolean | undefined
}

/**
 * The tensors a loss gives for one example, e.g. `logprobs`.
 *
 * @since 0.1.0
 * @category models
 */
export type LossFnOutput = Readonly<Record<string, TensorData.TensorData>>

/**
 * Result of a pass: one record per example in the order of the input, and the metrics of the batch (the loss is
 * `loss:sum`).
 *
 * @since 0.1.0
 * @category models
 */
export interface Output {
  readonly lossFnOutputType: string
  readonly lossFnOutputs: ReadonlyArray<LossFnOutput>
  readonly metrics: Readonly<Record<string, number>>
}

const Config = Schema.Record({ key: Key, value: Schema.Union(Schema.JsonNumber, Schema.String) })

const Input = Schema.Struct({
  data: Schema.Array(Datum.FromJson),
  loss_fn: Schema.String,
  loss_fn_config: Schema.optionalWith(Schema.NullOr(Config), { exact: true })
}).annotations(strict[1])

const envelope = {
  model_id: Schema.String,
  seq_id: Schema.optionalWith(Schema.NullOr(Schema.Int), { exact: true })
}

const RequestJson = Schema.Union(
  Schema.Struct({ forward_backward_input: Input, ...envelope }).annotations(strict[1]),
  Schema.Struct({ forward_input: Input, ...envelope }).annotations(strict[1])
)

const RequestFromSelf: Schema.Schema<Request> = Schema.Struct({
  modelId: Schema.String,
  seqId: Schema.optional(Schema.Int),
  data: Schema.Array(Schema.typeSchema(Datum.FromJson)),
  lossFn: Schema.String,
  lossFnConfig: Schema.optional(Config),
  forwardOnly: Schema.optional(Schema.Boolean)
})

/**
 * The JSON shape of a request: `forward_backward_input`, or `forward_input` when there is no backward pass.
 *
 * @since 0.1.0
 * @category models
 */
export type RequestEncoded = typeof RequestJson.Encoded

/**
 * A request in its JSON shape, as older clients send and self-hosted servers take it.
 *
 * @since 0.1.0
 * @category schemas
 */
export const RequestFromJson: Schema.Schema<Request, RequestEncoded> = Schema.transform(RequestJson, RequestFromSelf, {
  strict: true,
  decode: (json) => {
    const forwardOnly = "forward_input" in json
    const input = "forward_input" in json ? json.forward_input : json.forward_backward_input
    return {
      modelId: json.model_id,
      seqId: json.seq_id ?? undefined,
      data: input.data,
      lossFn: input.loss_fn,
      lossFnConfig: input.loss_fn_config ?? undefined,
      forwardOnly
    }
  },
  encode: (request) => {
    const input = {
      data: request.data,
      loss_fn: request.lossFn,
      ...(request.lossFnConfig === undefined ? {} : { loss_fn_config: request.lossFnConfig })
    }
    const rest = { model_id: request.modelId, ...(request.seqId === undefined ? {} : { seq_id: request.seqId }) }
    return request.forwardOnly === true
      ? { forward_input: input, ...rest }
      : { forward_backward_input: input, ...rest }
  }
})

/**
 * A result in its JSON shape, as older and self-hosted servers answer.
 *
 * @since 0.1.0
 * @category schemas
 */
export const OutputFromJson: Schema.Schema<Output, {
  readonly loss_fn_output_type: string
  readonly loss_fn_outputs: ReadonlyArray<{ readonly [key: string]: TensorData.Encoded }>
  readonly metrics: { readonly [key: string]: number | null }
}> = Schema.Struct({
  lossFnOutputType: Schema.propertySignature(Schema.String).pipe(Schema.fromKey("loss_fn_output_type")),
  lossFnOutputs: Schema.propertySignature(
    Schema.Array(Schema.Record({ key: Key, value: TensorData.FromJson }))
  ).pipe(Schema.fromKey("loss_fn_outputs")),
  metrics: Metrics
})

const trusted = { disableValidation: true } as const

const refused = (method: string, description: string) =>
  Either.left(new InvalidInput({ module: "ForwardBackward", method, description }, trusted))

/**
 * A request in protobuf, written straight from its typed arrays. Equal requests have equal bytes.
 *
 * @since 0.1.0
 * @category combinators
 */
export const encodeRequest = (request: Request): Either.Either<Uint8Array, InvalidInput> => {
  const bytes = writer.encode((out) => requestProtobuf.write(out, request))
  return bytes instanceof Uint8Array ? Either.right(bytes) : refused("encodeRequest", bytes.problem)
}

/**
 * A request from protobuf, as a server reads it. Arrays are views of the bytes where their alignment allows.
 *
 * @since 0.1.0
 * @category combinators
 */
export const decodeRequest = (bytes: Uint8Array): Either.Either<Request, InvalidInput> => {
  const request = reader.decode(bytes, requestProtobuf.read)
  return request instanceof reader.WireError ? refused("decodeRequest", request.message) : Either.right(request)
}

/**
 * A result in protobuf, as a server writes it.
 *
 * @since 0.1.0
 * @category combinators
 */
export const encodeOutput = (output: Output): Either.Either<Uint8Array, InvalidInput> => {
  const bytes = writer.encode(outputProtobuf.describe(output))
  return bytes instanceof Uint8Array ? Either.right(bytes) : refused("encodeOutput", bytes.problem)
}

/**
 * A result from protobuf. Tensors are views of the bytes where their alignment allows.
 *
 * @since 0.1.0
 * @category combinators
 */
export const decodeOutput = (bytes: Uint8Array): Either.Either<Output, MalformedResponse> => {
  const output = reader.decode(bytes, outputProtobuf.read)
  return output instanceof reader.WireError
    ? Either.left(
      new MalformedResponse({ module: "ForwardBackward", method: "decodeOutput", description: output.message }, trusted)
    )
    : Either.right(output)
}
