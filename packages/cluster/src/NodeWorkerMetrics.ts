/**
 * The counts of a worker over HTTP, for Prometheus and for autoscalers: `/metrics` as Prometheus reads it, `/metrics.json` as
 * JSON. It listens on the loopback interface; on any other one it needs a token, which is asked for in a header.
 *
 * @since 0.2.0
 */
import * as HostGuard from "@effect-tinker/platform/HostGuard"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServer from "@effect/platform/HttpServer"
import type * as HttpServerError from "@effect/platform/HttpServerError"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as ConfigError from "effect/ConfigError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { timingSafeEqual } from "node:crypto"
import * as Http from "node:http"
import * as WorkerMetrics from "./WorkerMetrics.js"

/**
 * Where counts are served, and to whom.
 *
 * @since 0.2.0
 * @category models
 */
export interface Options {
  readonly metrics: WorkerMetrics.WorkerMetrics
  /** Defaults to a free one. */
  readonly port?: number | undefined
  /** The address to listen on. Defaults to `127.0.0.1`. */
  readonly listen?: string | undefined
  /** What `Authorization: Bearer …` must have. Needed on every address but a loopback one. */
  readonly token?: Redacted.Redacted | undefined
}

/** Shorter ones can be guessed. */
const shortestToken = 16

const refuse = (status: number, message: string) => HttpServerResponse.unsafeJson({ message }, { status })

const isSame = (given: string, token: Redacted.Redacted): boolean => {
  const [a, b] = [Buffer.from(given), Buffer.from(Redacted.value(token))]
  return a.length === b.length && timingSafeEqual(a, b)
}

const app = ({ listen = "127.0.0.1", metrics, token }: Options): HttpApp.Default => {
  // Elsewhere any name may be that of this machine, and the token is what a web page lacks.
  const isOurs = HostGuard.make({ host: listen, allow: HostGuard.isLoopback(listen) ? [] : ["*"] })
  return Effect.gen(function*() {
    const { headers, method, url } = yield* HttpServerRequest.HttpServerRequest
    if (!Option.exists(HostGuard.nameOf(headers["host"]), isOurs)) return refuse(403, "Unknown host name")
    if (headers["origin"] !== undefined) return refuse(403, "Web pages may not ask")
    if (token !== undefined) {
      const given = /^Bearer (.+)$/i.exec(headers["authorization"] ?? "")?.[1]
      if (given === undefined || !isSame(given, token)) return refuse(401, "Send the token: Authorization: Bearer …")
    }
    if (method !== "GET") return refuse(405, "GET only")
    const path = url.split("?")[0]
    const report = yield* metrics.report
    return path === "/metrics"
      ? HttpServerResponse.text(WorkerMetrics.prometheus(report), {
        contentType: "text/plain; version=0.0.4; charset=utf-8"
      })
      : path === "/metrics.json"
      ? HttpServerResponse.unsafeJson(report)
      : refuse(404, "/metrics or /metrics.json")
  }).pipe(Effect.map(HttpServerResponse.setHeader("cache-control", "no-store")))
}

/**
 * Serves until the scope closes; gives the address.
 *
 * @since 0.2.0
 * @category constructors
 */
export const serve: (
  options: Options
) => Effect.Effect<string, HttpServerError.ServeError | ConfigError.ConfigError, Scope.Scope> = Effect.fnUntraced(
  function*(options) {
    const listen = options.listen ?? "127.0.0.1"
    const { token } = options
    const wrong = (description: string) => ConfigError.InvalidData(["TINKER_METRICS_TOKEN"], description)
    if (token === undefined && !HostGuard.isLoopback(listen)) {
      return yield* Effect.fail(wrong(`metrics on ${listen} need a token: make one with \`openssl rand -hex 16\``))
    }
    if (token !== undefined && Redacted.value(token).length < shortestToken) {
      return yield* Effect.fail(wrong(`the token has less than ${shortestToken} characters`))
    }
    const server = yield* NodeHttpServer.make(() => Http.createServer(), { host: listen, port: options.port ?? 0 })
    yield* server.serve(app(options))
    return HttpServer.formatAddress(server.address)
  }
)
