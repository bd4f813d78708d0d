import { FileSystem } from "@effect/platform"
import { NodeContext, NodeHttpClient } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Either, Layer, Option, Schema, Stream } from "effect"
import { parquetWriteBuffer } from "hyparquet-writer"
import { createHash } from "node:crypto"
import { createServer } from "node:http"
import * as DataFile from "../src/DataFile.js"
import * as Dataset from "../src/Dataset.js"
import * as NodeHubDataset from "../src/NodeHubDataset.js"

const commit = "0123456789abcdef0123456789abcdef01234567"

const shard = (...questions: ReadonlyArray<string>) =>
  new Uint8Array(parquetWriteBuffer({
    columnData: [
      { name: "question", data: [...questions], type: "STRING" },
      { name: "answer", data: questions.map((_, i) => String(i)), type: "STRING" }
    ]
  }))

const contents: Readonly<Record<string, Uint8Array>> = {
  "README.md": new TextEncoder().encode("# made"),
  "main/train-00000-of-00002.parquet": shard("a", "b", "c"),
  "main/train-00001-of-00002.parquet": shard("d", "e"),
  "main/test-00000-of-00001.parquet": shard("z"),
  "socratic/train-00000-of-00001.parquet": shard("s")
}

/** A hub with one dataset on a free port of this machine. */
const hub = Effect.acquireRelease(
  Effect.async<{ readonly url: string; readonly fetched: Array<string>; readonly close: () => void }>((resume) => {
    const fetched: Array<string> = []
    const server = createServer((request, response) => {
      const url = request.url ?? ""
      const name = decodeURIComponent(/^\/datasets\/acme\/sums\/resolve\/[^/]+\/(.*)$/.exec(url)?.[1] ?? "")
      const content = contents[name]
      if (url.startsWith("/api/datasets/acme/sums/")) {
        const siblings = Object.entries(contents).map(([rfilename, bytes]) => ({
          rfilename,
          size: bytes.length,
          lfs: { sha256: createHash("sha256").update(bytes).digest("hex"), size: bytes.length }
        }))
        response.end(JSON.stringify({ sha: commit, siblings }))
      } else if (content !== undefined) {
        fetched.push(name)
        response.writeHead(200, { "content-length": content.length })
        response.end(content)
      } else {
        response.writeHead(404)
        response.end()
      }
    })
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      const port = address !== null && typeof address === "object" ? address.port : 0
      const close = () => {
        server.closeAllConnections()
        server.close()
      }
      resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, fetched, close }))
    })
  }),
  ({ close }) => Effect.sync(close)
)

const names = Object.keys(contents)

const Row = Schema.Struct({ question: Schema.String, answer: Schema.String })

describe("NodeHubDataset", () => {
  it("reads references as they are written", () => {
    const read = (text: string) => Option.getOrNull(NodeHubDataset.parse(text))
    assert.deepInclude(read("openai/gsm8k"), { repo: "openai/gsm8k", split: undefined })
    assert.deepInclude(read("openai/gsm8k:main/test"), { repo: "openai/gsm8k", config: "main", split: "test" })
    assert.deepInclude(read("org/data@v1.0:test"), { revision: "v1.0", config: undefined, split: "test" })
    for (const wrong of ["", "../up", "a/b/c", "a b", "a/b:x/y/z"]) assert.isNull(read(wrong), wrong)
  })

  it("chooses the files of a split, and says what there is instead", () => {
    const chosen = (options: Pick<NodeHubDataset.Reference, "config" | "split">, files = names) =>
      Either.merge(NodeHubDataset.choose(files, options))
    assert.deepStrictEqual(chosen({}), [
      "main/train-00000-of-00002.parquet",
      "main/train-00001-of-00002.parquet"
    ])
    assert.deepStrictEqual(chosen({ config: "socratic" }), ["socratic/train-00000-of-00001.parquet"])
    assert.strictEqual(chosen({ split: "dev" }), "it has no split dev, but test, train")
    assert.strictEqual(chosen({ config: "other" }), "it has no configuration other, but main, socratic")
    assert.deepStrictEqual(chosen({}, ["data/train-00000-of-00001.parquet", "test.jsonl"]), [
      "data/train-00000-of-00001.parquet"
    ])
    assert.deepStrictEqual(chosen({ split: "test" }, ["data/train.parquet", "test.jsonl"]), ["test.jsonl"])
    assert.strictEqual(
      chosen({}, ["a/train.parquet", "b/train.parquet"]),
      "it has several configurations; name one of a, b"
    )
    assert.strictEqual(chosen({}, ["README.md"]), "it has no Parquet, JSON or JSON lines files")
  })

  it.scoped("downloads a split once, and its files are one dataset", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const { fetched, url } = yield* hub
      const cacheDirectory = yield* fs.makeTempDirectoryScoped({ prefix: "effect-tinker-dataset-" })
      const settings = { hub: { cacheDirectory, endpoint: url } }
      const paths = yield* NodeHubDataset.files({ repo: "acme/sums" }, settings)
      assert.deepStrictEqual(fetched.sort(), ["main/train-00000-of-00002.parquet", "main/train-00001-of-00002.parquet"])
      const offline = { hub: { ...settings.hub, endpoint: "http://127.0.0.1:1", offline: true } }
      assert.deepStrictEqual(yield* NodeHubDataset.files({ repo: "acme/sums" }, offline), paths)

      const data = DataFile.parquet(paths, Row)
      const questions = (from?: Dataset.Position) =>
        Dataset.values(data, from === undefined ? undefined : { from }).pipe(
          Stream.map(({ question }) => question),
          Stream.runCollect,
          Effect.map(Chunk.toReadonlyArray)
        )
      assert.deepStrictEqual(yield* questions(), ["a", "b", "c", "d", "e"])
      // from the middle of the first file, and from the second
      assert.deepStrictEqual(yield* questions({ epoch: 0, index: 2, offset: 0 }), ["c", "d", "e"])
      assert.deepStrictEqual(yield* questions({ epoch: 0, index: 4, offset: 0 }), ["e"])
      const shuffled = yield* Stream.runCollect(Dataset.values(Dataset.shuffle(data, { seed: 1 })))
      assert.deepStrictEqual(Chunk.toReadonlyArray(shuffled).map(({ question }) => question).sort(), [
        "a",
        "b",
        "c",
        "d",
        "e"
      ])
      const missing = yield* Effect.flip(NodeHubDataset.files({ repo: "acme/sums", split: "dev" }, settings))
      assert.strictEqual(missing._tag, "SplitNotFound")
    }).pipe(Effect.provide(Layer.merge(NodeContext.layer, NodeHttpClient.layerUndici))))
})

describe("NodeHubDataset.parse", () => {
  it("a dataset of the hub by repository, revision, configuration and split", () => {
    const read = (text: string) => Option.getOrUndefined(NodeHubDataset.parse(text))
    const plain = { revision: undefined, config: undefined, split: undefined }
    assert.deepStrictEqual(read("openai/gsm8k"), { ...plain, repo: "openai/gsm8k" })
    assert.deepStrictEqual(read("squad:test"), { ...plain, repo: "squad", split: "test" })
    assert.deepStrictEqual(read("openai/gsm8k@refs/pr/1:main/test"), {
      repo: "openai/gsm8k",
      revision: "refs/pr/1",
      config: "main",
      split: "test"
    })
    for (const wrong of ["", "a/b/c", "../a", "a b", "a:", "a@"]) assert.isUndefined(read(wrong), wrong)
  })
})
