/**
 * A checkpoint as files: weights and optimizer state in safetensors, their settings in JSON.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type * as LocalAdapter from "../../LocalAdapter.js"
import * as Safetensors from "../../Safetensors.js"

/** @internal */
export const weightsFile = "adapter_model.safetensors"
/** @internal */
export const configFile = "adapter_config.json"
/** @internal */
export const optimizerFile = "optimizer.safetensors"
/** Says that the directory is whole, as the service's archives do. @internal */
export const completeFile = "checkpoint_complete"

const AdapterConfig = Schema.parseJson(
  Schema.Struct({
    peft_type: Schema.Literal("LORA"),
    base_model_name_or_path: Schema.String,
    r: Schema.Int,
    lora_alpha: Schema.Number,
    lora_dropout: Schema.Number,
    bias: Schema.Literal("none"),
    task_type: Schema.Literal("CAUSAL_LM"),
    target_modules: Schema.Array(Schema.String),
    use_rslora: Schema.optional(Schema.Boolean),
    // ours; in adapters from elsewhere the modules say it
    train_attn: Schema.optional(Schema.Boolean),
    train_mlp: Schema.optional(Schema.Boolean),
    train_unembed: Schema.optional(Schema.Boolean)
  }),
  { space: 2 }
)

const encodeConfig = ParseResult.encodeSync(AdapterConfig)
const decodeConfig = ParseResult.decodeUnknownEither(AdapterConfig)

/** The last part of a module's path, by which PEFT finds what to adapt. */
const moduleName = (tensor: string): string => tensor.replace(/\.lora_[AB]\.weight$/, "").replace(/^.*\./, "")

/** Encoding takes milliseconds a file: the event loop can turn in between. @internal */
export const toFiles: (snapshot: LocalAdapter.Snapshot) => Effect.Effect<ReadonlyMap<string, Uint8Array>> = Effect
  .fnUntraced(function*(snapshot) {
    const text = new TextEncoder()
    const files = new Map<string, Uint8Array>([
      [weightsFile, yield* Safetensors.encodeByTensor({ tensors: snapshot.weights, metadata: { format: "pt" } })],
      [
        configFile,
        text.encode(encodeConfig({
          peft_type: "LORA",
          base_model_name_or_path: snapshot.baseModel,
          r: snapshot.rank,
          lora_alpha: snapshot.scale * snapshot.rank,
          lora_dropout: 0,
          bias: "none",
          task_type: "CAUSAL_LM",
          target_modules: Array.from(new Set(snapshot.weights.map(({ name }) => moduleName(name)))),
          train_attn: snapshot.trainAttn,
          train_mlp: snapshot.trainMlp,
          train_unembed: snapshot.trainUnembed
        }))
      ]
    ])
    if (snapshot.optimizer !== undefined) {
      const { first, second, steps } = snapshot.optimizer
      yield* Effect.yieldNow()
      files.set(
        optimizerFile,
        yield* Safetensors.encodeByTensor({
          tensors: [
            ...first.map((tensor) => ({ ...tensor, name: `first.${tensor.name}` })),
            ...second.map((tensor) => ({ ...tensor, name: `second.${tensor.name}` }))
          ],
          metadata: { steps: String(steps) }
        })
      )
    }
    return files.set(completeFile, new Uint8Array(0))
  })

const prefixed = (file: Safetensors.File, prefix: string): ReadonlyArray<LocalAdapter.NamedTensor> =>
  file.tensors.flatMap((tensor) =>
    tensor.name.startsWith(prefix) ? [{ ...tensor, name: tensor.name.slice(prefix.length) }] : []
  )

/** The snapshot, or what is wrong with the files. @internal */
export const fromFiles = (
  files: ReadonlyMap<string, Uint8Array>
): Effect.Effect<LocalAdapter.Snapshot, string> =>
  Effect.gen(function*() {
    const config = yield* Either.mapLeft(
      decodeConfig(new TextDecoder().decode(files.get(configFile) ?? new Uint8Array(0))),
      (issue) => `${configFile}: ${ParseResult.TreeFormatter.formatIssueSync(issue)}`
    )
    const weights = yield* Either.mapLeft(
      Safetensors.decode(files.get(weightsFile) ?? new Uint8Array(0)),
      (problem) => `${weightsFile}: ${problem}`
    )
    const state = files.get(optimizerFile)
    yield* Effect.yieldNow()
    const optimizer = state === undefined ? undefined : yield* Either.mapLeft(
      Safetensors.decode(state),
      (problem) => `${optimizerFile}: ${problem}`
    )
    return {
      baseModel: config.base_model_name_or_path,
      rank: config.r,
      scale: config.lora_alpha / (config.use_rslora === true ? Math.sqrt(config.r) : config.r),
      trainAttn: config.train_attn ?? config.target_modules.some((name) => /[qkvo]_proj$/.test(name)),
      trainMlp: config.train_mlp ?? config.target_modules.some((name) => /(gate|up|down)_proj$/.test(name)),
      trainUnembed: config.train_unembed ?? config.target_modules.some((name) => name.endsWith("lm_head")),
      weights: weights.tensors,
      ...(optimizer === undefined ? {} : {
        optimizer: {
          steps: Number(optimizer.metadata?.["steps"] ?? 0),
          first: prefixed(optimizer, "first."),
          second: prefixed(optimizer, "second.")
        }
      })
    }
  })
