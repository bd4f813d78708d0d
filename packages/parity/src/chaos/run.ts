/**
 * A whole chaos run: the server that is killed and started again, the proxy before it, the client under test, and the
 * verdict on what both sides wrote down.
 */
import { Command, FileSystem, Path } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Effect, Fiber, Option, Ref, Schedule, Schema, Stream } from "effect"
import { PCGRandom } from "effect/Utils"
import { bundle } from "../Bundle.js"
import * as Check from "./check.js"
import type { Arguments as ClientArguments } from "./client.js"
import * as Plan from "./plan.js"
import { ChaosFailed, failed, freePort, readJournal, startServer, wrongSamples } from "./processes.js"
import * as Proxy from "./proxy.js"

export interface Options {
  readonly ops: number
  readonly seed: number
}

export interface Report {
  readonly chaos: Options
  readonly passed: boolean
  readonly broken: ReadonlyArray<Check.Broken>
  readonly seconds: number
  readonly cpuSeconds: number
  /** How calls ended, by kind. */
  readonly outcomes: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** One message of each typed failure. */
  readonly failures: Readonly<Record<string, string>>
  /** Operations the engine carried out. */
  readonly executed: number
  readonly restarts: number
  readonly clockJumps: number
  /** What the proxy did. */
  readonly faults: Readonly<Record<string, number>>
  /** Requests by endpoint. */
  readonly requests: Readonly<Record<string, number>>
  /** Milliseconds of the longest call. */
  readonly longest: number
  /** MiB of heap after collection. */
  readonly memory: { readonly first: number; readonly last: number }
}

/** From here on there is time for polls that meet a dead connection. */
const long = 2_000

const rates: Proxy.Rates = {
  latency: 0.04,
  resetBefore: 0.005,
  resetAfter: 0.01,
  truncate: 0.005,
  halfOpen: 0.0005,
  duplicate: 0.02,
  slowAnswer: 0.005,
  slowRequest: 0.005
}

export const run = ({ ops, seed }: Options): Effect.Effect<Report, ChaosFailed, NodeContext.NodeContext> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-chaos-" })
    const serverProgram = yield* bundle(new URL("./server.ts", import.meta.url), root)
    const clientProgram = yield* bundle(new URL("./client.ts", import.meta.url), root)
    const random = new PCGRandom(seed, 2)
    const port = yield* freePort
    const serverJournal = path.join(root, "server.jsonl")
    const clientJournal = path.join(root, "client.jsonl")
    const life = (number: number) =>
      startServer(serverProgram, {
        port,
        directory: path.join(root, "data"),
        journal: serverJournal,
        seed,
        life: number,
        faults: "chaos"
      })

    const server = yield* Ref.make(yield* life(0))
    const proxy = yield* Effect.mapError(
      Proxy.make({ target: port, seed, rates, neverSilent: ops < long ? ["retrieve_future", "retrieve_futures"] : [] }),
      failed
    )
    const started = performance.now()
    const args: Schema.Schema.Type<typeof ClientArguments> = {
      baseUrl: `http://127.0.0.1:${proxy.port}`,
      journal: clientJournal,
      ops,
      seed
    }
    const client = yield* Command.start(
      Command.make(process.execPath, "--expose-gc", clientProgram, JSON.stringify(args)).pipe(Command.stderr("inherit"))
    )
    const progress = yield* Ref.make(0)
    const summary = yield* Ref.make(Option.none<Plan.Summary>())
    const polls = { quiet: 0, over: 0 }
    const reading = yield* client.stdout.pipe(
      Stream.decodeText(),
      Stream.splitLines,
      Stream.runForEach((line) => {
        const [word, ...rest] = line.split(" ")
        if (word === "progress") return Ref.set(progress, Number(rest[0]))
        if (word === "quiet" || word === "over") polls[word] = proxy.seen()["retrieve_futures"] ?? 0
        if (word !== "summary") return Effect.void
        return Effect.flatMap(
          Schema.decode(Schema.parseJson(Plan.Summary))(rest.join(" ")),
          (said) => Ref.set(summary, Option.some(said))
        )
      }),
      Effect.fork
    )

    // Somewhere in the middle of the run, once for every five thousand operations.
    const restarts = Array.from({ length: Math.max(1, Math.round(ops / 5_000)) }, (_, i) => i)
    const restarting = yield* Effect.forEach(restarts, (i) =>
      Effect.gen(function*() {
        const at = (ops / restarts.length) * (i + 0.25 + random.number() / 2)
        yield* Effect.repeat(Ref.get(progress), {
          until: (now) => now >= at,
          schedule: Schedule.spaced("20 millis")
        })
        const signal = random.number() < 0.5 ? "SIGKILL" : "SIGTERM"
        yield* Effect.ignore((yield* Ref.get(server)).kill(signal))
        yield* Effect.sleep(random.integer(1_500))
        yield* Ref.set(server, yield* life(i + 1))
      }), { discard: true }).pipe(Effect.fork)

    const code = yield* client.exitCode
    const seconds = (performance.now() - started) / 1000
    yield* Fiber.interrupt(restarting)
    yield* Fiber.join(reading)

    const said = Option.getOrUndefined(yield* Ref.get(summary))
    const settled = yield* readJournal(clientJournal, Plan.Settled)
    const executed = yield* readJournal(serverJournal, Plan.Executed)
    const outcomes: Record<string, Record<string, number>> = {}
    const failures: Record<string, string> = {}
    for (const { exit, kind, note } of settled) {
      if (note !== undefined) failures[`${kind} ${exit}`] ??= note
      const own = outcomes[kind] ??= {}
      own[exit] = (own[exit] ?? 0) + 1
    }
    const heap = said?.heap ?? []
    const broken = [
      ...(said === undefined ? [`the client ended with ${code} and without a word`] : []),
      ...(said?.hung ?? []).map((what) => `hang: ${what}`),
      ...(said?.unhandled ?? []).map((what) => `unhandled: ${what}`),
      ...Check.settledOnce(settled, said?.begun ?? 0),
      ...Check.exactlyOnce(settled, executed),
      ...Check.inOrder(settled, executed),
      ...Check.quiet(polls),
      ...Check.flat(heap),
      ...yield* wrongSamples(settled)
    ]
    return {
      chaos: { ops, seed },
      passed: broken.length === 0,
      broken: broken.slice(0, 20),
      seconds: Math.round(seconds),
      cpuSeconds: Math.round(said?.cpuSeconds ?? 0),
      outcomes,
      failures,
      executed: executed.length,
      restarts: restarts.length,
      clockJumps: said?.clockJumps ?? 0,
      faults: proxy.struck(),
      requests: proxy.seen(),
      longest: settled.reduce((longest, { millis }) => Math.max(longest, millis), 0),
      memory: Check.memory(heap)
    }
  }).pipe(Effect.scoped, Effect.mapError((error) => error instanceof ChaosFailed ? error : failed(error)))
