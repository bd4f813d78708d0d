/**
 * Requests as the SDK writes them, without its retries, and responses decoded with its schemas.
 *
 * @since 0.1.0
 */
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Api from "effect-tinker/wire/Api"
import type * as Endpoint from "effect-tinker/wire/Endpoint"
import * as Future from "effect-tinker/wire/Future"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Redacted from "effect/Redacted"
import type * as Schema from "effect/Schema"

/** The server does not do what it should. @internal */
export class No extends Data.TaggedError("No")<{ readonly reason: string }> {}

/** The server does not know the endpoint. @internal */
export class ProbeUnsupported extends Data.TaggedError("ProbeUnsupported")<{ readonly reason: string }> {}

/** @internal */
export interface Answer {
  readonly status: number
  readonly contentType: string
  readonly body: Uint8Array
  /** The body where it is JSON. */
  readonly json: unknown
}

/** How a result is read: as JSON, or as protobuf. @internal */
export interface Decoder<A> {
  readonly json: (json: unknown) => Either.Either<A, string>
  readonly protobuf?: ((bytes: Uint8Array) => Either.Either<A, string>) | undefined
}

/** @internal */
export const decoder = <A, I>(
  schema: Schema.Schema<A, I>,
  protobuf?: (bytes: Uint8Array) => Either.Either<A, { readonly message: string }>
): Decoder<A> => {
  const decode = ParseResult.decodeUnknownEither(schema)
  return {
    json: (json) => Either.mapLeft(decode(json), ParseResult.TreeFormatter.formatIssueSync),
    protobuf: protobuf && ((bytes) => Either.mapLeft(protobuf(bytes), ({ message }) => message))
  }
}

/** Outcome of an operation. @internal */
export type Settled<A> =
  | { readonly _tag: "Result"; readonly value: A; readonly protobuf: boolean }
  | { readonly _tag: "Failed"; readonly error: string; readonly category: string }
  | { readonly _tag: "Waiting" }

/** @internal */
export interface Probe {
  /** Any request; `key: false` leaves the credential out. */
  readonly send: (
    method: Endpoint.Method,
    path: string,
    options?: {
      readonly body?: string | Uint8Array | undefined
      readonly headers?: Readonly<Record<string, string>> | undefined
      readonly key?: boolean | undefined
    }
  ) => Effect.Effect<Answer, No>
  /** The answer to a request of the SDK, whatever it is. */
  readonly ask: <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    headers?: Readonly<Record<string, string>>
  ) => Effect.Effect<Answer, No>
  /** The answer as the SDK understands it. */
  readonly call: <Request, Response>(
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request
  ) => Effect.Effect<Response, No | ProbeUnsupported>
  /** Polls for a result, at most so long. */
  readonly settle: <A>(
    requestId: string,
    decoder: Decoder<A>,
    patience?: Duration.DurationInput
  ) => Effect.Effect<Settled<A>, No>
  /** Presents this from now on. */
  readonly present: (credential: Redacted.Redacted) => void
}

const fill = (template: string, params: Readonly<Record<string, string>>): string =>
  template.replaceAll(
    /\{([a-z_]+)\}/g,
    (_, name: string) =>
      (params[name] ?? "").split("/").map((part) => encodeURIComponent(part).replaceAll("%3A", ":")).join("/")
  )

const short = (text: string): string => text.length > 200 ? `${text.slice(0, 200)}…` : text

/** Message of a server about its refusal. @internal */
export const complaint = ({ body, json, status }: Answer): string => {
  const detail = typeof json === "object" && json !== null && "detail" in json ? json.detail : undefined
  const said = typeof detail === "string" ? detail : new TextDecoder().decode(body)
  return said.trim() === "" ? `status ${status}` : `status ${status}: ${short(said.replace(/\s+/g, " ").trim())}`
}

const parse = (body: Uint8Array): unknown => {
  try {
    return JSON.parse(new TextDecoder().decode(body))
  } catch {
    return undefined
  }
}

/** @internal */
export const ok = ({ status }: Answer): boolean => status >= 200 && status < 300

const absent = new Set([404, 405, 501])

/** @internal */
export const make = (options: {
  readonly baseUrl: string
  readonly credential: Redacted.Redacted
  readonly patience: Duration.Duration
}): Effect.Effect<Probe, never, HttpClient.HttpClient> =>
  Effect.map(HttpClient.HttpClient, (client): Probe => {
    let credential = options.credential

    const send: Probe["send"] = (method, path, { body, headers = {}, key = true } = {}) => {
      const text = typeof body === "string" ? new TextEncoder().encode(body) : body
      const request = HttpClientRequest.make(method)(`${options.baseUrl}${path}`, {
        headers: {
          accept: "application/json",
          ...(key ? { "x-api-key": Redacted.value(credential) } : {}),
          ...headers
        }
      })
      const contentType = headers["content-type"] ?? "application/json"
      return client.execute(text === undefined ? request : HttpClientRequest.bodyUint8Array(request, text, contentType))
        .pipe(
          Effect.flatMap((response) =>
            Effect.map(response.arrayBuffer, (buffer): Answer => {
              const body = new Uint8Array(buffer)
              const contentType = response.headers["content-type"] ?? ""
              const json = contentType.includes("protobuf") ? undefined : parse(body)
              return { status: response.status, contentType, body, json }
            })
          ),
          Effect.scoped,
          Effect.mapError((error) => new No({ reason: `no answer: ${error.message}` })),
          Effect.timeoutFail({
            duration: options.patience,
            onTimeout: () => new No({ reason: `no answer within ${Duration.format(options.patience)}` })
          })
        )
    }

    const ask: Probe["ask"] = (endpoint, request, headers) => {
      const encoded = endpoint.encodeRequest(request)
      if (Either.isLeft(encoded)) return new No({ reason: encoded.left })
      const query = new URLSearchParams(encoded.right.query).toString()
      return send(endpoint.method, `${fill(endpoint.path, encoded.right.params)}${query === "" ? "" : `?${query}`}`, {
        body: encoded.right.body,
        headers: { ...endpoint.headers, ...headers }
      })
    }

    const call: Probe["call"] = Effect.fnUntraced(function*(endpoint, request) {
      const answer = yield* ask(endpoint, request)
      if (absent.has(answer.status)) {
        return yield* new ProbeUnsupported({
          reason: `${endpoint.method} ${endpoint.path} answers with ${complaint(answer)}`
        })
      }
      if (!ok(answer)) return yield* new No({ reason: complaint(answer) })
      const decoded = endpoint.response.decode(answer.body, answer.contentType)
      return Either.isRight(decoded)
        ? decoded.right
        : yield* new No({ reason: `the answer is not understood: ${short(decoded.left)}` })
    })

    const settle: Probe["settle"] = Effect.fnUntraced(function*<A>(
      requestId: string,
      decoder: Decoder<A>,
      patience: Duration.DurationInput = options.patience
    ) {
      const end = (yield* Clock.currentTimeMillis) + Duration.toMillis(patience)
      let allowMetadataOnly = true
      for (let iteration = 0;; iteration++) {
        const left = end - (yield* Clock.currentTimeMillis)
        if (left <= 0) return { _tag: "Waiting" as const }
        const polled = yield* ask(Api.retrieveFuture, { requestId, allowMetadataOnly }, {
          accept: decoder.protobuf === undefined ? "application/json" : "application/x-protobuf, application/json",
          "x-tinker-request-iteration": String(iteration)
        }).pipe(Effect.timeoutOption(left))
        if (polled._tag === "None") return { _tag: "Waiting" as const }
        const answer = polled.value
        if (answer.status === 408) continue
        // Some servers say so with the status instead of a body that says it.
        if (answer.status === 400 && typeof Object(answer.json).detail === "string") {
          return { _tag: "Failed" as const, error: complaint(answer), category: "unknown" }
        }
        if (!ok(answer)) return yield* new No({ reason: `the poll: ${complaint(answer)}` })
        const protobuf = answer.contentType.includes("protobuf")
        const classified = Future.classify(answer.json)
        if (!protobuf && classified._tag === "TryAgain") {
          yield* Effect.sleep("50 millis")
          continue
        }
        if (!protobuf && classified._tag === "CompleteMetadata") {
          allowMetadataOnly = false
          continue
        }
        if (!protobuf && classified._tag === "RequestFailed") {
          const { category, error } = Object(answer.json)
          return { _tag: "Failed" as const, error: String(error), category: String(category) }
        }
        const decoded = protobuf
          ? decoder.protobuf?.(answer.body) ?? Either.left("protobuf where JSON was asked for")
          : decoder.json(answer.json)
        if (Either.isLeft(decoded)) {
          return yield* new No({ reason: `the result is not understood: ${short(decoded.left)}` })
        }
        return { _tag: "Result" as const, value: decoded.right, protobuf }
      }
    })

    return {
      send,
      ask,
      call,
      settle,
      present: (next) => {
        credential = next
      }
    }
  })
