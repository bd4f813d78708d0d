/**
 * `tinker doctor`: version, machine, directories, configuration, key, way to the server and clock, with advice.
 *
 * @since 0.1.0
 */
import * as Command from "@effect/cli/Command"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Credentials from "effect-tinker/Credentials"
import * as NodeCredentials from "effect-tinker/NodeCredentials"
import * as RestClient from "effect-tinker/RestClient"
import * as TinkerConfig from "effect-tinker/TinkerConfig"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { CliFailure, report } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import type { Check } from "../internal/doctor/check.js"
import { failed, ok, skipped, warning } from "../internal/doctor/check.js"
import { directories } from "../internal/doctor/directories.js"
import { engine, node } from "../internal/doctor/machine.js"
import { environment, reach } from "../internal/doctor/network.js"
import { version } from "../internal/version.js"
import type { Tone } from "../terminal/Output.js"
import { Output } from "../terminal/Output.js"
import * as text from "../terminal/text.js"

const failedBy = (check: string, error: unknown): Check => {
  const { advice, what } = report(error)
  return failed(check, what, advice)
}

const storedFile = Effect.fnUntraced(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = NodeCredentials.defaultPath()
  const info = yield* Effect.option(fs.stat(path))
  if (Option.isNone(info)) return skipped("login", "no stored login")
  const open = process.platform !== "win32" && (info.value.mode & 0o077) !== 0
  return open
    ? warning("login", `${path} can be read by others`, `Run chmod 600 ${path}`)
    : ok("login", path)
})

const tones: Readonly<Record<string, Tone>> = { ok: "good", warning: "doubtful", failed: "bad", skipped: "idle" }

const access = live.bounded(
  Effect.flatMap(RestClient.RestClient, (rest) => rest.getServerCapabilities)
).pipe(Effect.provide(live.rest), Effect.either)

/** Checks that need the configuration: the server, the key, and what the key opens. One that fails ends them. */
const service = Effect.gen(function*() {
  const config = yield* Effect.either(Effect.provide(TinkerConfig.TinkerConfig, live.config))
  if (Either.isLeft(config)) return [failedBy("configuration", config.left)]
  const { baseUrl, projectId } = config.right
  const configured = ok("configuration", `${baseUrl}${Option.isSome(projectId) ? `, project ${projectId.value}` : ""}`)
  const reached = yield* Effect.either(Effect.provide(reach(baseUrl), live.network))
  if (Either.isLeft(reached)) {
    return [configured, failedBy("server", reached.left), skipped("access", "there is no way to the server")]
  }
  const credentials = yield* Effect.either(Effect.provide(Credentials.Credentials, live.base))
  if (Either.isLeft(credentials)) {
    return [
      configured,
      ...reached.right,
      failedBy("credential", credentials.left),
      skipped("access", "there is no credential")
    ]
  }
  const allowed = yield* access
  return [
    configured,
    ...reached.right,
    ok("credential", live.sources[credentials.right.source]),
    Either.isLeft(allowed)
      ? failedBy("access", allowed.left)
      : ok("access", text.count(allowed.right.supportedModels.length, "model"))
  ]
})

const doctor = Effect.fnUntraced(function*() {
  const output = yield* Output
  const checks: ReadonlyArray<Check> = [
    ok("version", `tinker ${version}, speaking the wire of ${TinkerConfig.wireVersion}`),
    node(),
    ...(yield* directories),
    yield* storedFile(),
    ...(yield* live.isLocal) ? yield* engine : [],
    ...(yield* live.misunderstoodSettings).map((detail) => warning("settings", detail, "Correct it, or unset it.")),
    ...(yield* environment),
    ...(yield* service)
  ]
  const wrong = checks.filter(({ status }) => status === "failed")
  yield* output.print({
    columns: [{ header: "Check", keep: true }, { header: "Status", tone: (status) => tones[status] }, {
      header: "Detail",
      wrap: true
    }],
    rows: checks.map(({ check, detail, status }) => [check, status, detail]),
    json: { ok: wrong.length === 0, checks, total: checks.length },
    items: checks
  })
  for (const { advice, check } of checks) if (advice !== undefined) yield* output.note(`${check}: ${advice}`)
  if (wrong.length > 0) {
    return yield* new CliFailure({
      what: `${text.count(wrong.length, "check")} failed: ${wrong.map(({ check }) => check).join(", ")}`,
      advice: wrong[0]?.advice ?? "Follow the advice above."
    })
  }
})

/** @internal */
export const command = Command.make("doctor", {}, doctor)
  .pipe(
    Command.withDescription(
      "Check Node, directories, proxies, configuration, key, server and clock, with --local the engine, and suggest fixes."
    )
  )
