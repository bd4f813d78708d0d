import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { Chunk, Effect, Layer, Stream } from "effect"
import { ServiceClient } from "effect-tinker"
import { readFileSync } from "node:fs"

const client = ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey })

/** The SDK over the embedded backend, in process. */
export const Local = client.pipe(Layer.provideMerge(TinkerLocal.layer()))

export const tokenizer = Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles)

export const renderer = Effect.flatMap(tokenizer, Renderers.qwen3Instruct)

/** The tokenizer of `local/chat`: words are tokens, so that a text has several encodings. */
export const chatTokenizer = Effect.sync(() => {
  const read = (name: string): unknown =>
    JSON.parse(readFileSync(new URL(`../../../local/models/chat/${name}`, import.meta.url), "utf8"))
  return { tokenizerJson: read("tokenizer.json"), tokenizerConfig: read("tokenizer_config.json") }
}).pipe(Effect.flatMap(Tokenizer.fromHuggingFace))

export const chatRenderer = Effect.flatMap(chatTokenizer, Renderers.localChat)

export const collect = <A, E, R>(stream: Stream.Stream<A, E, R>) =>
  Effect.map(Stream.runCollect(stream), Chunk.toReadonlyArray)
