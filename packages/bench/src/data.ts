/**
 * `npm run bench -- data`: duplicates in training data, exact and near, by the megabytes and rows that a core reads a second, and
 * the memory of the index of near duplicates.
 */
import { DataFile, DataQuality, Dataset, Duplicates } from "@effect-tinker/cookbook"
import { FileSystem, Path } from "@effect/platform"
import { Effect, Schema, Stream } from "effect"
import { PCGRandom } from "effect/Utils"
import type { Bench } from "./Bench.js"
import { BenchFailed, round, sized } from "./Bench.js"

/** Rows of the file, which are chats of about 500 characters, and short rows in memory. */
const fileRows = sized(100_000, 500)
const shortRows = sized(1_000_000, 2000)

/** Every so many rows one is the one before it again, with one word changed. */
const every = 20

const random = new PCGRandom(1)
const words = Array.from({ length: 20_000 }, () => random.integer(36 ** 6).toString(36))
const text = (length: number) => {
  const chosen: Array<string> = []
  for (let i = 0; i < length; i++) chosen.push(words[random.integer(words.length)] ?? "")
  return chosen.join(" ")
}

const cpu = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1e6
}

/** CPU seconds of some work. */
const timed = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const start = cpu()
    const value = yield* work
    return [value, cpu() - start] as const
  })

export const bench: Bench = {
  summary: "duplicates of rows, exact and near: megabytes and rows per second of one core, and memory",
  run: Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const file = path.join(yield* fs.makeTempDirectoryScoped({ prefix: "effect-tinker-bench-" }), "rows.jsonl")
    const line = () =>
      JSON.stringify({ messages: [{ role: "user", content: text(30) }, { role: "assistant", content: text(42) }] })
    yield* fs.writeFileString(file, `${Array.from({ length: fileRows }, line).join("\n")}\n`)
    const megabytes = Number((yield* fs.stat(file)).size) / 1e6
    const rows = DataFile.jsonl(file, Schema.Unknown)

    const [, reading] = yield* timed(Stream.runDrain(Dataset.values(rows)))
    const [left, exact] = yield* timed(Stream.runCount(DataQuality.withoutDuplicates(rows, { exactOnly: true })))
    const strings = Array.from({ length: Math.min(fileRows, 20_000) }, () => text(72))
    const characters = strings.reduce((sum, one) => sum + one.length, 0) / 1e6
    const [, hashing] = yield* timed(Effect.sync(() => {
      const index = Duplicates.exact()
      for (const [n, one] of strings.entries()) index.add(one, n)
    }))

    const before = process.memoryUsage()
    const index = Duplicates.near()
    const near = yield* Effect.sync(() => {
      const start = cpu()
      let [found, planted] = [0, 0]
      let last = ""
      for (let n = 0; n < shortRows; n++) {
        const isPlanted = n % every === every - 1
        const row = isPlanted ? `${last} again` : text(20)
        last = row
        if (isPlanted) planted++
        if (index.add(row, n) !== undefined) found++
      }
      return { found, planted, seconds: cpu() - start }
    })
    const after = process.memoryUsage()
    const memory = (after.arrayBuffers + after.heapUsed - before.arrayBuffers - before.heapUsed) / 1e6
    if (left !== fileRows || near.found < 0.9 * near.planted || near.found > 1.01 * near.planted) {
      return yield* new BenchFailed({
        reason: `${left} of ${fileRows} rows left, ${near.found} of ${near.planted} found`
      })
    }
    return {
      table: [
        ["", "per second of a core", ""],
        [
          "a file read, without a look",
          `${(megabytes / reading).toFixed(0)} MB`,
          `${(fileRows / reading).toFixed(0)} rows`
        ],
        [
          "exact duplicates of the file",
          `${(megabytes / exact).toFixed(0)} MB`,
          `${(fileRows / exact).toFixed(0)} rows`
        ],
        [
          "exact, of texts in memory",
          `${(characters / hashing).toFixed(0)} MB`,
          `${(strings.length / hashing).toFixed(0)} rows`
        ],
        [
          `near duplicates of ${shortRows.toLocaleString("en-US")} short rows`,
          `${(shortRows / near.seconds).toFixed(0)} rows`,
          `${memory.toFixed(0)} MB of memory`
        ]
      ],
      ratios: { reading_to_exact: round(reading / exact) },
      notes: [
        `Of ${near.planted} rows that are another one with a word more, ${near.found} were found.`,
        "The time of a short row is with making it: 20 words."
      ]
    }
  }).pipe(Effect.catchTags({
    BadArgument: (error) => new BenchFailed({ reason: error.message }),
    SystemError: (error) => new BenchFailed({ reason: error.message })
  }))
}
