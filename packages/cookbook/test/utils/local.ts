import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { Chunk, Effect, Layer, Stream } from "effect"
import { ServiceClient } from "effect-tinker"

const client = ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey })

/** The SDK over the embedded backend, in process. */
export const Local = client.pipe(Layer.provideMerge(TinkerLocal.layer()))

/** The same with checkpoints in a directory, for runs that another process takes up. */
export const localIn = (directory: string) => client.pipe(Layer.provideMerge(TinkerLocal.layerDirectory(directory)))

export const tokenizer = Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles)

export const renderer = Effect.flatMap(tokenizer, Renderers.qwen3Instruct)

export const collect = <A, E, R>(stream: Stream.Stream<A, E, R>) =>
  Effect.map(Stream.runCollect(stream), Chunk.toReadonlyArray)
