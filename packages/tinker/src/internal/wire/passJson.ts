/**
 * A pass in JSON, as servers of the era before protobuf read it: written straight from its typed arrays, for a schema
 * would visit every number. Inputs that are not text take the schema's way.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Datum from "../../Datum.js"
import type { EncodedText, ModelInput } from "../../ModelInput.js"
import * as TensorData from "../../TensorData.js"
import * as Endpoint from "../../wire/Endpoint.js"
import * as ForwardBackward from "../../wire/ForwardBackward.js"

const bySchema = Endpoint.json(ForwardBackward.RequestFromJson)

const isText = (chunk: ModelInput["chunks"][number]): chunk is EncodedText => chunk.type === "encoded_text"

const safe = BigInt(Number.MAX_SAFE_INTEGER)

/** JSON cannot represent non-finite numbers, and parsers round integers beyond 2^53. */
const problemOf = ({ data }: TensorData.TensorData): string | undefined => {
  if (data instanceof BigInt64Array) {
    return data.some((value) => value > safe || value < -safe) ? "has integers beyond 2^53" : undefined
  }
  for (let i = 0; i < data.length; i++) if (!Number.isFinite(data[i])) return "is not finite"
  return undefined
}

/** Dense: sparse tensors came late in this era, and SkyRL reads their stored values as if they were all of them. */
const tensorJson = (tensor: TensorData.TensorData): string => {
  const { data, dtype, shape } = TensorData.toDense(tensor)
  return `{"data":[${data.join(",")}],"dtype":"${dtype}","shape":[${shape.join(",")}]}`
}

const datumJson = (datum: Datum.Datum): string => {
  const chunks = datum.modelInput.chunks.filter(isText)
  const inputs = Object.entries(datum.lossFnInputs)
  return `{"model_input":{"chunks":[${
    chunks.map(({ tokens }) => `{"tokens":[${tokens.join(",")}],"type":"encoded_text"}`).join(",")
  }]},"loss_fn_inputs":{${inputs.map(([key, tensor]) => `${JSON.stringify(key)}:${tensorJson(tensor)}`).join(",")}}}`
}

const dense = (datum: Datum.Datum): Datum.Datum =>
  new Datum.Datum({
    modelInput: datum.modelInput,
    lossFnInputs: Object.fromEntries(
      Object.entries(datum.lossFnInputs).map(([key, tensor]) => [key, TensorData.toDense(tensor)])
    )
  })

/** @internal */
export const encode = (request: ForwardBackward.Request): Either.Either<string | Uint8Array | undefined, string> => {
  for (const [i, { lossFnInputs }] of request.data.entries()) {
    for (const [key, tensor] of Object.entries(lossFnInputs)) {
      const problem = problemOf(tensor)
      if (problem !== undefined) {
        return Either.left(`${key} of datum ${i} ${problem}, which cannot be sent to this server: it reads JSON`)
      }
    }
  }
  if (!request.data.every(({ modelInput }) => modelInput.chunks.every(isText))) {
    return bySchema.encode({ ...request, data: request.data.map(dense) })
  }
  const config = request.lossFnConfig === undefined ? "" : `,"loss_fn_config":${JSON.stringify(request.lossFnConfig)}`
  const input = `{"data":[${request.data.map(datumJson).join(",")}],"loss_fn":${
    JSON.stringify(request.lossFn)
  }${config}}`
  const seqId = request.seqId === undefined ? "" : `,"seq_id":${request.seqId}`
  const key = request.forwardOnly === true ? "forward_input" : "forward_backward_input"
  return Either.right(`{"${key}":${input},"model_id":${JSON.stringify(request.modelId)}${seqId}}`)
}

/** @internal */
export const decode = bySchema.decode
