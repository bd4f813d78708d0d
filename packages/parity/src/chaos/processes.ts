/**
 * The processes of a run and what they leave behind.
 */
import * as Engine from "@effect-tinker/local/Engine"
import { Command, FileSystem } from "@effect/platform"
import { Data, Deferred, Effect, Schema, Stream } from "effect"
import * as Net from "node:net"
import type * as Check from "./check.js"
import * as Plan from "./plan.js"
import type { Arguments as ServerArguments } from "./server.js"

export class ChaosFailed extends Data.TaggedError("ChaosFailed")<{ readonly reason: string }> {
  override get message(): string {
    return this.reason
  }
}

export const failed = (cause: unknown) =>
  new ChaosFailed({ reason: cause instanceof Error ? cause.message : String(cause) })

export const freePort = Effect.async<number, ChaosFailed>((resume) => {
  const probe = Net.createServer()
  probe.once("error", (error) => resume(failed(error)))
  probe.listen(0, "127.0.0.1", () => {
    const address = probe.address()
    probe.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

/** The server in a process of its own, until the scope closes or it is killed. */
export const startServer = Effect.fnUntraced(
  function*(program: string, args: Schema.Schema.Type<typeof ServerArguments>) {
    const child = yield* Command.start(
      Command.make(process.execPath, program, JSON.stringify(args)).pipe(Command.stderr("inherit"))
    )
    const ready = yield* Effect.makeLatch()
    const stats = yield* Deferred.make<Plan.Stats, ChaosFailed>()
    yield* child.stdout.pipe(
      Stream.decodeText(),
      Stream.splitLines,
      Stream.runForEach((line) => {
        if (line === "listening") return ready.open
        if (!line.startsWith("stats ")) return Effect.void
        return Effect.flatMap(
          Schema.decode(Schema.parseJson(Plan.Stats))(line.slice("stats ".length)),
          (said) => Deferred.succeed(stats, said)
        )
      }),
      Effect.ignore,
      Effect.zipRight(Deferred.fail(stats, failed("the server ended without a word"))),
      Effect.forkScoped
    )
    yield* ready.await.pipe(
      Effect.timeoutFail({ duration: "60 seconds", onTimeout: () => failed("the server did not start") })
    )
    return { kill: child.kill, stats: Deferred.await(stats) }
  }
)

export const readJournal = <A, I>(path: string, schema: Schema.Schema<A, I>) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const decode = Schema.decode(Schema.parseJson(schema))
    const text = (yield* fs.exists(path)) ? yield* fs.readFileString(path) : ""
    // a line cut off by a kill was not written
    const lines = text.split("\n").slice(0, -1)
    return yield* Effect.forEach(lines, (line) => decode(line))
  })

/** Samples drawn from the same seed here: an answer that belongs to another request would differ. */
export const wrongSamples = Effect.fnUntraced(function*(settled: ReadonlyArray<Plan.Settled>) {
  const engine = yield* Engine.make()
  const sampler = yield* engine.sampler(Plan.baseModel)
  const broken: Array<Check.Broken> = []
  for (const { op, tokens } of settled) {
    if (tokens === undefined) continue
    const { maxTokens, numSamples, seed, tokens: prompt } = Plan.sampleOf(op)
    const { sequences } = yield* sampler.sample({ prompt, numSamples, params: { maxTokens, seed, stop: [] } })
    const expected = sequences.flatMap((sequence) => Array.from(sequence.tokens)).join(" ")
    if (expected !== tokens.join(" ")) broken.push(`samples: ${op} drew ${tokens.join(" ")}, not ${expected}`)
  }
  return broken
})
