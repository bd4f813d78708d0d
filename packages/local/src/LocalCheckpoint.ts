/**
 * Models from files: a Hugging Face directory with `config.json`, safetensors in 16 or 32 bits, `tokenizer.json` and a
 * chat template, or one GGUF file. The families are Llama 3 and models of its shape (SmolLM2, Mistral, Phi-3), Qwen2.5,
 * Qwen3 and Gemma 3.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import type { ModelUnavailable } from "./EngineError.js"
import * as directories from "./internal/checkpoint/directory.js"
import * as ggufFiles from "./internal/checkpoint/ggufFile.js"
import { assemble } from "./internal/checkpoint/source.js"
import type * as LocalModel from "./LocalModel.js"

/**
 * How the files of a model are read; all of it may be left out.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  /** The name clients ask for. Defaults to the name of the directory or file, without its ending. */
  readonly name?: string | undefined
  /**
   * The longest sequence. Defaults to what the model was made for, at most 4096 tokens and 256 MiB of keys and values.
   */
  readonly contextLength?: number | undefined
  /**
   * Keep frozen matrices in eight bits: half of the memory of 16, with answers that differ a little. Defaults to the
   * precision of the files.
   */
  readonly quantize?: "int8" | undefined
}

/**
 * The model of a directory. Its weights stay on the disk until the engine needs them; everything else is checked here.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromDirectory: (
  directory: string,
  options?: Options
) => Effect.Effect<LocalModel.LocalModel, ModelUnavailable, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(directory, options) {
    const path = yield* Path.Path
    const name = options?.name ?? path.basename(path.resolve(directory))
    return yield* assemble(name, yield* directories.fromDirectory(directory, name), options)
  }
)

/**
 * The model of a GGUF file, with the tokenizer and chat template of its metadata.
 *
 * @since 0.2.0
 * @category constructors
 */
export const fromGguf: (
  file: string,
  options?: Options
) => Effect.Effect<LocalModel.LocalModel, ModelUnavailable, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(file, options) {
    const path = yield* Path.Path
    const name = options?.name ?? path.basename(path.resolve(file)).replace(/\.gguf$/i, "")
    return yield* assemble(name, yield* ggufFiles.fromGguf(file, name), options)
  }
)

/**
 * Where the files of `local/chat` are: in this package.
 *
 * @since 0.1.0
 * @category constants
 */
export const chatDirectory = new URL("../models/chat/", import.meta.url)

/**
 * The pretrained model of this package, `local/chat`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const chat: Effect.Effect<LocalModel.LocalModel, ModelUnavailable, FileSystem.FileSystem | Path.Path> = Effect
  .flatMap(Path.Path, (path) =>
    Effect.flatMap(
      Effect.orDie(path.fromFileUrl(chatDirectory)),
      (directory) => fromDirectory(directory, { name: "local/chat" })
    ))

/**
 * `local/chat` where its files are installed, or nothing.
 *
 * @since 0.1.0
 * @category constructors
 */
export const bundledChat: Effect.Effect<
  ReadonlyArray<LocalModel.LocalModel>,
  ModelUnavailable,
  FileSystem.FileSystem | Path.Path
> = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const config = path.join(yield* Effect.orDie(path.fromFileUrl(chatDirectory)), "config.json")
  return (yield* Effect.orElseSucceed(fs.exists(config), () => false)) ? [yield* chat] : []
})
