/**
 * `npm run bench -- --all [NAMES] [--record]`: every bench in a process of its own, and one table of their ratios beside
 * those of the last release. `--record` makes the measured ratios those of the last release: the version that is here.
 */
import { Command, FileSystem } from "@effect/platform"
import { Console, Duration, Effect, ParseResult, Schema } from "effect"
import { availableParallelism, cpus } from "node:os"
import { fileURLToPath } from "node:url"
import { BenchFailed, isSmoke, render } from "./Bench.js"
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

/** Longer than any bench takes on a busy machine: one that does not end is broken. */
const patience = Duration.minutes(isSmoke ? 5 : 60)

const measure = (name: string) =>
  Command.make(
    process.execPath,
    fileURLToPath(new URL("./main.js", import.meta.url)),
    name,
    ...(isSmoke ? ["--smoke"] : [])
  ).pipe(
    Command.stderr("inherit"),
    Command.lines,
    Effect.flatMap((lines) => Schema.decode(Measured)(lines.at(-1) ?? "")),
    Effect.map(({ ratios }): Ratios => ratios),
    Effect.timeout(patience),
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

/**
 * Where a bench, or a ratio of one, is better when it is lower. What is not named here, and `threads_2_ceiling`, which is
 * the machine's, is better when it is higher.
 */
const lower: ReadonlyMap<string, RegExp> = new Map([
  ["agents", /./],
  ["cluster", /^durable_to_plain$/],
  ["cookbook", /^(cpu|trainer)_to_/],
  ["engine", /^event_loop_/],
  ["fairness", /./],
  ["growth", /./],
  ["http2", /^upload_/],
  ["memory", /./],
  ["models", /_(peak_memory_to_torch|resident_to_file|load_to_read)_/],
  ["quantize", /^(perplexity|memory)_/],
  ["rendering", /^growth_/],
  ["size", /./],
  ["startup", /_to_node$|^to_node$/],
  ["studio", /^held_/],
  ["telemetry", /./],
  ["weights", /^memory_/]
])

/** How much worse a ratio may be than in the last release. */
const tolerance = 0.15

/**
 * The ratios that are worse than in the last release by more than 15 %: each needs a sentence in the notes of the release.
 *
 * @internal
 */
export const fallen = (release: Release, now: ReadonlyMap<string, Ratios | undefined>): ReadonlyArray<string> =>
  Array.from(now).flatMap(([bench, ratios]) =>
    Object.entries(ratios ?? {}).flatMap(([key, ratio]) => {
      const before = release.ratios[bench]?.[key]
      if (typeof before !== "number" || ratio === null || before <= 0) return []
      const isWorse = lower.get(bench)?.test(key) === true
        ? ratio > before * (1 + tolerance)
        : ratio < before * (1 - tolerance)
      return isWorse ? [`${bench} ${key}: ${before} in ${release.version}, ${ratio} now`] : []
    })
  )

/** Benches that need more than `npm ci` installs: they run alone, when they are named. */
const leftOut: ReadonlyMap<string, string> = new Map([
  ["models", "installs PyTorch"],
  ["quantize", "downloads a real model"],
  ["tokenizer", "installs vocabularies of real models"],
  ["rendering", "installs vocabularies of real models"]
])

/** Runs each bench as small as it goes, two at once; the figures mean nothing. The Python SDK is left out everywhere. */
const smoke = Effect.fnUntraced(function*(asked: ReadonlyArray<string>) {
  const names = asked.length > 0 ? asked : benches.names.filter((name) => !leftOut.has(name))
  if (asked.length === 0) {
    for (const [name, reason] of leftOut) yield* Console.log(`${name}: left out, it ${reason}`)
  }
  const broken = yield* Effect.filter(names, (name) =>
    Effect.gen(function*() {
      const [took, measured] = yield* Effect.timed(measure(name))
      yield* Console.log(
        `${name}: ${measured._tag === "Some" ? "runs" : "FAILED"}, ${Duration.toSeconds(took).toFixed()} s`
      )
      return measured._tag === "None"
    }), { concurrency: 2 })
  if (broken.length > 0) return yield* failed(`${broken.join(", ")} did not run`)
})

/** @internal */
export const run = Effect.fnUntraced(function*(args: ReadonlyArray<string>) {
  const record = args.includes("--record")
  const asked = args.filter((arg) => arg !== "--record" && arg !== "--smoke")
  const unknown = asked.filter((name) => !benches.names.includes(name))
  if (unknown.length > 0) return yield* failed(`There is no bench named ${unknown.join(", ")}.`)
  if (isSmoke) {
    if (record) return yield* failed("the figures of --smoke mean nothing: they cannot be recorded")
    return yield* smoke(asked)
  }
  const release = yield* read(file, Stored)
  const now = new Map<string, Ratios | undefined>()
  for (const name of asked.length === 0 ? benches.names : asked) {
    yield* Console.error(`# ${name}`)
    const measured = yield* measure(name)
    now.set(name, measured._tag === "Some" ? measured.value : undefined)
  }
  yield* Console.log(render(table(release, now)))
  for (const line of fallen(release, now)) yield* Console.log(`needs a sentence: ${line}`)
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
