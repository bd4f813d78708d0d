/**
 * `npm run bench -- sandbox`: programs a model wrote, per second, in each sandbox that there is on this machine, beside the
 * same programs in a bare Node and a bare Python.
 */
import * as NodeSandbox from "@effect-tinker/cookbook/NodeSandbox"
import type * as Sandbox from "@effect-tinker/cookbook/Sandbox"
import { Array, Duration, Effect, Either } from "effect"
import { execFile } from "node:child_process"
import type { Bench, Variant } from "./Bench.js"
import { BenchFailed, interleaved, round, sized } from "./Bench.js"

/** Programs of a round, and how many of them at once. */
const programs = sized(16, 2)
const concurrency = 2

const source = "(n) => { let sum = 0; for (let i = 0; i <= n; i++) sum += i; return sum }"
const python = "import sys\nprint(sum(range(int(sys.stdin.read()) + 1)))"
const expected = 500_500

/** Milliseconds of one program, of a round of them by the clock. */
const timed = <E>(
  name: string,
  one: Effect.Effect<unknown, E>
): Variant<BenchFailed> => ({
  name,
  once: Effect.forEach(Array.range(1, programs), () =>
    one.pipe(
      Effect.mapError((error) => new BenchFailed({ reason: `${name}: ${String(error)}` })),
      Effect.filterOrFail(
        (result) => Number(result) === expected,
        (result) => new BenchFailed({ reason: `${name} gave ${String(result)}` })
      )
    ), { concurrency }).pipe(
      Effect.timed,
      Effect.map(([took]) => Duration.toMillis(took) / programs)
    )
})

const bare = (command: string, args: ReadonlyArray<string>, input: string) =>
  Effect.async<string, Error>((resume) => {
    const child = execFile(
      command,
      args,
      // Outside of any package, and without the environment of this process, as in a sandbox.
      { cwd: "/", env: {} },
      (error, stdout) => resume(error ? Effect.fail(error) : Effect.succeed(stdout))
    )
    child.stdin?.end(input)
  })

const called = (sandbox: Sandbox.Service) => Effect.map(sandbox.call(source, [[1000]]), ([result]) => result)

const ran = (sandbox: Sandbox.Service) =>
  Effect.map(
    sandbox.run({ command: ["/usr/bin/python3", "main.py"], files: { "main.py": python }, stdin: "1000" }),
    ({ stdout }) => new TextDecoder().decode(stdout)
  )

export const bench: Bench = {
  summary: `programs in each sandbox, ${concurrency} at a time, by the clock`,
  run: Effect.gen(function*() {
    const quickjs = yield* Effect.mapError(
      NodeSandbox.makeQuickJs({ threads: concurrency }),
      ({ message }) => new BenchFailed({ reason: message })
    )
    const bubblewrap = yield* Effect.either(NodeSandbox.makeBubblewrap({ concurrency }))
    const results = yield* interleaved([
      timed("node -e", bare(process.execPath, ["-e", `console.log((${source})(1000))`], "")),
      timed("QuickJS", called(quickjs)),
      ...Either.match(bubblewrap, {
        onLeft: () => [],
        onRight: (sandbox) => [
          timed("bubblewrap, Node", called(sandbox)),
          timed("python3 -c", bare("/usr/bin/python3", ["-c", python], "1000")),
          timed("bubblewrap, Python", ran(sandbox))
        ]
      })
    ], { rounds: 11, warmup: 1 })
    const relative = (name: string) => results.get(name)?.relative ?? NaN
    const measured = Either.isRight(bubblewrap)
    return {
      table: [
        ["", "programs/s", "ms", "× node -e"],
        ...Array.fromIterable(results).map(([name, { ms, relative }]) => [
          name,
          (1000 / ms).toFixed(1),
          ms.toFixed(1),
          relative.toFixed(2)
        ])
      ],
      ratios: {
        quickjs_to_node: round(relative("QuickJS")),
        ...measured
          ? {
            bubblewrap_to_node: round(relative("bubblewrap, Node")),
            bubblewrap_to_python: round(relative("bubblewrap, Python") / relative("python3 -c"))
          }
          : {}
      },
      notes: [
        "A ratio is the time of a program over that of the same one without a sandbox: less is better.",
        ...measured ? [] : [`Without bubblewrap: ${bubblewrap.left.message}`]
      ]
    }
  })
}
