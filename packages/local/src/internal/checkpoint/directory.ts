/**
 * A Hugging Face directory: `config.json`, safetensors in 16 or 32 bits, `tokenizer.json` and a chat template.
 */
import * as Safetensors from "@effect-tinker/weights/Safetensors"
import type * as SafetensorsHeader from "@effect-tinker/weights/SafetensorsHeader"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { ModelUnavailable } from "../../EngineError.js"
import * as LocalSafetensors from "../../Safetensors.js"
import { ModelConfig, storesGainsLessOne } from "./config.js"
import type { Services, Source } from "./source.js"

const Config = Schema.parseJson(ModelConfig)

const GenerationConfig = Schema.parseJson(Schema.Struct({
  eos_token_id: Schema.optionalWith(Schema.Union(Schema.Int, Schema.Array(Schema.Int)), { nullable: true })
}))

const Json = Schema.parseJson(Schema.Unknown)

const listed = (tokens: number | ReadonlyArray<number> | undefined): ReadonlyArray<number> =>
  tokens === undefined ? [] : typeof tokens === "number" ? [tokens] : tokens

// Values read at a time: a millisecond of work.
const chunkValues = 1 << 19

const isGain = (tensor: string): boolean => /norm\.weight$/.test(tensor)

/** Opens a directory; `name` is what errors call the model. @internal */
export const fromDirectory: (
  directory: string,
  name: string
) => Effect.Effect<Source, ModelUnavailable, Services> = Effect.fnUntraced(function*(directory, name) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const refuse = (description: string) => new ModelUnavailable({ model: name, description })
  const at = (file: string) => path.join(directory, file)
  const text = (file: string) =>
    Effect.mapError(fs.readFileString(at(file)), (error) => refuse(`${at(file)} cannot be read: ${error.message}`))
  const optionalText = (file: string) =>
    Effect.flatMap(
      Effect.orElseSucceed(fs.exists(at(file)), () => false),
      (exists) => exists ? Effect.asSome(text(file)) : Effect.succeedNone
    )
  const decode = <A, I>(schema: Schema.Schema<A, I>, file: string, content: I) =>
    Effect.mapError(
      Schema.decode(schema)(content),
      (error) => refuse(`${file}: ${ParseResult.TreeFormatter.formatErrorSync(error)}`)
    )
  const json = Effect.fnUntraced(function*(file: string) {
    const content = yield* optionalText(file)
    return Option.isNone(content) ? undefined : yield* decode(Json, file, content.value)
  })

  const config = yield* decode(Config, "config.json", yield* text("config.json"))
  const generation = yield* optionalText("generation_config.json")
  const generationEnds = Option.isNone(generation)
    ? undefined
    : (yield* decode(GenerationConfig, "generation_config.json", generation.value)).eos_token_id

  const tokenizerFiles = new Map<string, string>()
  for (const file of ["config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]) {
    const content = yield* optionalText(file)
    if (Option.isSome(content)) tokenizerFiles.set(file, content.value)
  }
  const tokenizerJson = yield* json("tokenizer.json")
  if (tokenizerJson === undefined) return yield* refuse(`${at("tokenizer.json")} is missing`)

  const reason = (error: { readonly message: string }) => refuse(error.message)
  const withServices = Effect.provide(yield* Effect.context<Services>())
  const shards = yield* Effect.mapError(Safetensors.shardNames(directory), reason)
  const tensors = new Map<string, SafetensorsHeader.TensorInfo & { readonly file: string }>()
  const bytesBy = new Map<string, number>()
  for (const shard of shards) {
    const file = at(shard)
    const opened = yield* Effect.scoped(Effect.mapError(Safetensors.open(file), reason))
    for (const tensor of opened.tensors) {
      if (tensors.has(tensor.name)) return yield* refuse(`${tensor.name} is in two files`)
      tensors.set(tensor.name, { ...tensor, file })
      bytesBy.set(tensor.dtype, (bytesBy.get(tensor.dtype) ?? 0) + tensor.bytes)
    }
  }
  const [storedAs] = [...bytesBy].sort(([, a], [, b]) => b - a)[0] ?? ["F32"]
  const lessOne = storesGainsLessOne(config)

  return {
    config,
    endTokens: [...listed(config.eos_token_id), ...listed(generationEnds)],
    tokenizer: {
      tokenizerJson,
      tokenizerConfig: yield* json("tokenizer_config.json"),
      chatTemplate: tokenizerFiles.get("chat_template.jinja")
    },
    tokenizerFiles,
    shapes: new Map([...tensors].map(([tensor, { shape }]) => [tensor, shape])),
    precision: storedAs === "BF16" ? "bf16" : storedAs === "F16" ? "f16" : "f32",
    read: (tensor, receive) =>
      Effect.gen(function*() {
        const entry = tensors.get(tensor)
        if (entry === undefined) return yield* refuse(`no file has the tensor ${tensor}`)
        const width = LocalSafetensors.bytesPerValue(entry.dtype)
        if (width === undefined) {
          return yield* refuse(`${tensor} has dtype ${entry.dtype}, expected F32, F16 or BF16`)
        }
        const file = yield* Effect.mapError(Safetensors.open(entry.file), reason)
        const count = entry.bytes / width
        const columns = entry.shape.at(-1) ?? 1
        const isPlain = entry.dtype === storedAs && width === 2 && !isGain(tensor)
        // whole rows, so that they can be put into place in one go
        const step = Math.max(1, Math.floor(chunkValues / columns)) * columns
        for (let from = 0; from < count; from += step) {
          const values = Math.min(step, count - from)
          const bytes = yield* Effect.mapError(file.read(entry.start + from * width, values * width), reason)
          if (isPlain) receive(new Uint16Array(bytes.buffer, bytes.byteOffset, values), from)
          else {
            const floats = LocalSafetensors.toFloats(entry.dtype, bytes)
            receive(lessOne && isGain(tensor) ? floats.map((value) => 1 + value) : floats, from)
          }
          yield* Effect.yieldNow()
        }
      }).pipe(Effect.scoped, withServices)
  }
})
