/**
 * Requests to the Hugging Face Hub: authorization, retries, and errors as users read them.
 *
 * @since 0.1.0
 */
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as RetryPolicy from "effect-tinker/RetryPolicy"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { CliFailure } from "../internal/CliFailure.js"

/** @internal */
export interface Refusal {
  readonly status: number | undefined
  readonly message: string
}

const decodeError = Schema.decodeOption(Schema.parseJson(Schema.Struct({ error: Schema.String })))

/** @internal */
export const isTransient = (refusal: Refusal): boolean =>
  refusal.status === undefined || refusal.status === 408 || refusal.status === 429 || refusal.status >= 500

/** @internal */
export const retry = RetryPolicy.exponential().pipe(
  Schedule.whileInput(isTransient),
  Schedule.intersect(Schedule.recurs(4))
)

/** @internal */
export const failure = (doing: string) => (refusal: Refusal): CliFailure =>
  new CliFailure({
    what: `${doing}: ${refusal.status === undefined ? "" : `status ${refusal.status}, `}${refusal.message}`,
    advice: refusal.status === 401 || refusal.status === 403
      ? "The token may not do this: create one with write access, then run `hf auth login`."
      : "Run the command again: what has been uploaded is not uploaded twice."
  })

/** @internal */
export const body =
  <A, I>(doing: string, schema: Schema.Schema<A, I>) => (response: HttpClientResponse.HttpClientResponse) =>
    response.json.pipe(
      Effect.flatMap(Schema.decodeUnknown(schema)),
      Effect.mapError((cause) => new CliFailure({ what: `${doing}: the hub's answer was not understood`, cause }))
    )

/** @internal */
export const post = (url: string, value: unknown, contentType = "application/json") =>
  HttpClientRequest.post(url).pipe(HttpClientRequest.bodyText(JSON.stringify(value), contentType))

/** @internal */
export interface Hub {
  readonly endpoint: string
  readonly authorized: (request: HttpClientRequest.HttpClientRequest) => HttpClientRequest.HttpClientRequest
  readonly execute: (
    request: HttpClientRequest.HttpClientRequest
  ) => Effect.Effect<HttpClientResponse.HttpClientResponse, Refusal>
  /** For idempotent requests: repeated when they fail for the time being. */
  readonly call: Hub["execute"]
}

/** @internal */
export const make = (endpoint: string, token: Redacted.Redacted): Effect.Effect<Hub, never, HttpClient.HttpClient> =>
  Effect.map(HttpClient.HttpClient, (client): Hub => {
    const execute: Hub["execute"] = (request) =>
      client.execute(request).pipe(
        Effect.mapError((error): Refusal => ({ status: undefined, message: error.reason })),
        Effect.flatMap((response) =>
          response.status < 300
            ? Effect.succeed(response)
            : Effect.flatMap(Effect.orElseSucceed(response.text, () => ""), (text) =>
              Effect.fail<Refusal>({
                status: response.status,
                message: Option.match(decodeError(text), {
                  onNone: () => text.slice(0, 200),
                  onSome: ({ error }) => error
                })
              }))
        ),
        Effect.timeoutFail({
          duration: "5 minutes",
          onTimeout: (): Refusal => ({ status: undefined, message: "no answer" })
        })
      )
    return {
      endpoint,
      authorized: HttpClientRequest.bearerToken(token),
      execute,
      call: (request) => Effect.retry(execute(request), retry)
    }
  })
