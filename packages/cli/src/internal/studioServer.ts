/**
 * What `tinker studio` and `tinker tensorboard` need of the studio. Imported on demand: other commands start without it.
 *
 * @since 0.1.0
 */
import * as LocalCheckpoint from "@effect-tinker/local/LocalCheckpoint"
import * as LocalTokenizer from "@effect-tinker/local/LocalTokenizer"
import * as NodeStudio from "@effect-tinker/studio/NodeStudio"
import * as Talk from "@effect-tinker/studio/Talk"
import * as TensorBoard from "@effect-tinker/studio/TensorBoard"
import * as NodeTokenizers from "@effect-tinker/tokenizer/NodeTokenizers"
import { TokenizerMalformed } from "@effect-tinker/tokenizer/TokenizerError"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as ServiceClient from "effect-tinker/ServiceClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as live from "./connection.js"

/** @internal */
export const serve = NodeStudio.serve

/** @internal */
export const exportTensorBoard = TensorBoard.write

const missing = (description: string) =>
  new TokenizerMalformed({ repo: "local/chat", revision: "main", file: "tokenizer.json", description })

const chatTokenizer = LocalCheckpoint.chat.pipe(
  Effect.mapError((error) => missing(error.message)),
  Effect.flatMap(({ tokenizer }) =>
    tokenizer === undefined ? missing("the model has none") : Effect.succeed(tokenizer)
  ),
  Effect.provide(NodeContext.layer)
)

/** The tokenizers on this machine and, with `online`, those of the hub. @internal */
export const tokenizers = (online: boolean) =>
  NodeTokenizers.layer({
    registry: { ...LocalTokenizer.registry, "local/chat": chatTokenizer },
    hub: online ? {} : { offline: true }
  })

/** Talks to the models of the server that the options and the environment name. @internal */
export const talk = Talk.layer.pipe(
  Layer.provide(Layer.scoped(ServiceClient.ServiceClient, ServiceClient.make())),
  Layer.provide(live.base)
)
