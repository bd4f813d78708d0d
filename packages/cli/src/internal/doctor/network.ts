/**
 * Checks of the way to a server: proxies, certificate authorities, the server itself and its clock.
 *
 * @since 0.2.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpClient from "@effect/platform/HttpClient"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as text from "../../terminal/text.js"
import type { Check } from "./check.js"
import { failed, ok, skipped, warning } from "./check.js"

/** A variable under either of the names that tools use, and the name. */
const variable = Effect.fnUntraced(function*(name: string) {
  for (const candidate of [name, name.toLowerCase()]) {
    const value = yield* Effect.option(Config.nonEmptyString(candidate))
    if (Option.isSome(value)) return { name: candidate, value: value.value }
  }
  return undefined
})

/** Host and port alone: a proxy's URL may hold a password. */
const hostOf = (url: string): string | undefined => {
  const whole = url.includes("://") ? url : `http://${url}`
  return URL.canParse(whole) ? new URL(whole).host : undefined
}

const proxies = Effect.gen(function*() {
  const found = yield* Effect.forEach(["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"], variable)
  const set = found.flatMap((one) => one === undefined ? [] : [one])
  if (set.length === 0) return []
  const broken = set.find(({ value }) => hostOf(value) === undefined)
  if (broken !== undefined) {
    return [failed("proxy", `${broken.name} is not a URL`, `Write ${broken.name}=http://HOST:PORT, or unset it.`)]
  }
  const except = yield* variable("NO_PROXY")
  const list = set.map(({ name, value }) => `${name}: ${hostOf(value)}`).join(", ")
  return [ok("proxy", `${list}${except === undefined ? "" : `, but for ${except.value}`}`)]
})

const hasCertificate = (path: string) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const { type } = yield* fs.stat(path)
    if (type === "Directory") return (yield* fs.readDirectory(path)).length > 0
    return (yield* fs.readFileString(path)).includes("-----BEGIN CERTIFICATE-----")
  })

const authorities = Effect.gen(function*() {
  const checks: Array<Check> = []
  for (const name of ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"]) {
    const path = yield* Effect.option(Config.nonEmptyString(name))
    if (Option.isNone(path)) continue
    const found = yield* Effect.either(hasCertificate(path.value))
    checks.push(
      Either.isLeft(found)
        ? failed("certificates", `${name} names ${path.value}, which cannot be read`, `Correct ${name}, or unset it.`)
        : found.right
        ? ok("certificates", `${name}: ${path.value}`)
        : failed(
          "certificates",
          `${name} names ${path.value}, which has no certificate`,
          "Name a file of certificates in PEM: it has lines -----BEGIN CERTIFICATE-----."
        )
    )
  }
  return checks
})

/** Proxies and certificate authorities that the environment names, for any server. @internal */
export const environment: Effect.Effect<ReadonlyArray<Check>, never, FileSystem.FileSystem> = Effect.zipWith(
  proxies,
  authorities,
  (a, b): ReadonlyArray<Check> => [...a, ...b]
)

/** Signed addresses and tokens are judged by their clocks: a minute off is noticed by nobody, five are. */
const tolerated = Duration.toMillis("1 minute")

const cause = (error: { readonly cause?: unknown; readonly message: string }): string => {
  const inner = error.cause
  if (inner instanceof Error) {
    const deepest = inner.cause instanceof Error ? inner.cause : inner
    return "code" in deepest && typeof deepest.code === "string"
      ? `${deepest.message || "connection failed"} (${deepest.code})`
      : deepest.message
  }
  return error.message
}

/** The server, and how far its clock is from ours. @internal */
export const reach: (baseUrl: string) => Effect.Effect<ReadonlyArray<Check>, never, HttpClient.HttpClient> = Effect
  .fnUntraced(function*(baseUrl) {
    const client = yield* HttpClient.HttpClient
    const before = yield* Clock.currentTimeMillis
    const answer = yield* client.get(`${baseUrl}/api/v1/healthz`).pipe(
      Effect.scoped,
      Effect.timeoutFail({ duration: "10 seconds", onTimeout: () => "no answer within 10 seconds" }),
      Effect.mapError((error) => typeof error === "string" ? error : cause(error)),
      Effect.either
    )
    const after = yield* Clock.currentTimeMillis
    if (Either.isLeft(answer)) {
      return [
        failed(
          "server",
          `${baseUrl}: ${answer.left}`,
          "Check the address (--base-url, TINKER_BASE_URL), the network and any proxy."
        ),
        skipped("clock", "the server did not answer")
      ]
    }
    const { headers, status } = answer.right
    const up = status < 500
      ? ok("server", `${baseUrl} answers in ${after - before} ms`)
      : failed("server", `${baseUrl} answers with status ${status}`, "Try again later.")
    const date = Date.parse(headers["date"] ?? "")
    if (Number.isNaN(date)) return [up, skipped("clock", "the server does not tell the time")]
    const off = Math.abs((before + after) / 2 - date)
    return [
      up,
      off <= tolerated
        ? ok("clock", "agrees with the server's")
        : warning(
          "clock",
          `${text.duration(off)} off the server's`,
          "Set this machine's clock (NTP): tokens and signed addresses depend on it."
        )
    ]
  })
