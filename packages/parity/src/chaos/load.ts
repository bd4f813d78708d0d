/**
 * A load test on real sockets: thousands of samples at once from a server that is busy and drops connections, while a
 * model trains and the session's heart beats in the same process.
 */
import { Command, FileSystem, Path } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Effect, Option, Schema, Stream } from "effect"
import { bundle } from "../Bundle.js"
import * as Check from "./check.js"
import type { Arguments as ClientArguments } from "./loadClient.js"
import * as Plan from "./plan.js"
import { ChaosFailed, failed, freePort, readJournal, startServer, wrongSamples } from "./processes.js"

export interface Options {
  readonly samples: number
  readonly concurrency: number
  readonly seed: number
}

export interface Report {
  readonly load: Options
  readonly passed: boolean
  readonly broken: ReadonlyArray<Check.Broken>
  readonly seconds: number
  readonly samplesPerSecond: number
  readonly cpuSeconds: number
  readonly cpuMicrosPerSample: number
  /** Milliseconds from the submission of a step to its result. */
  readonly training: { readonly steps: number; readonly p50: number; readonly p99: number; readonly max: number }
  readonly heartbeats: { readonly expected: number; readonly seen: number }
  /** What the server did to sampling requests. */
  readonly faults: Readonly<Record<string, number>>
  readonly requests: Readonly<Record<string, number>>
  /** MiB of heap after collection, and the largest resident size. */
  readonly memory: { readonly first: number; readonly last: number; readonly rss: number }
}

/** A step takes milliseconds; waiting its turn among thousands of samples, never longer than this. */
const stepBound = 30_000

const beatEvery = 10

const unanswered = (settled: ReadonlyArray<Plan.Settled>): ReadonlyArray<Check.Broken> =>
  settled.flatMap(({ exit, note, op }) =>
    exit === "ok" ? [] : [`answers: sample ${op} ended as ${exit}: ${note ?? ""}`]
  )

const starved = ({ steps, trainingFailed }: Plan.LoadSummary): ReadonlyArray<Check.Broken> => [
  ...(trainingFailed === null ? [] : [`training: ${trainingFailed}`]),
  ...(steps.count === 0 ? ["training: no step was made"] : []),
  ...(steps.max > stepBound ? [`training: a step took ${steps.max} ms`] : [])
]

export const run = (options: Options): Effect.Effect<Report, ChaosFailed, NodeContext.NodeContext> =>
  Effect.gen(function*() {
    const { concurrency, samples, seed } = options
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-load-" })
    const serverProgram = yield* bundle(new URL("./server.ts", import.meta.url), root)
    const clientProgram = yield* bundle(new URL("./loadClient.ts", import.meta.url), root)
    const port = yield* freePort
    const serverJournal = path.join(root, "server.jsonl")
    const clientJournal = path.join(root, "client.jsonl")
    const server = yield* startServer(serverProgram, {
      port,
      directory: path.join(root, "data"),
      journal: serverJournal,
      seed,
      life: 0,
      faults: "load"
    })
    const args: Schema.Schema.Type<typeof ClientArguments> = {
      baseUrl: `http://127.0.0.1:${port}`,
      journal: clientJournal,
      samples,
      concurrency
    }
    const client = yield* Command.start(
      Command.make(process.execPath, "--expose-gc", clientProgram, JSON.stringify(args)).pipe(Command.stderr("inherit"))
    )
    const lines = yield* client.stdout.pipe(
      Stream.decodeText(),
      Stream.splitLines,
      Stream.filter((line) => line.startsWith("summary ")),
      Stream.runLast
    )
    yield* client.exitCode
    const said = yield* Option.match(lines, {
      onNone: () => failed("the client ended without a word"),
      onSome: (line) => Schema.decode(Schema.parseJson(Plan.LoadSummary))(line.slice("summary ".length))
    })
    yield* Effect.ignore(server.kill("SIGTERM"))
    const { requests, struck } = yield* server.stats

    const settled = yield* readJournal(clientJournal, Plan.Settled)
    const executed = yield* readJournal(serverJournal, Plan.Executed)
    const beats = { expected: Math.floor(said.seconds / beatEvery), seen: requests["heartbeat"] ?? 0 }
    const broken = [
      ...Check.settledOnce(settled, samples),
      ...unanswered(settled),
      ...Check.exactlyOnce(settled, executed),
      ...starved(said),
      // the last one may be on its way
      ...(beats.seen < beats.expected - 1 ? [`heartbeats: ${beats.seen} of ${beats.expected}`] : []),
      ...said.unhealthy.map((why) => `heartbeats: ${why}`),
      ...said.unhandled.map((what) => `unhandled: ${what}`),
      ...Check.flat(said.heap),
      ...yield* wrongSamples(settled)
    ]
    return {
      load: options,
      passed: broken.length === 0,
      broken: broken.slice(0, 20),
      seconds: Math.round(said.seconds * 10) / 10,
      samplesPerSecond: Math.round(samples / said.seconds),
      cpuSeconds: Math.round(said.cpuSeconds * 10) / 10,
      cpuMicrosPerSample: Math.round(said.cpuSeconds / samples * 1e6),
      training: { steps: said.steps.count, p50: said.steps.p50, p99: said.steps.p99, max: said.steps.max },
      heartbeats: beats,
      faults: struck,
      requests,
      memory: { ...Check.memory(said.heap), rss: Math.round(said.rss) }
    }
  }).pipe(Effect.scoped, Effect.mapError((error) => error instanceof ChaosFailed ? error : failed(error)))
