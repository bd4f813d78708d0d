/**
 * What an answer means: a response to work with, or the tagged error.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as TinkerConfig from "../../TinkerConfig.js"
import * as TinkerError from "../../TinkerError.js"
import type * as TinkerTransport from "../../TinkerTransport.js"
import * as Logs from "../observability/logs.js"
import * as Meters from "../observability/meters.js"
import type { Call } from "./call.js"
import * as Failure from "./failure.js"
import * as Redirect from "./redirect.js"
import * as Tenants from "./tenants.js"

const noSecret = (text: string) => text

/** @internal */
export const blank = (secrets: ReadonlyArray<string>) => (text: string): string =>
  secrets.reduce((result, secret) => secret === "" ? result : result.replaceAll(secret, "<redacted>"), text)

/** @internal */
export interface Answers {
  /** Of a complete answer, redirects followed where the endpoint allows it. */
  readonly settle: (
    call: Call,
    request: TinkerTransport.Request,
    response: TinkerTransport.Response,
    secret: string | undefined
  ) => Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError>
  /** Of one whose status says that it failed. */
  readonly fail: (
    call: Call,
    response: TinkerTransport.Response,
    secret: string | undefined
  ) => Effect.Effect<never, TinkerError.TinkerError>
}

/** @internal */
export const make = ({ config, fixedSecrets, tenant, transport }: {
  readonly config: TinkerConfig.Service
  /** Of every request, besides the credential: they are blanked out of what servers say. */
  readonly fixedSecrets: ReadonlyArray<string>
  readonly tenant: Tenants.Tenant
  readonly transport: TinkerTransport.Service
}): Answers => {
  const fail = (
    call: Call,
    response: TinkerTransport.Response,
    secret: string | undefined
  ): Effect.Effect<never, TinkerError.TinkerError> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const endpoint = call.endpoint.endpoint
      const pool = tenant.pools[endpoint.pool]
      if (Failure.isEmpty400(response) && pool.emptyResponsesLeft > 0) {
        pool.emptyResponsesLeft--
        return Effect.zipRight(
          transport.reset?.(endpoint.pool) ?? Effect.void,
          Effect.fail(
            new TinkerError.TransportFailed({
              module: call.origin.module,
              method: call.origin.method,
              requestId: call.origin.requestId,
              description: "a proxy dropped the request (400 with an empty body)"
            })
          )
        )
      }
      // A report that is refused must not cost those who work a new token.
      if (response.status === 401 && endpoint.pool !== "telemetry" && secret !== undefined) {
        tenant.tokens?.invalidate(secret)
      }
      const scrub = secret === undefined && fixedSecrets.length === 0
        ? noSecret
        : blank(secret === undefined ? fixedSecrets : [secret, ...fixedSecrets])
      return Effect.fail(Failure.fromResponse(endpoint, call.origin, response, now, scrub, config.compatibility))
    })

  const succeeded = (call: Call, response: TinkerTransport.Response): Effect.Effect<TinkerTransport.Response> => {
    Tenants.refill(tenant.pools[call.endpoint.endpoint.pool])
    const note = response.headers["x-deprecation-note"]
    return note === undefined
      ? Effect.succeed(response)
      : (response.headers["x-deprecation-level"]?.trim().toLowerCase() === "error"
        ? Effect.logError(`Deprecation notice: ${note}`)
        : Effect.logWarning(`Deprecation notice: ${note}`)).pipe(
          Logs.of("ApiClient", { endpoint: call.endpoint.endpoint.name }),
          Effect.as(response)
        )
  }

  const settle = (
    call: Call,
    request: TinkerTransport.Request,
    response: TinkerTransport.Response,
    secret: string | undefined
  ): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> => {
    const { status } = response
    Meters.received(call.endpoint.endpoint.name, response.body.length)
    if (status >= 200 && status < 300) return succeeded(call, response)
    const { redirects } = call.endpoint.endpoint
    if (status < 300 || status >= 400 || redirects === "refuse") return fail(call, response, secret)
    if (redirects === "return") return succeeded(call, response)
    return Effect.flatMap(
      Effect.mapError(
        Redirect.follow(transport, request, response),
        (error) => Failure.fromTransport(call.origin, error)
      ),
      (last) => last.status >= 200 && last.status < 300 ? succeeded(call, last) : fail(call, last, secret)
    )
  }

  return { fail, settle }
}
