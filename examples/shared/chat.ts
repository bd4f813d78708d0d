/**
 * `local/chat` in this process. Examples are bundled, so they look for its files in the package they belong to.
 */
import { LocalCheckpoint, TinkerLocal } from "@effect-tinker/local"
import { NodeContext } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { fileURLToPath } from "node:url"

const directory = fileURLToPath(new URL("models/chat", import.meta.resolve("@effect-tinker/local/package.json")))

/** Clients and tokenizers of a backend that serves `local/chat`. */
export const ChatBackend = Layer.unwrapEffect(
  Effect.map(
    LocalCheckpoint.fromDirectory(directory, { name: "local/chat" }),
    (model) => TinkerLocal.layer({ engine: { models: [model] } })
  )
).pipe(Layer.provide(NodeContext.layer))
