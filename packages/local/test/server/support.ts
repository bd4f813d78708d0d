import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import { Effect, Either, Schema } from "effect"
import * as Datum from "effect-tinker/Datum"
import { LoraConfig } from "effect-tinker/LoraConfig"
import * as ModelInput from "effect-tinker/ModelInput"
import { AdamParams, OptimStepRequest } from "effect-tinker/Optimizer"
import * as Api from "effect-tinker/wire/Api"
import type * as Endpoint from "effect-tinker/wire/Endpoint"
import * as ForwardBackward from "effect-tinker/wire/ForwardBackward"
import { UntypedFuture } from "effect-tinker/wire/Future"
import { ModelId, RequestId, SamplingSessionId, SessionId } from "effect-tinker/wire/Id"
import { CreateModelRequest } from "effect-tinker/wire/Model"
import * as Sample from "effect-tinker/wire/Sample"
import { CreateSamplingSessionRequest } from "effect-tinker/wire/Sampler"
import { SamplingParams } from "effect-tinker/wire/SamplingParams"
import { CreateSessionRequest } from "effect-tinker/wire/Session"
import * as LocalTokenizer from "../../src/LocalTokenizer.js"

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: Uint8Array
  readonly json: () => { readonly [key: string]: unknown }
}

export interface SendOptions {
  readonly key?: string | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** One request with any body, without opinions about the answer. */
export const send = Effect.fnUntraced(function*(
  method: "GET" | "POST" | "PUT" | "DELETE" | "HEAD",
  path: string,
  body?: unknown,
  options?: SendOptions
) {
  const client = yield* HttpClient.HttpClient
  const bytes = body === undefined
    ? undefined
    : body instanceof Uint8Array
    ? body
    : new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body))
  const url = path.startsWith("http") ? path : `http://tinker.local/services/test${path}`
  const response = yield* client.execute(
    HttpClientRequest.make(method)(url).pipe(
      HttpClientRequest.setHeaders({ "x-api-key": options?.key ?? "tml-test", ...options?.headers }),
      bytes === undefined
        ? (request) => request
        : HttpClientRequest.bodyUint8Array(bytes, options?.headers?.["content-type"] ?? "application/json")
    )
  )
  const content = new Uint8Array(yield* response.arrayBuffer)
  const answer: Answer = {
    status: response.status,
    headers: response.headers,
    bytes: content,
    json: () => JSON.parse(new TextDecoder().decode(content))
  }
  return answer
})

/** A request of the table through the SDK's own codecs. */
export const call = Effect.fnUntraced(function*<Request, Response>(
  endpoint: Endpoint.Endpoint<Request, Response>,
  request: Request,
  options?: SendOptions
) {
  const encoded = Either.getOrThrow(endpoint.encodeRequest(request))
  const path = endpoint.path.replace(/\{([a-z_]+)\}/g, (_, name: string) => encoded.params[name] ?? "")
  const query = new URLSearchParams(encoded.query).toString()
  const answer = yield* send(endpoint.method, query === "" ? path : `${path}?${query}`, encoded.body, options)
  if (answer.status >= 300) return yield* Effect.fail({ status: answer.status, body: answer.json() })
  return Either.getOrThrow(endpoint.response.decode(answer.bytes, answer.headers["content-type"]))
})

const decodeFuture = Schema.decodeUnknownSync(UntypedFuture)

export const poll = (requestId: string, options?: SendOptions & { readonly allowMetadataOnly?: boolean }) =>
  send("POST", "/api/v1/retrieve_future", {
    request_id: requestId,
    allow_metadata_only: options?.allowMetadataOnly ?? false
  }, options)

/** The JSON result of an accepted operation. */
export const resultOf = (future: { readonly requestId: string }) =>
  Effect.map(poll(future.requestId), (answer) => answer.json())

export const openSession = Effect.map(
  call(Api.createSession, new CreateSessionRequest({ tags: [], sdkVersion: "0.38.0" })),
  ({ sessionId }) => sessionId
)

export const createModel = Effect.fnUntraced(function*(
  sessionId: SessionId,
  options?: { readonly seq?: number; readonly seed?: number }
) {
  const future = yield* call(
    Api.createModel,
    new CreateModelRequest({
      sessionId,
      modelSeqId: options?.seq ?? 0,
      baseModel: "local/tiny",
      loraConfig: new LoraConfig({ rank: 8, seed: options?.seed ?? 1 })
    })
  )
  const { model_id: id } = yield* resultOf(future)
  return ModelId.make(String(id))
})

/** A pass over texts, sent as protobuf. */
export const pass = Effect.fnUntraced(function*(
  modelId: string,
  seqId: number,
  texts: ReadonlyArray<string>,
  options?: {
    readonly forwardOnly?: boolean
    readonly lossFn?: string
    readonly lossFnConfig?: ForwardBackward.LossConfig
  }
) {
  const body = Either.getOrThrow(ForwardBackward.encodeRequest({
    modelId,
    seqId,
    data: texts.map((text) => Either.getOrThrow(Datum.fromTokens(LocalTokenizer.encode(text)))),
    lossFn: options?.lossFn ?? "cross_entropy",
    lossFnConfig: options?.lossFnConfig,
    forwardOnly: options?.forwardOnly
  }))
  const answer = yield* send("POST", "/api/v1/forward_backward", body, {
    headers: { "content-type": "application/x-protobuf" }
  })
  return answer.status === 200 ? decodeFuture(answer.json()) : yield* Effect.fail(answer)
})

export const passResult = (future: { readonly requestId: string }) =>
  Effect.map(
    poll(future.requestId, { headers: { accept: "application/x-protobuf" } }),
    (answer) => Either.getOrThrow(ForwardBackward.decodeOutput(answer.bytes))
  )

export const step = (modelId: ModelId, seqId: number, learningRate = 5e-4) =>
  call(Api.optimStep, new OptimStepRequest({ modelId, seqId, adamParams: new AdamParams({ learningRate }) }))

export const openSampler = (
  sessionId: SessionId,
  seq: number,
  source: { readonly baseModel?: string; readonly modelPath?: string }
) =>
  Effect.map(
    call(
      Api.createSamplingSession,
      new CreateSamplingSessionRequest({ sessionId, samplingSessionSeqId: seq, ...source })
    ),
    ({ samplingSessionId }) => samplingSessionId
  )

const encodeSample = Schema.encodeSync(Sample.SampleRequest)

export const sample = Effect.fnUntraced(function*(
  samplingSessionId: string,
  seqId: number,
  prompt: string,
  params: ConstructorParameters<typeof SamplingParams>[0],
  more?: Partial<ConstructorParameters<typeof Sample.SampleRequest>[0]>
) {
  const request = new Sample.SampleRequest({
    samplingSessionId: SamplingSessionId.make(samplingSessionId),
    seqId,
    prompt: ModelInput.fromInts(LocalTokenizer.encode(prompt)),
    samplingParams: new SamplingParams(params),
    ...more
  })
  const answer = yield* send("POST", "/api/v1/asample", encodeSample(request))
  return answer.status === 200 ? decodeFuture(answer.json()) : yield* Effect.fail(answer)
})

export const sampleResult = (future: { readonly requestId: string }) =>
  Effect.map(
    poll(future.requestId, { headers: { accept: "application/x-protobuf" } }),
    (answer) => Either.getOrThrow(Sample.decodeResponse(answer.bytes))
  )

export const requestId = (id: string): RequestId => RequestId.make(id)

export { SessionId }
