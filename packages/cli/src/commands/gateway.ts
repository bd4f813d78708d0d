/**
 * `tinker gateway`: a model behind OpenAI's API and Anthropic's, with every call recorded token for token.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as RestClient from "effect-tinker/RestClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { CliFailure } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import { texts } from "../internal/options.js"
import { Output } from "../terminal/Output.js"
import * as modelSettings from "../training/modelSettings.js"
import * as scoring from "../training/scoring.js"

const gateway = Effect.fnUntraced(
  function*(options: {
    readonly target: string
    readonly port: number
    readonly host: string
    readonly record: Option.Option<string>
    readonly maxTokens: Option.Option<number>
    readonly temperature: Option.Option<number>
    readonly maxConcurrent: number
    readonly renderer: Option.Option<string>
    readonly tokenizer: Option.Option<string>
    readonly allowHost: ReadonlyArray<string>
    readonly open: boolean
  }) {
    const output = yield* Output
    // loaded on demand: no other command listens
    const { AgentModel, Gateway, NodeGateway, Recorder, Sampler } = yield* Effect.promise(async () => ({
      AgentModel: await import("@effect-tinker/agents/AgentModel"),
      Gateway: await import("@effect-tinker/agents/Gateway"),
      NodeGateway: await import("@effect-tinker/agents/NodeGateway"),
      Recorder: await import("@effect-tinker/agents/Recorder"),
      Sampler: await import("@effect-tinker/agents/Sampler")
    }))
    const sampler = yield* scoring.open(options.target)
    const baseModel = yield* live.bounded(sampler.baseModel)
    const renderer = yield* modelSettings.rendererFor(baseModel, options)
    const rest = yield* RestClient.RestClient
    const { supportedModels } = yield* live.bounded(rest.getServerCapabilities)
    const contextWindow = supportedModels.find(({ modelName }) => modelName === baseModel)?.maxContextLength
    const recorder = yield* Option.match(options.record, {
      onNone: () => Recorder.make(),
      onSome: (directory) => Recorder.makeDirectory(directory)
    })
    const model = yield* AgentModel.make({
      sampler: Sampler.fromClient(sampler),
      renderer,
      contextWindow,
      defaults: {
        maxTokens: Option.getOrUndefined(options.maxTokens),
        temperature: Option.getOrUndefined(options.temperature)
      }
    }).pipe(Effect.provideService(Recorder.Recorder, recorder))
    const running = yield* NodeGateway.serve({
      model: options.target,
      port: options.port,
      host: options.host,
      allowHosts: options.allowHost,
      maxConcurrent: options.maxConcurrent,
      open: options.open,
      onRollout: (report) => output.note(Gateway.reportLine(report))
    }).pipe(
      Effect.provideService(Recorder.Recorder, recorder),
      Effect.provideService(AgentModel.AgentModel, model),
      Effect.catchTag("ServeError", (cause) =>
        new CliFailure({
          what: `Port ${options.port} of ${options.host} cannot be opened`,
          advice: "Another program may be using it: choose another with --port, or 0 for any free one.",
          cause
        }))
    )
    const key = Redacted.value(running.apiKey)
    const record = Option.getOrNull(options.record)
    yield* output.printRecord({
      json: { base_url: `${running.url}/v1`, api_key: key, model: options.target, record },
      properties: [
        ["Base URL", `${running.url}/v1`],
        ["API Key", options.open ? "any" : key],
        ["Model", options.target],
        ["Recorded", record ?? "in memory"]
      ]
    })
    yield* output.note(`export OPENAI_BASE_URL=${running.url}/v1 OPENAI_API_KEY=${key}`)
    yield* output.note(`export ANTHROPIC_BASE_URL=${running.url} ANTHROPIC_API_KEY=${key}`)
    yield* output.note(`A rollout of its own: ${running.url}/rollouts/ID/v1`)
    if (options.open) {
      yield* output.note("Warning: with --open, anyone who reaches this port can sample and read records")
    }
    yield* output.note("Ctrl-C stops it")
    return yield* Effect.never
  },
  Effect.scoped,
  Effect.provide(Layer.mergeAll(live.training, modelSettings.tokenizers))
)

/** @internal */
export const command = Command.make("gateway", {
  target: Args.text({ name: "target" }).pipe(
    Args.withDescription("A run directory, a checkpoint (tinker://RUN/sampler_weights/NAME), or a base model.")
  ),
  port: Options.integer("port").pipe(
    Options.withDefault(8787),
    Options.withDescription("Port to listen on; 0 for any free one. Default: 8787.")
  ),
  host: Options.text("host").pipe(
    Options.withDefault("127.0.0.1"),
    Options.withDescription("Address to listen on. Default: 127.0.0.1, which other machines cannot reach.")
  ),
  record: Options.text("record").pipe(
    Options.withDescription("Directory to write every call to, with its token ids and logprobs. Default: memory."),
    Options.optional
  ),
  maxTokens: Options.integer("max-tokens").pipe(
    Options.withDescription("Maximum tokens of an answer when a request sets none. Default: the service decides."),
    Options.optional
  ),
  temperature: Options.float("temperature").pipe(
    Options.withDescription("Sampling temperature when a request sets none. Default: 1."),
    Options.optional
  ),
  maxConcurrent: Options.integer("max-concurrent").pipe(
    Options.withDefault(1024),
    Options.withDescription("Maximum number of concurrent calls; more are answered with 429. Default: 1024.")
  ),
  renderer: Options.text("renderer").pipe(
    Options.withDescription("Renderer for conversations. Default: the model's own."),
    Options.optional
  ),
  tokenizer: Options.text("tokenizer").pipe(
    Options.withDescription("A repository of the Hugging Face Hub, or a directory. Default: the model's."),
    Options.optional
  ),
  allowHost: texts("allow-host", "A further name under which clients reach the gateway"),
  open: Options.boolean("open").pipe(
    Options.withDescription("Require no key. Anyone who can reach the port can sample and read recordings.")
  )
}, gateway).pipe(
  Command.withDescription(
    "Serve a model to agents: OpenAI's chat completions, completions and responses, and Anthropic's messages, streamed " +
      "and whole, with tools. Every call is recorded with the exact tokens that were sampled, by rollout: in the path (/rollouts/ID/v1), the " +
      "header x-rollout-id, or metadata.rollout_id."
  )
)
