/**
 * A training checkpoint as files others can read, where the server offers no archive of it: loaded into a model of its
 * own, saved once more as external weights that expire soon, and deleted after use.
 *
 * @since 0.1.0
 */
import * as NodeCredentials from "effect-tinker/NodeCredentials"
import * as RestClient from "effect-tinker/RestClient"
import * as ServiceClient from "effect-tinker/ServiceClient"
import * as TinkerConfig from "effect-tinker/TinkerConfig"
import * as TinkerError from "effect-tinker/TinkerError"
import type * as TinkerTransport from "effect-tinker/TinkerTransport"
import * as TrainingClient from "effect-tinker/TrainingClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { Output } from "../Output.js"

/** Long enough for a large download, short enough to be forgotten. */
const ttlSeconds = 3600 * 6

/** @internal */
export const make: Effect.Effect<
  (tinkerPath: string) => Effect.Effect<string, TinkerError.TinkerError, Scope.Scope>,
  never,
  TinkerConfig.TinkerConfig | TinkerTransport.TinkerTransport | RestClient.RestClient | Output
> = Effect.gen(function*() {
  const config = yield* TinkerConfig.TinkerConfig
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const context = yield* Effect.context<TinkerTransport.TinkerTransport>()
  return Effect.fnUntraced(function*(tinkerPath) {
    yield* output.note("The server offers no archive of it: exporting it through a training session of its base model")
    const service = yield* Layer.build(
      ServiceClient.layerEnv({
        baseUrl: config.baseUrl,
        apiKey: Option.getOrUndefined(config.apiKey),
        projectId: Option.getOrUndefined(config.projectId),
        // The address has been judged when the configuration was read.
        allowInsecure: true,
        tags: config.tags
      }).pipe(Layer.provide(NodeCredentials.layer))
    ).pipe(
      Effect.provide(context),
      Effect.catchTag(
        "ConfigError",
        (cause) => new TinkerError.InvalidInput({ module: "Cli", method: "exportExternal", description: String(cause) })
      )
    )
    const training = yield* Effect.provide(TrainingClient.makeFromState({ path: tinkerPath }), service)
    return yield* Effect.acquireRelease(
      Effect.flatMap(
        training.saveWeightsExternal("download", { ttlSeconds }),
        (saved) => Effect.map(saved, ({ path }) => path)
      ),
      (path) =>
        rest.deleteCheckpoint(path).pipe(
          Effect.catchAll(() => output.warn(`${path} could not be deleted; it expires in 6 hours`))
        )
    )
  })
})
