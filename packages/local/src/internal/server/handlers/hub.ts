/**
 * The tokenizers of the models under the paths of the Hugging Face hub. With `HF_ENDPOINT` set to this server,
 * `AutoTokenizer.from_pretrained("local/tiny")`, and so `get_tokenizer()` of the official client, find them here.
 */
import * as Effect from "effect/Effect"
import { Engine } from "../../../Engine.js"
import type { LocalModel } from "../../../LocalModel.js"
import * as LocalTokenizer from "../../../LocalTokenizer.js"
import { fingerprint } from "../identity.js"
import { HttpFailure, json, Reply } from "../message.js"
import type { Call } from "../router.js"
import { pattern } from "../router.js"

const encode = (value: unknown): Uint8Array => new TextEncoder().encode(`${JSON.stringify(value, undefined, 2)}\n`)

const { tokenizerConfig, tokenizerJson } = LocalTokenizer.huggingFaceFiles

type Files = ReadonlyMap<string, Uint8Array>

/** Of the models that read bytes. */
const byteFiles: Files = new Map([
  ["tokenizer.json", encode(tokenizerJson)],
  ["tokenizer_config.json", encode(tokenizerConfig)],
  // without one, transformers asks for the model type before it reads the tokenizer
  ["config.json", encode({ model_type: "gpt2", architectures: [] })]
])

const filesOf = ({ tokenizerFiles }: LocalModel): Files =>
  tokenizerFiles === undefined
    ? byteFiles
    : new Map(Array.from(tokenizerFiles, ([name, text]) => [name, new TextEncoder().encode(text)]))

/** The hub names revisions by commits; clients keep what they download under it. */
const revisionOf = (files: Files): string =>
  fingerprint(encode(Array.from(files.values(), fingerprint))).padEnd(40, "0").slice(0, 40)

const absent = (code: "RepoNotFound" | "EntryNotFound", what: string) =>
  new HttpFailure({ status: 404, detail: `${what} not found`, headers: { "x-error-code": code } })

const requireRepository = Effect.fnUntraced(function*(params: Readonly<Record<string, string>>) {
  const { models } = yield* Engine
  const id = `${params["organization"]}/${params["model"]}`
  const model = models.find(({ name }) => name === id)
  const files = model !== undefined ? filesOf(model) : id === LocalTokenizer.tokenizerId ? byteFiles : undefined
  return files === undefined ? yield* absent("RepoNotFound", `Repository ${id}`) : { id, files }
})

const info = Effect.fnUntraced(function*(_: Call, params: Readonly<Record<string, string>>) {
  const { files, id } = yield* requireRepository(params)
  return json(200, {
    id,
    modelId: id,
    sha: revisionOf(files),
    private: false,
    tags: [],
    siblings: Array.from(files.keys(), (rfilename) => ({ rfilename }))
  })
})

const tree = Effect.fnUntraced(function*(_: Call, params: Readonly<Record<string, string>>) {
  const { files } = yield* requireRepository(params)
  return json(
    200,
    Array.from(files, ([path, bytes]) => ({
      type: "file",
      path,
      size: bytes.length,
      oid: fingerprint(bytes)
    }))
  )
})

const resolve = Effect.fnUntraced(function*(_: Call, params: Readonly<Record<string, string>>) {
  const { files } = yield* requireRepository(params)
  const bytes = files.get(params["file"] ?? "")
  if (bytes === undefined) return yield* absent("EntryNotFound", `File ${params["file"]}`)
  return new Reply({
    status: 200,
    headers: {
      "content-type": "application/json",
      etag: `"${fingerprint(bytes)}"`,
      "x-repo-commit": revisionOf(files),
      // for HEAD as well, which has no body to count
      "content-length": String(bytes.length)
    },
    body: bytes
  })
})

const get = <E, R>(
  name: string,
  template: string,
  handle: (call: Call, params: Readonly<Record<string, string>>) => Effect.Effect<Reply, E, R>
) => ({
  name,
  method: "GET",
  pattern: pattern(template),
  params: Array.from(template.matchAll(/\{([a-z_]+)\}/g), (match) => match[1] ?? ""),
  auth: "none" as const,
  handle
})

/** @internal */
export const hubRoutes = [
  get("hubModel", "/api/models/{organization}/{model}", info),
  get("hubRevision", "/api/models/{organization}/{model}/revision/{revision}", info),
  get("hubTree", "/api/models/{organization}/{model}/tree/{revision}", tree),
  get("hubFile", "/{organization}/{model}/resolve/{revision}/{file}", resolve)
]
