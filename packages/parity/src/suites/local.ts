/**
 * `--local`: the official SDK and its command line, unmodified, against the embedded backend over HTTP. The newest one
 * does everything, once as clients behave by default and once with everything a server can ask of them; then the newest on
 * the index and every older version in use do what they have in common, while the server holds its polls only for a moment. A version after
 * the flag runs that one alone.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Command } from "@effect/platform"
import { Console, Effect, Redacted } from "effect"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs, PythonMissing } from "../Suite.js"

const name = "local"

/** The pinned one, the one before the last changes of the wire, and the one that SkyRL pins. */
const versions = ["0.38.0", "0.36.0", "0.24.1"]

const runs: ReadonlyArray<{
  readonly title: string
  readonly args: ReadonlyArray<string>
  readonly config: NodeTinkerLocal.Options["clientConfig"]
}> = [
  { title: "defaults", args: [], config: {} },
  {
    title: "tokens, zstd, small chunks, one poll per sampler",
    args: ["jwt"],
    config: {
      pjwtAuthEnabled: true,
      protoCompressFwdbwd: true,
      fwdbwdMaxChunkLen: 2,
      sampleUseRetrieveFutures: true,
      sampleJoinSamplingSession: true
    }
  }
]

const serve = (options: NodeTinkerLocal.Options) =>
  NodeTinkerLocal.serve(options).pipe(
    Effect.mapError((error) => new Differs({ suite: name, differences: [`the server does not start: ${error}`] }))
  )

const everything = Effect.gen(function*() {
  const python = yield* Python.make
  for (const { args, config, title } of runs) {
    const report = yield* Effect.scoped(Effect.gen(function*() {
      const { apiKey, baseUrl } = yield* serve({ clientConfig: config })
      return yield* python.run("local_backend", baseUrl, Redacted.value(apiKey), ...args)
    }))
    yield* Console.log(`${title}: ${report.trim()}`)
  }
})

/** The newest on the index: what `pip install tinker` brings today. */
const newest = Effect.gen(function*() {
  const interpreter = yield* Python.findInterpreter(11)
  const args = ["-m", "pip", "index", "--disable-pip-version-check", "versions", "tinker"]
  const said = yield* Python.output(Command.make(interpreter, ...args))
  const version = /^tinker \((\S+)\)/m.exec(said)?.[1]
  return version ?? (yield* new PythonMissing({ reason: `the index has no version of tinker: ${said}` }))
})

const withVersion = Effect.fnUntraced(function*(version: string) {
  // Each against a server of its time: JSON alone before 0.25.
  const python = yield* Python.makeVersion(version)
  let interrupted = 0
  let heldBack = 0
  const running = yield* serve({ hold: "300 millis", profile: version.startsWith("0.24.") ? "0.24" : "0.36" })
  const { baseUrl } = yield* NodeTinkerLocal.listen({
    ...running.server,
    handle: (request) =>
      running.server.handle(request).pipe(
        Effect.tap(({ body }) => {
          if (body instanceof Uint8Array && body.length < 1000 && Buffer.from(body).includes("try_again")) heldBack++
        }),
        // what a completion computes, it computes in its handler
        Effect.onInterrupt(() =>
          Effect.sync(() => {
            if (request.url.pathname.startsWith("/oai/")) interrupted++
          })
        )
      )
  }).pipe(
    Effect.mapError((error) => new Differs({ suite: name, differences: [`the server does not start: ${error}`] }))
  )
  // for a second of every three the server works on nothing, and reports that to every poll
  yield* Effect.forkScoped(Effect.forever(Effect.gen(function*() {
    yield* Effect.sleep("2 seconds")
    yield* running.server.pause({ state: "paused_capacity", reason: "a rest" })
    yield* Effect.sleep("1 second")
    yield* running.server.resume
  })))
  const report = yield* python.runIn(
    { HF_ENDPOINT: baseUrl, HF_HUB_DISABLE_TELEMETRY: "1" },
    "local_clients",
    baseUrl,
    Redacted.value(running.apiKey)
  )
  yield* Console.log(`${version}: ${report.trim()}`)
  yield* Console.log(`${version}: ${heldBack} polls held and sent away, ${interrupted} computations left and ended`)
  const differences = [
    ...(heldBack > 0 ? [] : [`tinker ${version}: no poll was answered with try_again`]),
    ...(interrupted > 0 ? [] : [`tinker ${version}: what nobody waits for is still computed`])
  ]
  if (differences.length > 0) return yield* new Differs({ suite: name, differences })
}, Effect.scoped)

export const local: Suite = {
  name,
  summary: "the official client trains, samples, saves, loads, lists and deletes on the embedded backend",
  run: (args) => {
    const chosen = args.filter((arg) => /^\d+\.\d+\.\d+$/.test(arg))
    const each = (versions: Iterable<string>) => Effect.forEach(new Set(versions), withVersion, { discard: true })
    return chosen.length > 0
      ? each(chosen)
      : Effect.zipRight(everything, Effect.flatMap(newest, (version) => each([version, ...versions])))
  }
}
