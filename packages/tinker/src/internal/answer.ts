/**
 * What an answer means: a response to work with, or the tagged error.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as TinkerConfig from "../TinkerConfig.js"
import * as TinkerError from "../TinkerError.js"
import type { Call } from "./call.js"
import type * as Wire from "./exchange.js"
import * as Failure from "./failure.js"
import * as Logs from "./logs.js"
import * as Meters from "./meters.js"
import * as Redirect from "./redirect.js"
import * as Tenant from "./tenant.js"

const noSecret = (text: string) => text

/** @internal */
export const blank = (secrets: ReadonlyArray<string>) => (text: string): string =>
  secrets.reduce((result, secret) => secret === "" ? result : result.replaceAll(secret, "<redacted>"), text)

/** @internal */
export interface Answers {
  /** Of a complete answer, redirects followed where the endpoint allows it. */
  readonly settle: (
    call: Call,
    request: Wire.Request,
    response: Wire.Response,
    secret: string | undefined
  ) => Effect.Effect<Wire.Response, TinkerError.TinkerError>
  /** Of one whose status says that it failed. */
  readonly fail: (
    call: Call,
    response: Wire.Response,
    secret: string | undefined
  ) => Effect.Effect<never, TinkerError.TinkerError>
}

/** @internal */
export const make = ({ config, fixedSecrets, tenant }: {
  readonly config: TinkerConfig.Service
  /** Of every request, besides the credential: they are blanked out of what servers say. */
  readonly fixedSecrets: ReadonlyArray<string>
  readonly tenant: Tenant.Tenant
}): Answers => {
  const { wire } = tenant

  const fail = (
    call: Call,
    response: Wire.Response,
    secret: string | undefined
  ): Effect.Effect<never, TinkerError.TinkerError> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const endpoint = call.endpoint.endpoint
      const pool = tenant.pools[endpoint.pool]
      if (Failure.isEmpty400(response) && pool.forgiveness > 0) {
        pool.forgiveness--
        return Effect.zipRight(
          wire.reset(endpoint.pool),
          Effect.fail(
            new TinkerError.TransportFailed({
              module: call.origin.module,
              method: call.origin.method,
              requestId: call.origin.requestId,
              description: "a proxy on the way dropped the request (400 without a word)"
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

  const succeeded = (call: Call, response: Wire.Response): Effect.Effect<Wire.Response> => {
    Tenant.refill(tenant.pools[call.endpoint.endpoint.pool])
    const note = response.headers["x-deprecation-note"]
    return note === undefined
      ? Effect.succeed(response)
      : (response.headers["x-deprecation-level"]?.trim().toLowerCase() === "error"
        ? Effect.logError(`Deprecation notice: ${note}`)
        : Effect.logWarning(`Deprecation notice: ${note}`)).pipe(
          Logs.of("Transport", { endpoint: call.endpoint.endpoint.name }),
          Effect.as(response)
        )
  }

  const settle = (
    call: Call,
    request: Wire.Request,
    response: Wire.Response,
    secret: string | undefined
  ): Effect.Effect<Wire.Response, TinkerError.TinkerError> => {
    const { status } = response
    Meters.received(call.endpoint.endpoint.name, response.body.length)
    if (status >= 200 && status < 300) return succeeded(call, response)
    const { redirects } = call.endpoint.endpoint
    if (status < 300 || status >= 400 || redirects === "refuse") return fail(call, response, secret)
    if (redirects === "return") return succeeded(call, response)
    return Effect.flatMap(
      Effect.mapError(Redirect.follow(wire, request, response), (error) => Failure.fromWire(call.origin, error)),
      (last) => last.status >= 200 && last.status < 300 ? succeeded(call, last) : fail(call, last, secret)
    )
  }

  return { fail, settle }
}
