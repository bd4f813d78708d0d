/**
 * Which key do I use, what may I train, what have I trained: the questions to ask a service first.
 */
import { TinkerLocal } from "@effect-tinker/local"
import type { Tokenizers } from "@effect-tinker/tokenizer"
import * as NodeTokenizers from "@effect-tinker/tokenizer/NodeTokenizers"
import { NodeRuntime } from "@effect/platform-node"
import { Config, Console, Effect, Layer, Stream } from "effect"
import { RestClient, Tinker } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"

/** The server of the environment, the hosted service if it names none, and the tokenizers of its models. */
const Hosted = Layer.merge(Tinker.layerFromEnv(), NodeTokenizers.layer()).pipe(
  Layer.provide(NodeTinker.layerFromEnv())
)

/** That server where `TINKER_BASE_URL` is set, else a backend in this process. */
const Backend = Layer.unwrapEffect(
  Effect.map(
    Config.withDefault(Config.string("TINKER_BASE_URL"), ""),
    (url): Layer.Layer<Tinker.Tinker | Tokenizers.Tokenizers, unknown> => url === "" ? TinkerLocal.layer() : Hosted
  )
)

const program = Effect.gen(function*() {
  const rest = yield* RestClient.RestClient
  // A self-hosted server may offer less than the service: what it does not is a typed failure.
  const key = yield* rest.getApiKey.pipe(
    Effect.map(({ name }) => `using the key "${name}"`),
    Effect.catchTag("Unsupported", () => Effect.succeed("keys are not managed here"))
  )
  yield* Console.log(key)

  const { supportedModels } = yield* rest.getServerCapabilities
  for (const { maxContextLength, modelName } of supportedModels) {
    yield* Console.log(`${modelName}${maxContextLength === undefined ? "" : `, up to ${maxContextLength} tokens`}`)
  }

  const newest = yield* Stream.runHead(rest.streamTrainingRuns({ pageSize: 1 }))
  yield* Console.log(
    newest._tag === "Some" ? `the newest run trains ${newest.value.baseModel}` : "no training runs yet"
  )
})

NodeRuntime.runMain(program.pipe(Effect.provide(Backend)))
