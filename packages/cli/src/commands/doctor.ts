/**
 * `tinker doctor`: version, configuration, key, server and clock, with advice.
 *
 * @since 0.1.0
 */
import * as Command from "@effect/cli/Command"
import * as FileSystem from "@effect/platform/FileSystem"
import * as HttpClient from "@effect/platform/HttpClient"
import * as Credentials from "effect-tinker/Credentials"
import * as NodeCredentials from "effect-tinker/NodeCredentials"
import * as RestClient from "effect-tinker/RestClient"
import * as TinkerConfig from "effect-tinker/TinkerConfig"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { CliFailure, report } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import { version } from "../internal/version.js"
import type { Tone } from "../terminal/Output.js"
import { Output } from "../terminal/Output.js"
import * as text from "../terminal/text.js"

interface Check {
  readonly check: string
  readonly status: "ok" | "warning" | "failed" | "skipped"
  readonly detail: string
  readonly advice?: string | undefined
}

const oldest = [20, 18, 1] as const

const node = (): Check => {
  const parts = process.versions.node.split(".").map(Number)
  const difference = oldest.map((part, i) => (parts[i] ?? 0) - part).find((part) => part !== 0) ?? 0
  return difference < 0
    ? { check: "node", status: "failed", detail: process.version, advice: `Install Node ${oldest.join(".")} or newer.` }
    : { check: "node", status: "ok", detail: process.version }
}

const failedBy = (check: string, error: unknown): Check => {
  const { advice, what } = report(error)
  return { check, status: "failed", detail: what, advice }
}

const skipped = (check: string, detail: string): Check => ({ check, status: "skipped", detail })

/** Signed addresses and tokens are judged by their clocks: a minute off is noticed by nobody, five are. */
const tolerated = Duration.toMillis("1 minute")

const reach = Effect.fnUntraced(function*(baseUrl: string) {
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
    const down: Check = {
      check: "server",
      status: "failed",
      detail: `${baseUrl}: ${answer.left}`,
      advice: "Check the address (--base-url, TINKER_BASE_URL), the network and any proxy."
    }
    return [down, skipped("clock", "the server did not answer")] as const
  }
  const { headers, status } = answer.right
  const up: Check = status < 500
    ? { check: "server", status: "ok", detail: `${baseUrl} answers in ${after - before} ms` }
    : {
      check: "server",
      status: "failed",
      detail: `${baseUrl} answers with status ${status}`,
      advice: "Try again later."
    }
  const date = Date.parse(headers["date"] ?? "")
  if (Number.isNaN(date)) return [up, skipped("clock", "the server does not tell the time")] as const
  const off = Math.abs((before + after) / 2 - date)
  const clock: Check = off <= tolerated
    ? { check: "clock", status: "ok", detail: "agrees with the server's" }
    : {
      check: "clock",
      status: "warning",
      detail: `${text.duration(off)} off the server's`,
      advice: "Set this machine's clock (NTP): tokens and signed addresses depend on it."
    }
  return [up, clock] as const
})

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

const storedFile = Effect.fnUntraced(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = NodeCredentials.defaultPath()
  const info = yield* Effect.option(fs.stat(path))
  if (Option.isNone(info)) return skipped("login", "no stored login")
  const open = process.platform !== "win32" && (info.value.mode & 0o077) !== 0
  const check: Check = open
    ? { check: "login", status: "warning", detail: `${path} can be read by others`, advice: `Run chmod 600 ${path}` }
    : { check: "login", status: "ok", detail: path }
  return check
})

/** Loaded on demand: it brings in the engine. */
const engine = Effect.gen(function*() {
  const backend = yield* Effect.promise(() => import("../internal/localBackend.js"))
  const { freeMemory, kernels, threads } = yield* backend.machine
  const checks: ReadonlyArray<Check> = [
    Either.match(kernels, {
      onLeft: (reason): Check => ({
        check: "kernels",
        status: "warning",
        detail: `WebAssembly: ${reason}`,
        advice: "Training and sampling take about twice the time of native kernels."
      }),
      onRight: (file): Check => ({ check: "kernels", status: "ok", detail: `native, ${file}` })
    }),
    {
      check: "machine",
      status: "ok",
      detail: `${text.count(threads, "engine thread")}, ${text.size(freeMemory)} of memory free`
    }
  ]
  return checks
})

const tones: Readonly<Record<string, Tone>> = { ok: "good", warning: "doubtful", failed: "bad", skipped: "idle" }

const doctor = Effect.fnUntraced(function*() {
  const output = yield* Output
  const checks: Array<Check> = [
    { check: "version", status: "ok", detail: `tinker ${version}, speaking the wire of ${TinkerConfig.wireVersion}` },
    node(),
    yield* storedFile(),
    ...(yield* live.isLocal) ? yield* engine : [],
    ...(yield* live.misunderstoodSettings).map((detail): Check => ({ check: "settings", status: "warning", detail }))
  ]
  const config = yield* Effect.either(Effect.provide(TinkerConfig.TinkerConfig, live.config))
  if (Either.isLeft(config)) checks.push(failedBy("configuration", config.left))
  else {
    const { baseUrl, projectId } = config.right
    checks.push({
      check: "configuration",
      status: "ok",
      detail: `${baseUrl}${Option.isSome(projectId) ? `, project ${projectId.value}` : ""}`
    })
    checks.push(...yield* Effect.provide(reach(baseUrl), live.network))
    const credentials = yield* Effect.either(Effect.provide(Credentials.Credentials, live.base))
    if (Either.isLeft(credentials)) {
      checks.push(failedBy("credential", credentials.left), skipped("access", "there is no credential"))
    } else {
      checks.push({ check: "credential", status: "ok", detail: live.sources[credentials.right.source] })
      const access = yield* live.bounded(
        Effect.flatMap(RestClient.RestClient, (rest) => rest.getServerCapabilities)
      ).pipe(Effect.provide(live.rest), Effect.either)
      checks.push(
        Either.isLeft(access)
          ? failedBy("access", access.left)
          : { check: "access", status: "ok", detail: text.count(access.right.supportedModels.length, "model") }
      )
    }
  }
  const failed = checks.filter(({ status }) => status === "failed")
  yield* output.print({
    columns: [{ header: "Check", keep: true }, { header: "Status", tone: (status) => tones[status] }, {
      header: "Detail",
      wrap: true
    }],
    rows: checks.map(({ check, detail, status }) => [check, status, detail]),
    json: { ok: failed.length === 0, checks, total: checks.length },
    items: checks
  })
  for (const { advice, check } of checks) if (advice !== undefined) yield* output.note(`${check}: ${advice}`)
  if (failed.length > 0) {
    return yield* new CliFailure({
      what: `${text.count(failed.length, "check")} failed: ${failed.map(({ check }) => check).join(", ")}`,
      advice: failed[0]?.advice ?? "Follow the advice above."
    })
  }
})

/** @internal */
export const command = Command.make("doctor", {}, doctor)
  .pipe(
    Command.withDescription("Check version, configuration, credentials, server and clock, and suggest fixes.")
  )
