/**
 * Where training takes place: on this machine, or at the hosted service once TINKER_API_KEY is set.
 */
import { connect as connectHosted, connectLocal } from "@effect-tinker/promise/node"

const isHosted = process.env["TINKER_API_KEY"] !== undefined

/** A small model that comes with the package; "HuggingFaceTB/SmolLM2-135M-Instruct" is a real one for this machine. */
const localModel = "local/chat"

/** The model to train. Large models want a learning rate of about 1e-4. */
export const model = isHosted ? "Qwen/Qwen3-8B" : localModel

/** Close it when you are done, or write `await using`. */
export const connect = () =>
  isHosted
    ? connectHosted()
    : connectLocal({
      directory: ".tinker", // keeps the checkpoints
      ...(localModel.startsWith("local/") ? {} : { models: [localModel] })
    })
