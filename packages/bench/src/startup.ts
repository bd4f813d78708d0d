/**
 * `npm run bench -- startup`: how long the command line takes to say its version, beside a Node that does nothing and
 * beside the official Python command.
 */
import { FileSystem, Path } from "@effect/platform"
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import type { Bench, Variant } from "./Bench.js"
import { BenchFailed, interleaved, isSmoke, round } from "./Bench.js"
import * as Python from "./Python.js"

const workspace = fileURLToPath(new URL("../../..", import.meta.url))

/** Timed from outside, because starting is the work. */
const started = (
  name: string,
  command: string,
  args: ReadonlyArray<string>,
  expected: RegExp
): Variant<BenchFailed> => ({
  name,
  once: Effect.suspend(() => {
    const start = performance.now()
    const { status, stdout } = spawnSync(command, args, { encoding: "utf8" })
    const took = performance.now() - start
    return status === 0 && expected.test(stdout)
      ? Effect.succeed(took)
      : new BenchFailed({ reason: `${name} ended with ${status}: ${stdout}` })
  })
})

export const bench: Bench = {
  summary: "starting `tinker version`, in wall time",
  run: Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    // What is measured is what is published: the bundle that the build writes.
    yield* Effect.try({
      try: () => execFileSync(process.execPath, [".ci/build.mjs"], { cwd: workspace, stdio: "inherit" }),
      catch: () => new BenchFailed({ reason: "the command could not be built" })
    })
    const ours = path.join(workspace, "packages", "cli", "dist", "tinker.js")
    const theirs = isSmoke ? undefined : path.join(path.dirname(yield* Python.interpreter), "tinker")
    if (theirs !== undefined && !(yield* Effect.orElseSucceed(fs.exists(theirs), () => false))) {
      return yield* new BenchFailed({ reason: `the official command is not at ${theirs}` })
    }
    const results = yield* interleaved([
      started("node -e 0", process.execPath, ["-e", "0"], /^$/),
      started("tinker version", process.execPath, [ours, "version"], /^tinker \d/),
      started("tinker --help", process.execPath, [ours, "--help"], /USAGE/),
      ...(theirs === undefined ? [] : [started("Python: tinker version", theirs, ["version"], /^tinker \d/)])
    ], { rounds: 15, warmup: 2 })
    const relative = (name: string) => results.get(name)?.relative ?? NaN
    return {
      table: [
        ["", "ms", "× node -e 0"],
        ...Array.from(results, ([name, result]) => [name, result.ms.toFixed(0), result.relative.toFixed(2)])
      ],
      ratios: {
        to_node: round(relative("tinker version")),
        help_to_node: round(relative("tinker --help")),
        python_to_ours: round(relative("Python: tinker version") / relative("tinker version"))
      },
      notes: ["`to_node` is our start relative to that of Node itself: less is better, and 1 is the floor."]
    }
  })
}
