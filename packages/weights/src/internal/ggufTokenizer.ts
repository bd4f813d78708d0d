/**
 * A byte-level BPE vocabulary as llama.cpp wants it: tokens, their kinds, merges, and the name of the pre-tokenizer it
 * has built in.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { InvalidFile, UnsupportedFormat } from "../WeightsError.js"
import * as format from "./ggufFormat.js"
import { nameOf } from "./preTokenizers.js"

const TokenizerJson = Schema.parseJson(Schema.Struct({
  model: Schema.Struct({
    type: Schema.optional(Schema.String),
    vocab: Schema.Record({ key: Schema.String, value: Schema.NonNegativeInt }),
    merges: Schema.Array(Schema.Union(Schema.String, Schema.Tuple(Schema.String, Schema.String)))
  }),
  added_tokens: Schema.optionalWith(
    Schema.Array(Schema.Struct({ id: Schema.NonNegativeInt, content: Schema.String, special: Schema.Boolean })),
    { default: () => [] }
  ),
  pre_tokenizer: Schema.optionalWith(Schema.Unknown, { default: () => null })
}))

const NamedToken = Schema.Union(Schema.String, Schema.Struct({ content: Schema.String }))
const TokenizerConfig = Schema.parseJson(Schema.Struct({
  bos_token: Schema.optional(Schema.NullOr(NamedToken)),
  eos_token: Schema.optional(Schema.NullOr(NamedToken)),
  pad_token: Schema.optional(Schema.NullOr(NamedToken)),
  add_bos_token: Schema.optional(Schema.NullOr(Schema.Boolean)),
  chat_template: Schema.optional(Schema.Unknown)
}))

const kind = { normal: 1, control: 3, userDefined: 4, unused: 5 } as const

/** The tokenizer of another file, as it is there. @internal */
export const carried = (
  metadata: ReadonlyMap<string, number | boolean | string | ReadonlyArray<number> | ReadonlyArray<string>>
): Readonly<Record<string, format.Value>> =>
  Object.fromEntries(
    [...metadata].flatMap(([key, value]) => {
      if (!key.startsWith("tokenizer.")) return []
      const entry: format.Value | undefined = typeof value === "string"
        ? format.string(value)
        : typeof value === "boolean"
        ? format.bool(value)
        : typeof value === "number"
        ? format.u32(value)
        : arrayOf(key, value)
      return entry === undefined ? [] : [[key, entry] as const]
    })
  )

const arrayOf = (key: string, values: ReadonlyArray<number> | ReadonlyArray<string>): format.Value | undefined => {
  const strings = values.filter((value) => typeof value === "string")
  if (strings.length === values.length) return { type: "strings", value: strings }
  const numbers = values.filter((value) => typeof value === "number")
  return { type: key.endsWith(".scores") ? "f32s" : "i32s", value: numbers }
}

/** @internal */
export const metadata: (options: {
  readonly directory: string
  readonly vocabularySize: number
  readonly preTokenizer: string | undefined
}) => Effect.Effect<
  Readonly<Record<string, format.Value>>,
  InvalidFile | UnsupportedFormat,
  FileSystem.FileSystem | Path.Path
> = Effect.fnUntraced(function*(options) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const file = path.join(options.directory, "tokenizer.json")
  const invalid = (description: string) => new InvalidFile({ path: file, description })
  const text = yield* Effect.mapError(fs.readFileString(file), () => invalid("the model needs a tokenizer.json"))
  const tokenizer = yield* Either.mapLeft(
    ParseResult.decodeUnknownEither(TokenizerJson)(text),
    () => invalid("not a byte-level BPE tokenizer")
  )
  if (tokenizer.model.type !== undefined && tokenizer.model.type !== "BPE") {
    return yield* new UnsupportedFormat({
      description: `${file}: ${tokenizer.model.type} tokenizers cannot be written yet`
    })
  }
  const pre = options.preTokenizer ?? nameOf(tokenizer.pre_tokenizer)
  if (pre === undefined) {
    return yield* new UnsupportedFormat({
      description: `${file}: its pre-tokenizer has no known name in llama.cpp; give one as \`preTokenizer\``
    })
  }
  const config = yield* fs.readFileString(path.join(options.directory, "tokenizer_config.json")).pipe(
    Effect.map((json) => Either.getRight(ParseResult.decodeUnknownEither(TokenizerConfig)(json))),
    Effect.orElseSucceed(() => Option.none())
  )
  const template = yield* Effect.option(fs.readFileString(path.join(options.directory, "chat_template.jinja")))
  const ids = new Map(Object.entries(tokenizer.model.vocab))
  for (const { content, id } of tokenizer.added_tokens) ids.set(content, id)
  let size = options.vocabularySize
  for (const id of ids.values()) size = Math.max(size, id + 1)
  if (size > 4 * options.vocabularySize + 1024) return yield* invalid(`an id is far beyond the model's vocabulary`)
  const tokens = Array.from({ length: size }, (_, i) => `[PAD${i}]`)
  const types: Array<number> = Array.from({ length: size }, () => kind.unused)
  for (const [token, id] of ids) {
    tokens[id] = token
    types[id] = kind.normal
  }
  for (const { id, special } of tokenizer.added_tokens) types[id] = special ? kind.control : kind.userDefined
  const idOf = (token: typeof NamedToken.Type | null | undefined) =>
    token === null || token === undefined ? undefined : ids.get(typeof token === "string" ? token : token.content)
  const named = Option.getOrUndefined(config)
  const special = {
    bos: idOf(named?.bos_token),
    eos: idOf(named?.eos_token),
    padding: idOf(named?.pad_token)
  }
  const chatTemplate = Option.getOrUndefined(template) ??
    (typeof named?.chat_template === "string" ? named.chat_template : undefined)
  const addBos = named?.add_bos_token
  return {
    "tokenizer.ggml.model": format.string("gpt2"),
    "tokenizer.ggml.pre": format.string(pre),
    "tokenizer.ggml.tokens": { type: "strings", value: tokens },
    "tokenizer.ggml.token_type": { type: "i32s", value: types },
    "tokenizer.ggml.merges": {
      type: "strings",
      value: tokenizer.model.merges.map((merge) => typeof merge === "string" ? merge : merge.join(" "))
    },
    ...Object.fromEntries(
      Object.entries(special).flatMap(([name, id]) =>
        id === undefined ? [] : [[`tokenizer.ggml.${name}_token_id`, format.u32(id)]]
      )
    ),
    ...(typeof addBos === "boolean" ? { "tokenizer.ggml.add_bos_token": format.bool(addBos) } : {}),
    ...(chatTemplate === undefined ? {} : { "tokenizer.chat_template": format.string(chatTemplate) })
  }
})
