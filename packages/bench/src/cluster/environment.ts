/**
 * Environments that wait rather than compute, and the clients of a server: the same for trainers and workers.
 */
import { Dataset, Environment } from "@effect-tinker/cookbook"
import { LocalTokenizer } from "@effect-tinker/local"
import { Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { Duration, Effect, Layer } from "effect"
import { Tinker } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { sized } from "../Bench.js"

export const renderer = Effect.flatMap(
  Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles),
  Renderers.qwen3Instruct
)

/** So many problems, the answers to which take so long to be judged. */
export const problems = (count: number, wait: Duration.Duration) =>
  Dataset.fromIterable(Array.from({ length: count }, (_, n) =>
    Environment.group(() =>
      Effect.succeed(
        {
          initial: Effect.succeed({
            _tag: "Continue",
            observation: { prompt: Int32Array.of(65, 66 + n % 64), stop: [] }
          }),
          step: ({ tokens }) =>
            Effect.delay(Effect.succeed({ _tag: "Done", reason: "completed", reward: (tokens[0] ?? 0) % 2 }), wait)
        } satisfies Environment.Environment
      )
    )))

/** How many problems workers know, and how long each rollout waits. */
export const known = 2048
export const wait = Duration.seconds(sized(8, 0.2))

export const clients = (baseUrl: string, apiKey: string) =>
  Tinker.layer({ baseUrl, apiKey, allowInsecure: true }).pipe(Layer.provide(NodeTinker.layer()))
