import { DataFile, Dataset, Example } from "@effect-tinker/cookbook"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, FastCheck as fc, Schema, Stream } from "effect"
import { parquetWriteBuffer } from "hyparquet-writer"
import { gzipSync } from "node:zlib"

const collect = <A, E, R>(stream: Stream.Stream<A, E, R>) =>
  Effect.map(Stream.runCollect(stream), Chunk.toReadonlyArray)
const numbers = (count: number) => Dataset.fromIterable(Array.from({ length: count }, (_, i) => i))
/** The same rows without access by number. */
const streamed = (count: number) => Dataset.fromStream(() => Stream.range(0, count - 1))

const file = (content: string | Uint8Array, name = "rows.jsonl") =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = `${yield* fs.makeTempDirectoryScoped()}/${name}`
    yield* typeof content === "string" ? fs.writeFileString(path, content) : fs.writeFile(path, content)
    return path
  })

const Row = Schema.Struct({ n: Schema.Number })
const jsonl = (rows: ReadonlyArray<unknown>) => rows.map((row) => `${JSON.stringify(row)}\n`).join("")

/** Read from every position it passes, a dataset goes on as if it had never stopped. */
const resumable = <A, E, R>(dataset: Dataset.Dataset<A, E, R>, epochs = 2) =>
  Effect.gen(function*() {
    const whole = yield* collect(Dataset.rows(dataset, { epochs }))
    for (let i = 0; i < whole.length; i += Math.max(1, Math.floor(whole.length / 13))) {
      const json = JSON.stringify(whole[i]?.next)
      const from = Schema.decodeUnknownSync(Dataset.Position)(JSON.parse(json))
      const rest = yield* collect(Dataset.rows(dataset, { from, epochs }))
      assert.deepStrictEqual(JSON.stringify(rest), JSON.stringify(whole.slice(i + 1)), `from ${json}`)
    }
    return whole
  })

const valuesOf = <A>(rows: ReadonlyArray<Dataset.Row<A>>) =>
  rows.flatMap((row) => row._tag === "Kept" ? [row.value] : [])

describe("Dataset", () => {
  it.scoped("a compressed file goes on from every position, and a damaged one fails", () =>
    Effect.gen(function*() {
      const packed = gzipSync(jsonl(Array.from({ length: 3000 }, (_, n) => ({ n, text: `row ${n}` }))))
      const lines = DataFile.jsonl(yield* file(packed, "rows.jsonl.gz"), Row).pipe(Dataset.map(({ n }) => n))
      assert.deepStrictEqual(yield* collect(Dataset.values(lines)), Array.from({ length: 3000 }, (_, n) => n))
      yield* resumable(lines)
      yield* resumable(Dataset.shuffle(lines, { seed: 1, window: 100 }))
      const cut = DataFile.jsonl(yield* file(packed.subarray(0, packed.length / 2), "cut.jsonl.gz"), Row)
      const error = yield* Effect.flip(collect(Dataset.values(cut)))
      assert.deepInclude(error, { reason: "InvalidData" })
    }).pipe(Effect.provide(NodeContext.layer)))

  it.effect("every source and combinator can be resumed from every row", () =>
    Effect.gen(function*() {
      const path = yield* file(jsonl(Array.from({ length: 100 }, (_, n) => n % 9 === 4 ? { m: n } : { n })))
      const lines = DataFile.jsonl(path, Row).pipe(Dataset.map(({ n }) => n))
      const datasets = {
        memory: numbers(50),
        stream: streamed(50),
        lines,
        shuffled: Dataset.shuffle(numbers(50), { seed: 1 }),
        shuffledLines: Dataset.shuffle(lines, { seed: 1 }),
        windows: Dataset.shuffle(streamed(50), { seed: 1, window: 8 }),
        windowsOfLines: Dataset.shuffle(lines, { seed: 1, window: 7 }),
        split: Dataset.split(lines, { share: 0.3 })[1],
        splitShuffled: Dataset.shuffle(Dataset.split(lines, { share: 0.3 })[0], { seed: 2 }),
        taken: Dataset.take(Dataset.split(lines, { share: 0.5 })[0], 20),
        first: Dataset.interleave([numbers(20), lines, streamed(40)], { seed: 3, weights: [1, 2, 3] }),
        all: Dataset.interleave([numbers(20), Dataset.shuffle(lines, { seed: 1 })], { seed: 3, until: "all" }),
        nested: Dataset.shuffle(Dataset.interleave([numbers(9), lines], { until: "all" }), { seed: 5, window: 16 })
      }
      for (const [name, dataset] of Object.entries(datasets)) {
        const rows = yield* resumable<number, unknown, FileSystem.FileSystem>(dataset)
        assert.isAbove(rows.length, 9, name)
      }
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer)))

  it.effect("a shuffle is a permutation, decided by the seed and the epoch", () =>
    Effect.gen(function*() {
      for (const dataset of [numbers(500), streamed(500)]) {
        const order = (seed: number, epoch: number) =>
          collect(Dataset.values(Dataset.shuffle(dataset, { seed }), { from: Dataset.start(epoch), epochs: epoch + 1 }))
        const first = yield* order(1, 0)
        assert.deepStrictEqual([...first].sort((a, b) => a - b), Array.from({ length: 500 }, (_, i) => i))
        assert.deepStrictEqual(yield* order(1, 0), first)
        assert.notDeepEqual(yield* order(1, 1), first)
        assert.notDeepEqual(yield* order(2, 0), first)
      }
    }))

  it.effect("interleaves by weight, and reads each dataset whole when asked to", () =>
    Effect.gen(function*() {
      const letters = Dataset.fromStream(() => Stream.range(0, 9_999).pipe(Stream.as("a")))
      const others = Dataset.fromStream(() => Stream.range(0, 9_999).pipe(Stream.as("b")))
      const drawn = yield* collect(
        Dataset.values(Dataset.interleave([letters, others], { weights: [1, 3], seed: 7 })).pipe(Stream.take(4_000))
      )
      const share = drawn.filter((letter) => letter === "a").length / drawn.length
      assert.closeTo(share, 0.25, 0.03)
      const all = yield* collect(Dataset.values(Dataset.interleave([numbers(5), streamed(11)], { until: "all" })))
      assert.strictEqual(all.length, 16)
    }))

  it.effect("rows that cannot be used are counted with their reason and place", () =>
    Effect.gen(function*() {
      const path = yield* file(`{"n":1}\n\n{"n":"x"}\nnot json\n{"n":${"1".repeat(200)}}\n{"n":4}`)
      const dataset = DataFile.jsonl(path, Row, { maxRowBytes: 100 }).pipe(
        Dataset.mapEffect((row) =>
          row.n === 4 ? new Dataset.Skip({ reason: "empty", detail: "four" }) : Effect.succeed(row)
        )
      )
      const { examples, kept, skipped } = yield* Dataset.inspect(dataset)
      assert.strictEqual(kept, 1)
      assert.deepStrictEqual(skipped, { malformed: 2, too_long: 1, empty: 1 })
      assert.deepStrictEqual(examples.map(({ origin }) => origin.row), [1, 2, 3, 4])
      assert.include(examples[0]?.detail ?? "", "Expected number")
      assert.strictEqual(examples[2]?.detail, "the line has 207 bytes, of 100 allowed")
      const shuffled = yield* Dataset.inspect(Dataset.shuffle(dataset, { seed: 1 }))
      assert.deepStrictEqual(shuffled.skipped, skipped)
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer)))

  it.effect("a row that would end the stack is skipped: chats and whole files, where levels are in what nobody describes", () =>
    Effect.gen(function*() {
      const deep = (levels: number) => `${`{"a":`.repeat(levels)}1${"}".repeat(levels)}`
      const chat = (more: string) =>
        `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]${more}}`
      const tools = (levels: number) =>
        chat(`,"tools":[{"type":"function","function":{"name":"f","description":"","parameters":${deep(levels)}}}]`)
      const call = `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",` +
        `"function":{"name":"f","arguments":${deep(100_000)}}}]}]}`
      const brackets = chat(`,"note":${JSON.stringify("[{\"".repeat(500))}`)
      const rows = [chat(""), tools(96), tools(97), tools(100_000), call, "[".repeat(100_000), brackets]
      const expected = ["Kept", "Kept", "Skipped", "Skipped", "Skipped", "Skipped", "Kept"]
      const path = yield* file(rows.join("\n"))
      const found = yield* collect(Dataset.rows(Example.chats(path)))
      assert.deepStrictEqual(found.map(({ _tag }) => _tag), expected)
      assert.deepStrictEqual(
        found.flatMap((row) => row._tag === "Skipped" ? [row.reason, row.detail] : []),
        ["malformed", "malformed", "malformed", "malformed"].flatMap((reason) => [
          reason,
          "nested more than 100 levels deep"
        ])
      )
      const whole = yield* file(`[${[chat(""), tools(100_000)].join(",")}]`)
      const error = yield* Effect.flip(collect(Dataset.rows(DataFile.json(whole, Schema.Unknown))))
      assert.include(String(error), "nested more than 101 levels deep")
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer)))

  it.effect("a row that is not UTF-8 is skipped and counted, and not trained on with other characters in its place", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* file("")
      const bytes = (...parts: ReadonlyArray<string | number>) =>
        Uint8Array.from(
          parts.flatMap((part) => typeof part === "number" ? [part] : Array.from(new TextEncoder().encode(part)))
        )
      const Text = Schema.Struct({ t: Schema.String })
      yield* fs.writeFile(
        path,
        bytes("{\"t\":\"caf", 0xe9, "\"}\n{\"t\":\"café\"}\n{\"t\":\"", 0xed, 0xa0, 0x80, "\"}\n")
      )
      const { examples, kept, skipped } = yield* Dataset.inspect(DataFile.jsonl(path, Text))
      assert.strictEqual(kept, 1)
      assert.deepStrictEqual(skipped, { malformed: 2 })
      for (const { detail } of examples) assert.include(detail, "not UTF-8")
      yield* fs.writeFile(path, bytes("[{\"t\":\"caf", 0xe9, "\"}]"))
      assert.include(String(yield* Effect.flip(Dataset.inspect(DataFile.json(path, Text)))), "not UTF-8")
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer)))

  it.effect("batches stay within an epoch; leftovers are reported", () =>
    Effect.gen(function*() {
      const batches = yield* collect(Dataset.batches(numbers(7), { size: 3, epochs: 2 }))
      assert.deepStrictEqual(batches.map(({ items }) => items), [[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5], []])
      assert.deepStrictEqual(batches.map(({ skipped }) => Dataset.countSkipped(skipped)), [
        {},
        {},
        { remainder: 1 },
        {},
        { remainder: 1 }
      ])
      const kept = yield* collect(Dataset.batches(numbers(7), { size: 3, partial: "keep" }))
      assert.deepStrictEqual(kept.map(({ items }) => items.length), [3, 3, 1])
      const from = batches[1]?.next
      const rest = yield* collect(Dataset.batches(numbers(7), { size: 3, epochs: 2, from }))
      assert.deepStrictEqual(rest.map(({ items }) => items), [[0, 1, 2], [3, 4, 5], []])
    }))

  it.effect("a batch has one row at least, and whole ones", () =>
    Effect.gen(function*() {
      const sizes = (size: number) =>
        Effect.map(
          Stream.runCollect(Stream.take(Dataset.batches(Dataset.fromIterable([1, 2, 3]), { size }), 3)),
          (batches) => Chunk.toReadonlyArray(batches).map(({ items }) => items)
        )
      assert.deepStrictEqual(yield* sizes(0), [[1], [2], [3]])
      assert.deepStrictEqual(yield* sizes(-4), [[1], [2], [3]])
      // The row that is left over is reported with a batch of nothing.
      assert.deepStrictEqual(yield* sizes(2.9), [[1, 2], []])
    }))

  it.effect("look-ahead is bounded and keeps the order", () =>
    Effect.gen(function*() {
      let started = 0
      let most = 0
      let done = 0
      const dataset = Dataset.mapEffect(streamed(40), (n) =>
        Effect.gen(function*() {
          most = Math.max(most, ++started - done)
          yield* Effect.yieldNow()
          return n
        }), { lookAhead: 4 })
      const values = yield* collect(
        Dataset.values(dataset).pipe(Stream.tap(() => Effect.sync(() => done++)))
      )
      assert.deepStrictEqual(values, Array.from({ length: 40 }, (_, i) => i))
      // those at work, those that wait to be taken, and the one being handed over
      assert.isAtMost(most, 2 * 4 + 2)
    }))

  it.effect("reads Parquet in order and by number", () =>
    Effect.gen(function*() {
      const rows = Array.from({ length: 700 }, (_, n) => n)
      const buffer = parquetWriteBuffer({
        columnData: [
          { name: "n", data: rows, type: "INT32" },
          { name: "text", data: rows.map((n) => `row ${n}`), type: "STRING" }
        ],
        rowGroupSize: 100
      })
      const path = yield* file(new Uint8Array(buffer), "rows.parquet")
      const dataset = DataFile.parquet(path, Schema.Struct({ n: Schema.Number, text: Schema.String })).pipe(
        Dataset.map(({ n, text }) => `${n}: ${text}`)
      )
      const expected = rows.map((n) => `${n}: row ${n}`)
      assert.deepStrictEqual(valuesOf(yield* resumable(dataset, 1)), expected)
      const shuffled = yield* collect(Dataset.values(Dataset.take(Dataset.shuffle(dataset, { seed: 1 }), 20)))
      assert.isTrue(shuffled.every((text) => expected.includes(text)))
      assert.notDeepEqual(shuffled, expected.slice(0, 20))
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer)))

  it.effect("cuts lines wherever the file's chunks end", () =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(
          fc.array(fc.record({ n: fc.integer(), s: fc.string({ maxLength: 40 }) }), { maxLength: 30 }),
          fc.integer({ min: 1, max: 50 }),
          (rows, chunkSize) =>
            Effect.gen(function*() {
              const bytes = new TextEncoder().encode(jsonl(rows))
              const chunks = Array.from(
                { length: Math.ceil(bytes.length / chunkSize) },
                (_, i) => bytes.subarray(i * chunkSize, (i + 1) * chunkSize)
              )
              const fs = FileSystem.makeNoop({ stream: () => Stream.fromIterable(chunks) })
              const read = yield* collect(Dataset.values(DataFile.jsonl("x", Schema.Struct({ n: Schema.Number }))))
                .pipe(
                  Effect.provideService(FileSystem.FileSystem, fs)
                )
              assert.deepStrictEqual(read.map(({ n }) => n), rows.map(({ n }) => n))
            }).pipe(Effect.runPromise)
        ),
        { numRuns: 60 }
      )
    ))
})

describe("Example", () => {
  it.effect("reads the spellings of chats that are in use", () =>
    Effect.gen(function*() {
      const path = yield* file(jsonl([
        { messages: [{ role: "user", content: "hi" }, { role: "assistant", content: "ho", reasoning_content: "hm" }] },
        { conversations: [{ from: "human", value: "hi" }, { from: "gpt", value: "ho" }] },
        {
          messages: [{
            role: "assistant",
            content: null,
            tool_calls: [{ id: "c1", type: "function", function: { name: "add", arguments: { a: 1 } } }]
          }, { role: "tool", content: "2", tool_call_id: "c1" }],
          tools: [{ type: "function", function: { name: "add", description: "Adds", parameters: {} } }]
        },
        { messages: [{ role: "user", content: [{ type: "image_url", image_url: "…" }] }] },
        { chat: [] }
      ]))
      const rows = yield* collect(Dataset.rows(Example.chats(path)))
      assert.deepStrictEqual(rows.map((row) => row._tag === "Kept" ? row.value.messages.length : row.reason), [
        2,
        2,
        2,
        "malformed",
        "malformed"
      ])
      const [first, second, third] = valuesOf(rows)
      assert.deepStrictEqual(first?.messages[1]?.content, [{ type: "thinking", thinking: "hm" }, {
        type: "text",
        text: "ho"
      }])
      assert.deepStrictEqual(second?.messages[0], { role: "user", content: "hi" })
      assert.deepStrictEqual(third?.messages[0]?.toolCalls, [{ id: "c1", name: "add", arguments: "{\"a\":1}" }])
      assert.strictEqual(third?.tools?.[0]?.name, "add")
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer)))

  it.effect("reads preferences with a prompt or with a shared beginning", () =>
    Effect.gen(function*() {
      const path = yield* file(jsonl([
        { prompt: "q", chosen: "a", rejected: "b" },
        {
          chosen: [{ role: "user", content: "q" }, { role: "assistant", content: "a" }],
          rejected: [{ role: "user", content: "q" }, { role: "assistant", content: "b" }]
        },
        { chosen: "a", rejected: "b" }
      ]))
      const rows = yield* collect(Dataset.rows(Example.preferences(path)))
      const [first, second] = valuesOf(rows)
      assert.deepStrictEqual(first, second)
      assert.deepStrictEqual(first?.prompt, [{ role: "user", content: "q" }])
      assert.strictEqual(rows[2]?._tag, "Skipped")
    }).pipe(Effect.scoped, Effect.provide(NodeContext.layer)))
})
