/**
 * Processes that are killed and started again, and what they leave in the journal of a run.
 */
import { RunLog } from "@effect-tinker/cookbook"
import { Command, FileSystem, Path } from "@effect/platform"
import type { CommandExecutor } from "@effect/platform"
import { Data, Effect, Fiber, Option, Schema, Stream } from "effect"
import { bundle } from "../Bundle.js"

export class DurableFailed extends Data.TaggedError("DurableFailed")<{ readonly reason: string }> {
  override get message(): string {
    return this.reason
  }
}

const Sampled = Schema.Struct({
  group: Schema.Number,
  member: Schema.Number,
  turns: Schema.Array(
    Schema.Struct({ tokens: Schema.Array(Schema.Number), logprobs: Schema.Array(Schema.Number) })
  )
})

/**
 * What a run drew and computed, to be compared bit by bit: the loss and the reward of each step, and every rollout's tokens with
 * their logprobs. Tokens, because rewards are sums: other draws can have the same one.
 */
export const seriesOf = Effect.fnUntraced(function*(directory: string) {
  const { resumes, steps } = Option.getOrThrow(yield* RunLog.read(directory))
  const series = yield* Effect.forEach(
    steps,
    ({ metrics, step }) =>
      Effect.map(RunLog.rollouts(directory, step), (rollouts) => [
        JSON.stringify([step, metrics["loss"], metrics["env/all/reward"]]),
        ...rollouts.map((rollout) => {
          const { group, member, turns } = Schema.decodeUnknownSync(Sampled)(rollout)
          return JSON.stringify([step, group, member, ...turns.map(({ logprobs, tokens }) => [tokens, logprobs])])
        })
      ])
  )
  return { resumes, steps: steps.length, series: series.flat() }
})

/** Most differences that are named: after the first other draw, all of them follow from it. */
const named = 10

export const differencesOf = (wanted: ReadonlyArray<string>, found: ReadonlyArray<string>): ReadonlyArray<string> => {
  const all = Array.from({ length: Math.max(wanted.length, found.length) }, (_, i) => i).flatMap((i) =>
    wanted[i] === found[i] ? [] : [`${found[i]} instead of ${wanted[i]}`]
  )
  return all.length <= named ? all : [...all.slice(0, named), `and ${all.length - named} more`]
}

/** Bundles modules of this folder, until the scope closes. They lie beside the sources, where the databases' drivers are. */
export const loader = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const build = path.join(
    path.dirname(yield* path.fromFileUrl(new URL("../../package.json", import.meta.url))),
    "build"
  )
  yield* fs.makeDirectory(build, { recursive: true })
  const out = yield* fs.makeTempDirectoryScoped({ directory: build, prefix: "durable-" })
  return (module: string) =>
    bundle(new URL(`./${module}.ts`, import.meta.url), out, ["@libsql/*", "libsql", "pg", "pg-*"])
})

/** A process that is started again whenever it was killed, unless it is to leave then, until it ends by itself. */
export const keepAlive = Effect.fnUntraced(function*(
  name: string,
  args: ReadonlyArray<string>,
  onLine?: (line: string) => void,
  onKill: "restart" | "leave" = "restart"
) {
  let current: CommandExecutor.Process | undefined
  let killed = false
  const once = Effect.scoped(Effect.gen(function*() {
    killed = false
    const child = yield* Command.start(Command.make(process.execPath, ...args))
    current = child
    const complaints = yield* Effect.fork(Stream.mkString(Stream.decodeText(child.stderr)))
    yield* child.stdout.pipe(
      Stream.decodeText(),
      Stream.splitLines,
      Stream.runForEach((line) => Effect.sync(() => onLine?.(line))),
      Effect.fork
    )
    const code = yield* Effect.option(child.exitCode)
    current = undefined
    if (killed) return onKill === "restart"
    if (Option.exists(code, (status) => Number(status) === 0)) return false
    return yield* new DurableFailed({ reason: `the ${name} failed: ${yield* Fiber.join(complaints)}` })
  }))
  const fiber = yield* Effect.repeat(once, { while: (again) => again }).pipe(Effect.forkScoped)
  return {
    ended: Fiber.join(fiber),
    kill: Effect.suspend(() => {
      if (current === undefined) return Effect.succeed(false)
      killed = true
      return Effect.as(Effect.ignore(current.kill("SIGKILL")), true)
    })
  }
})
