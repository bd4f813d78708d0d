/**
 * What is trained while processes are killed: a small run of reinforcement learning, the same for every process.
 */
import { Dataset, Reinforce } from "@effect-tinker/cookbook"
import type { RunLog } from "@effect-tinker/cookbook"
import { LocalTokenizer } from "@effect-tinker/local"
import { Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import type { FileSystem } from "@effect/platform"
import { Duration, Effect, Layer, Stream } from "effect"
import { Tinker } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { smallTokens } from "../SmallTokens.js"

export const steps = 16

/** Enough for every test; a run of training takes the first of them. */
export const waiting = (wait: Duration.Duration) =>
  Dataset.fromIterable(Array.from({ length: 1024 }, (_, n) => smallTokens(n, wait)))

export const problems = Dataset.take(waiting(Duration.zero), steps)

export const renderer = Effect.flatMap(
  Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles),
  Renderers.qwen3Instruct
)

export interface Size {
  readonly groupSize: number
  readonly groupsPerBatch: number
  readonly epochs: number
}

const few: Size = { groupSize: 4, groupsPerBatch: 2, epochs: 2 }

export const train = (
  log: RunLog.Target<FileSystem.FileSystem>,
  given: typeof problems = problems,
  size: Size = few
) =>
  Stream.unwrap(Effect.map(renderer, (renderer) =>
    Reinforce.train({
      ...size,
      model: { baseModel: "local/tiny", rank: 4, seed: 1 },
      problems: given,
      renderer,
      learningRate: 1e-2,
      // the rate is high, so that every step changes many bits
      guard: false,
      maxTokens: 4,
      shuffle: 5,
      checkpoints: { periodic: { steps: 2 }, onExit: false },
      record: { groups: size.groupsPerBatch },
      log
    })))

/** The clients of a server in another process. */
export const clients = (baseUrl: string, apiKey: string) =>
  Tinker.layer({ baseUrl, apiKey, allowInsecure: true }).pipe(Layer.provide(NodeTinker.layer()))
