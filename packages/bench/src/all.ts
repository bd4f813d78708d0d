/**
 * `npm run bench -- --all [NAMES] [--record]`: every bench in a process of its own, and one table of their ratios beside
 * those of the last release. `--record` makes the measured ratios those of the last release: the version that is here.
 */
import { Command, FileSystem } from "@effect/platform"
import { Console, Effect, ParseResult, Schema } from "effect"
import { availableParallelism, cpus } from "node:os"
import { fileURLToPath } from "node:url"
import { BenchFailed, render } from "./Bench.js"
import * as benches from "./benches.js"

const Ratios = Schema.Record({ key: Schema.String, value: Schema.NullOr(Schema.Number) })

/** The last line of a bench. A ratio that could not be measured, as without Python, is `null`. */
const Measured = Schema.parseJson(Schema.Struct({ bench: Schema.String, ratios: Ratios }))

/** Ratios by bench; a bench that was not measured is not named. */
export const Release = Schema.Struct({
  version: Schema.String,
  /** What they were measured on. */
  machine: Schema.String,
  ratios: Schema.Record({ key: Schema.String, value: Ratios })
})

type Release = typeof Release.Type
type Ratios = typeof Ratios.Type

const file = fileURLToPath(new URL("../releases.json", import.meta.url))
const Stored = Schema.parseJson(Release, { space: 2 })

const Manifest = Schema.parseJson(Schema.Struct({ version: Schema.String }))
const manifest = fileURLToPath(new URL("../../tinker/package.json", import.meta.url))

const machine = () => `${cpus()[0]?.model ?? "unknown"}, ${availableParallelism()} cores, Node ${process.version}`

const failed = (reason: string) => new BenchFailed({ reason })

const read = <A>(path: string, schema: Schema.Schema<A, string>) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path)).pipe(
    Effect.flatMap(Schema.decode(schema)),
    Effect.mapError((error) =>
      failed(
        `${path}: ${error._tag === "ParseError" ? ParseResult.TreeFormatter.formatErrorSync(error) : error.message}`
      )
    )
  )

const measure = (name: string) =>
  Command.make(process.execPath, fileURLToPath(new URL("./main.js", import.meta.url)), name).pipe(
    Command.stderr("inherit"),
    Command.lines,
    Effect.flatMap((lines) => Schema.decode(Measured)(lines.at(-1) ?? "")),
    Effect.map(({ ratios }): Ratios => ratios),
    Effect.option
  )

const shown = (ratio: number | null | undefined): string => ratio === undefined || ratio === null ? "" : String(ratio)

const change = (before: number | null | undefined, now: number | null | undefined): string => {
  if (typeof before !== "number" || typeof now !== "number" || before === 0) return ""
  const percent = Math.round((now / before - 1) * 100)
  return percent === 0 ? "=" : `${percent > 0 ? "+" : ""}${percent} %`
}

/**
 * One line for each ratio that is measured now or was measured for the release.
 *
 * @internal
 */
export const table = (
  release: Release,
  now: ReadonlyMap<string, Ratios | undefined>
): ReadonlyArray<ReadonlyArray<string>> => [
  ["bench", "ratio", release.version, "now", "change"],
  ...Array.from(now).flatMap(([bench, ratios]) => {
    const before = release.ratios[bench] ?? {}
    const keys = new Set([...Object.keys(ratios ?? {}), ...Object.keys(before)])
    if (ratios === undefined) return [[bench, "did not run", "", "", ""]]
    return Array.from(keys, (key) => [
      bench,
      key,
      shown(before[key]),
      shown(ratios[key]),
      change(before[key], ratios[key])
    ])
  })
]

/** @internal */
export const run = Effect.fnUntraced(function*(args: ReadonlyArray<string>) {
  const record = args.includes("--record")
  const asked = args.filter((arg) => arg !== "--record")
  const unknown = asked.filter((name) => !benches.names.includes(name))
  if (unknown.length > 0) return yield* failed(`There is no bench named ${unknown.join(", ")}.`)
  const release = yield* read(file, Stored)
  const now = new Map<string, Ratios | undefined>()
  for (const name of asked.length === 0 ? benches.names : asked) {
    yield* Console.error(`# ${name}`)
    const measured = yield* measure(name)
    now.set(name, measured._tag === "Some" ? measured.value : undefined)
  }
  yield* Console.log(render(table(release, now)))
  const ran = Object.fromEntries(
    Array.from(now).flatMap(([name, ratios]) => ratios === undefined ? [] : [[name, ratios]])
  )
  yield* Console.log(`\n${JSON.stringify({ release: release.version, benches: ran })}`)
  if (!record) return
  const { version } = yield* read(manifest, Manifest)
  // What was not measured this time is kept, as long as it is of the same release.
  const kept = version === release.version ? release.ratios : {}
  const recorded: Release = { version, machine: machine(), ratios: { ...kept, ...ran } }
  const text = yield* Effect.orDie(Schema.encode(Stored)(recorded))
  const fs = yield* FileSystem.FileSystem
  yield* Effect.mapError(fs.writeFileString(file, `${text}\n`), (error) => failed(error.message))
})
