import { assert, describe, it } from "@effect/vitest"
import type { Duration } from "effect"
import { DateTime, Effect, Either, Layer, Logger, Stream, TestClock } from "effect"
import {
  Datum,
  ModelInput,
  RestClient,
  SamplingClient,
  ServiceClient,
  TensorData,
  TinkerConfig,
  TrainingClient
} from "effect-tinker"
import { ForwardBackward, Sample } from "effect-tinker/wire"
import * as Server from "./utils/recordingServer.js"

/** What FastAPI says of a path it does not know. */
const unknown = Server.refuse(404, { detail: "Not Found" })

const logprobs = Either.getOrThrow(TensorData.fromArray([-0.5, -0.25], { dtype: "float32" }))

const passed = Server.protobuf(Either.getOrThrow(ForwardBackward.encodeOutput({
  lossFnOutputType: "scalar",
  lossFnOutputs: [{ elementwise_loss: logprobs, logprobs }],
  // as SkyRL's engines name them: no reduction, and a namespace
  metrics: { final_loss: 0.75, "skyrl.ai/tokens": 2 }
})))

const sampled = Server.protobuf(Either.getOrThrow(Sample.encodeResponse(
  new Sample.SampleResponse({
    sequences: [
      new Sample.SampledSequence({ stopReason: "stop", tokens: new Int32Array([7, 8]), logprobs: new Float32Array(2) })
    ]
  })
)))

const run = {
  training_run_id: "model_0a1b2c3d",
  base_model: "Qwen/Qwen3-0.6B",
  model_owner: "default",
  is_lora: true,
  corrupted: false,
  lora_rank: 8,
  last_request_time: "2026-08-21T18:02:38.123456",
  last_checkpoint: null,
  last_sampler_checkpoint: null,
  user_metadata: null
}

interface Behaviour {
  /** Answers `client/dynamic_config`, as servers since 0.25 do. */
  readonly modern?: boolean
  /** Flags of the client configuration. */
  readonly flags?: Readonly<Record<string, unknown>>
  /** Refuses passes in this form, in this way. */
  readonly refuseForm?: { readonly form: "protobuf" | "json"; readonly answer: Server.Answer }
  /** Knows how a session ends. */
  readonly finishes?: boolean
  /** How long a poll is held. */
  readonly hold?: Duration.DurationInput
  /** Answers in place of the usual one, by path. */
  readonly refuse?: Readonly<Record<string, Server.Answer | undefined>>
  /** Answers the poll for the n-th operation in place of its result. */
  readonly poll?: (id: number, times: number) => Server.Answer | undefined
}

/**
 * Plays the answers of a SkyRL server: numbers for ids, no dynamic configuration, no end of a session, sampler paths of
 * two segments, results with fewer fields.
 */
const skyrl = (behaviour: Behaviour = {}) => {
  const results: Array<Server.Answer> = []
  const polls = new Map<number, number>()
  const accept = (result: Server.Answer, more: object = {}) => {
    const id = String(results.push(result))
    return Server.json({ future_id: id, status: "pending", request_id: id, ...more })
  }
  return Server.make((seen) => {
    const { json } = seen
    const path = seen.path.replace("/api/v1/", "")
    const refused = behaviour.refuse?.[path]
    if (refused !== undefined) return refused
    const form = seen.headers["content-type"] === "application/x-protobuf" ? "protobuf" : "json"
    if (path.startsWith("forward") && behaviour.refuseForm?.form === form) return behaviour.refuseForm.answer
    switch (path) {
      case "client/config":
        return Server.json({ pjwt_auth_enabled: false, ...behaviour.flags })
      case "client/dynamic_config":
        return behaviour.modern === true ? Server.json({}) : unknown
      case "sessions/session_4f5e6d7c/finish":
        return behaviour.finishes === true ? Server.json({}) : unknown
      case "unload_model":
        return accept(Server.json({ model_id: json["model_id"] }))
      case "get_server_capabilities":
        return Server.json({ supported_models: [{ model_name: "Qwen/Qwen3-0.6B" }] })
      case "create_session":
        return Server.json({
          type: "create_session",
          info_message: null,
          warning_message: null,
          error_message: null,
          session_id: "session_4f5e6d7c"
        })
      case "session_heartbeat":
        return Server.json({ type: "session_heartbeat" })
      case "create_model":
        return accept(
          Server.json({
            model_id: "model_0a1b2c3d",
            base_model: json["base_model"],
            lora_config: { rank: 8, alpha: 32, seed: 7, train_attn: true, train_mlp: true, train_unembed: false }
          }),
          {
            model_id: "model_0a1b2c3d",
            base_model: json["base_model"],
            lora_config: { rank: 8, seed: null },
            status: "created"
          }
        )
      case "forward":
      case "forward_backward":
        return accept(passed)
      case "optim_step":
        return accept(Server.json({ metrics: null }))
      case "save_weights":
        return accept(Server.json({ path: `tinker://model_0a1b2c3d/weights/${json["path"]}`, type: "save_weights" }))
      case "load_weights":
        return accept(Server.json({ type: "load_weights" }))
      case "save_weights_for_sampler":
        return accept(Server.json(
          json["path"] === undefined
            ? { path: null, type: "save_weights_for_sampler", sampling_session_id: "sampling_11223344" }
            : {
              path: `tinker://model_0a1b2c3d/${json["path"]}`,
              type: "save_weights_for_sampler",
              sampling_session_id: null
            }
        ))
      case "create_sampling_session":
        return Server.json({ type: "create_sampling_session", sampling_session_id: "sampling_99aabbcc" })
      case "asample":
        return accept(sampled)
      case "retrieve_future": {
        const id = Number(json["request_id"])
        const times = polls.get(id) ?? 0
        polls.set(id, times + 1)
        const answer = behaviour.poll?.(id, times) ?? results[id - 1] ??
          Server.refuse(404, { detail: "Future not found" })
        return behaviour.hold === undefined ? answer : Effect.delay(Effect.succeed(answer), behaviour.hold)
      }
      case "get_info":
        return Server.json({
          model_id: "model_0a1b2c3d",
          status: "created",
          model_data: {
            base_model: "Qwen/Qwen3-0.6B",
            lora_config: { rank: 8, seed: null },
            model_name: "Qwen/Qwen3-0.6B"
          }
        })
      case "weights_info":
        return Server.json({ base_model: "Qwen/Qwen3-0.6B", is_lora: true, lora_rank: 8 })
      case "samplers/sampling_99aabbcc":
        return Server.json({
          sampler_id: "sampling_99aabbcc",
          base_model: "Qwen/Qwen3-0.6B",
          model_path: "tinker://model_0a1b2c3d/step_1"
        })
      case "training_runs":
        return Server.json({ training_runs: [run], cursor: { offset: 0, limit: 20, total_count: 1 } })
      case "training_runs/model_0a1b2c3d":
        return Server.json(run)
      case "training_runs/model_0a1b2c3d/checkpoints":
        return Server.json({
          checkpoints: [{
            checkpoint_id: "step_1",
            checkpoint_type: "training",
            time: "2026-08-21T18:02:38.123456",
            tinker_path: "tinker://model_0a1b2c3d/weights/step_1"
          }]
        })
      default:
        return unknown
    }
  })
}

const options: ServiceClient.Options = { ...Server.options, compatibility: TinkerConfig.skyrl }

const datum = Either.getOrThrow(Datum.fromTokens([1, 2, 3]))

const training = (server: ReturnType<typeof skyrl>, given: ServiceClient.Options = options) =>
  Effect.gen(function*() {
    const context = yield* Layer.build(ServiceClient.layer(given).pipe(Layer.provide(server.layer)))
    const client = yield* TrainingClient.makeLora({ baseModel: "Qwen/Qwen3-0.6B", rank: 8 }).pipe(
      Effect.provide(context)
    )
    return { client, context }
  })

describe("Compatibility", () => {
  describe("SkyRL", () => {
    it.scoped("a whole run: create, train, save, load, sample from a path of two segments", () =>
      Effect.gen(function*() {
        const server = skyrl()
        const { client, context } = yield* training(server)
        const pass = yield* yield* client.forwardBackward([datum], "cross_entropy")
        // The sum of the losses of its tokens, which the server leaves to us.
        assert.deepStrictEqual(pass.metrics, { final_loss: 0.75, "skyrl.ai/tokens": 2, "loss:sum": -0.75 })
        assert.isUndefined((yield* yield* client.optimStep({ learningRate: 1e-4 })).metrics)
        const { path } = yield* yield* client.saveState("step_1")
        assert.strictEqual(path, "tinker://model_0a1b2c3d/weights/step_1")
        const saved = yield* yield* client.saveWeightsForSampler("step_1")
        assert.strictEqual(saved.path, "tinker://model_0a1b2c3d/step_1")

        const sampler = yield* SamplingClient.make({ modelPath: saved.path }).pipe(Effect.provide(context))
        const { sequences } = yield* sampler.sample({ prompt: ModelInput.fromInts([1, 2]), maxTokens: 4 })
        assert.deepStrictEqual(Array.from(sequences[0]?.tokens ?? []), [7, 8])
        assert.strictEqual(
          server.of("create_sampling_session")[0]?.json["model_path"],
          "tinker://model_0a1b2c3d/step_1"
        )

        const ephemeral = yield* client.saveWeightsAndGetSamplingClient()
        yield* ephemeral.sample({ prompt: ModelInput.fromInts([1, 2]), maxTokens: 4 })
        assert.strictEqual(server.of("asample")[1]?.json["sampling_session_id"], "sampling_11223344")

        const resumed = yield* TrainingClient.makeFromState({ path }).pipe(Effect.provide(context))
        yield* yield* resumed.forwardBackward([datum], "cross_entropy")
        // Numbers for ids, sent as the text that they came as.
        assert.deepStrictEqual(server.of("retrieve_future").map(({ json }) => json["request_id"]).slice(0, 3), [
          "1",
          "2",
          "3"
        ])
      }))

    it.scoped("starts without dynamic configuration, and ends without the endpoints that are not there", () =>
      Effect.gen(function*() {
        const server = skyrl()
        yield* Effect.scoped(training(server))
        assert.notInclude(server.paths(), "client/dynamic_config")
        const strangers = skyrl()
        // Nor does it have to be told: a 404 is an answer.
        yield* Effect.scoped(training(strangers, Server.options))
        assert.include(strangers.paths(), "client/dynamic_config")
      }))

    it.scoped("models are unloaded where a session cannot be finished, and only there", () =>
      Effect.gen(function*() {
        const server = skyrl()
        yield* Effect.scoped(training(server))
        assert.deepStrictEqual(server.of("unload_model").map(({ json }) => json["model_id"]), ["model_0a1b2c3d"])
        const kept = skyrl()
        yield* Effect.scoped(training(kept, { ...options, compatibility: { unloadModels: false } }))
        const modern = skyrl({ modern: true, finishes: true })
        yield* Effect.scoped(training(modern, Server.options))
        assert.deepStrictEqual([kept, modern].flatMap((server) => server.of("unload_model")), [])
      }))

    it.scoped("a base model that the server does not offer is refused before anything is trained", () =>
      Effect.gen(function*() {
        const server = skyrl()
        const { context } = yield* training(server, Server.options)
        const error = yield* Effect.flip(
          TrainingClient.makeLora({ baseModel: "Qwen/Qwen3-8B" }).pipe(
            Effect.provide(context)
          )
        )
        assert.strictEqual(error._tag, "InvalidInput")
        assert.match(error.message, /does not offer "Qwen\/Qwen3-8B"; it offers Qwen\/Qwen3-0\.6B/)
        const sampler = yield* Effect.flip(
          SamplingClient.make({ baseModel: "Qwen/Qwen3-8B" }).pipe(
            Effect.provide(context)
          )
        )
        assert.strictEqual(sampler._tag, "InvalidInput")
        assert.strictEqual(server.of("create_model").length, 1)
        assert.strictEqual(server.of("create_sampling_session").length, 0)
        assert.strictEqual(server.of("get_server_capabilities").length, 1)

        // The hosted service checks by itself: no question is added.
        const modern = skyrl({ modern: true })
        yield* training(modern, Server.options)
        assert.strictEqual(modern.of("get_server_capabilities").length, 0)
      }))

    it.scoped("tokens beyond a stated vocabulary are refused here", () =>
      Effect.gen(function*() {
        const { client } = yield* training(skyrl(), {
          ...options,
          compatibility: { ...TinkerConfig.skyrl, vocabularySizes: { "Qwen/Qwen3-0.6B": 512 } }
        })
        yield* yield* client.forwardBackward([datum], "cross_entropy")
        const far = Either.getOrThrow(Datum.fromTokens([1, 512, 3]))
        const error = yield* Effect.flip(client.forwardBackward([far], "cross_entropy"))
        assert.strictEqual(error._tag, "InvalidInput")
        assert.match(error.message, /token 512 of datum 0 is beyond the vocabulary of 512/)
      }))

    it.scoped("a session that the server does not know any more is told in its own words", () =>
      Effect.gen(function*() {
        const lines: Array<string> = []
        const logger = Logger.make(({ message }) => void lines.push(String(message)))
        const server = skyrl({ refuse: { session_heartbeat: Server.refuse(404, { detail: "Session not found" }) } })
        yield* Effect.gen(function*() {
          yield* training(server)
          yield* TestClock.adjust("30 seconds")
        }).pipe(Effect.provide(Logger.replace(Logger.defaultLogger, logger)))
        const warnings = lines.filter((line) => line.includes("Session session_4f5e6d7c"))
        assert.strictEqual(warnings.length, 1)
        assert.match(warnings[0] ?? "", /the server does not know it \(status 404: Session not found\)/)
      }))

    it.scoped("the loss is there without `loss:sum`", () =>
      Effect.gen(function*() {
        const { client } = yield* training(skyrl())
        const { loss } = yield* yield* client.trainStep([datum], "cross_entropy", { learningRate: 1e-4 })
        assert.closeTo(loss.sum, -0.75, 1e-6)
        assert.strictEqual(loss.tokens, 2)
      }))

    it.scoped("prompt logprobs without a place for the first token are moved back to their tokens", () =>
      Effect.gen(function*() {
        const server = skyrl({
          poll: (id) =>
            id === 1 ? undefined : Server.json({
              sequences: [{ stop_reason: "length", tokens: [7], logprobs: [-0.5] }],
              prompt_logprobs: [-1, -2, -3]
            })
        })
        const { context } = yield* training(server)
        const sampler = yield* SamplingClient.make({ baseModel: "Qwen/Qwen3-0.6B" }).pipe(Effect.provide(context))
        const scored = yield* sampler.computeLogprobs(ModelInput.fromInts([5, 6, 7, 8]))
        assert.deepStrictEqual(Array.from(scored), [Number.NaN, -1, -2, -3])
        // Those that fit are left alone.
        const fitting = yield* sampler.computeLogprobs(ModelInput.fromInts([5, 6, 7]))
        assert.deepStrictEqual(Array.from(fitting), [-1, -2, -3])
      }))

    it.scoped("a failed operation is a RequestFailed in the server's words, and the next one works", () =>
      Effect.gen(function*() {
        const server = skyrl({
          poll: (id) => id === 2 ? Server.refuse(400, { detail: "Model model_0a1b2c3d not found" }) : undefined
        })
        const { client } = yield* training(server)
        const error = yield* Effect.flip(Effect.flatten(client.forwardBackward([datum], "cross_entropy")))
        assert.deepStrictEqual(
          [error._tag, error.description, error.requestId],
          ["RequestFailed", "Model model_0a1b2c3d not found", "2"]
        )
        yield* yield* client.optimStep({ learningRate: 1e-4 })
      }))

    it.scoped("a poll that ends without a result is asked again; one that breaks is tried again", () =>
      Effect.gen(function*() {
        const server = skyrl({
          poll: (id, times) =>
            id !== 2
              ? undefined
              : times === 0
              ? Server.refuse(408, { detail: "Timeout waiting for result" })
              : times === 1
              ? Server.refuse(500, { detail: "Unknown error" })
              : undefined
        })
        const { client } = yield* training(server)
        const fiber = yield* Effect.fork(Effect.flatten(client.forwardBackward([datum], "cross_entropy")))
        yield* TestClock.adjust("1 minute")
        assert.strictEqual((yield* fiber).metrics["final_loss"], 0.75)
        const polls = server.of("retrieve_future").filter(({ json }) => json["request_id"] === "2")
        assert.strictEqual(polls.length, 3)
      }))

    it.scoped("polls are held for minutes: one is enough, and nothing is taken for a failure", () =>
      Effect.gen(function*() {
        const server = skyrl({ hold: "200 seconds" })
        const created = yield* Effect.fork(training(server))
        yield* TestClock.adjust("200 seconds")
        const { client } = yield* created
        const future = yield* client.optimStep({ learningRate: 1e-4 })
        const fiber = yield* Effect.fork(future)
        yield* TestClock.adjust("200 seconds")
        yield* fiber
        assert.strictEqual(server.of("retrieve_future").length, 2)
      }))

    it.scoped("a body that its models refuse is a BadRequest that names the field", () =>
      Effect.gen(function*() {
        const server = skyrl({
          refuse: {
            save_weights: Server.refuse(422, {
              detail: [{ type: "string_pattern_mismatch", loc: ["body", "path"], msg: "String should match pattern" }]
            })
          }
        })
        const { client } = yield* training(server)
        const error = yield* Effect.flip(client.saveState("a b"))
        assert.strictEqual(error._tag, "BadRequest")
        assert.strictEqual(error.description, "body.path: String should match pattern")
      }))

    it.scoped("a name that is taken is a Conflict at once: a first attempt cannot meet its own copy", () =>
      Effect.gen(function*() {
        const detail = "Checkpoint 'step_1' already exists for model 'model_0a1b2c3d'"
        const server = skyrl({ refuse: { save_weights: Server.refuse(409, { detail }) } })
        const { client } = yield* training(server)
        const error = yield* Effect.flip(client.saveState("step_1"))
        assert.deepStrictEqual([error._tag, error.description], ["Conflict", detail])
        assert.strictEqual(server.of("save_weights").length, 1)
      }))

    it.effect("runs, checkpoints and samplers are read with the fields that are there; what is missing is Unsupported", () =>
      Effect.gen(function*() {
        const rest = yield* RestClient.RestClient
        const [listed] = yield* Effect.map(Stream.runCollect(rest.streamTrainingRuns()), (runs) => [...runs])
        assert.strictEqual(listed?.baseModel, "Qwen/Qwen3-0.6B")
        const one = yield* rest.getTrainingRunByPath("tinker://model_0a1b2c3d/weights/step_1")
        assert.strictEqual(DateTime.formatIso(one.lastRequestTime), "2026-08-21T18:02:38.123Z")
        assert.strictEqual((yield* rest.getSampler("sampling_99aabbcc")).modelPath, "tinker://model_0a1b2c3d/step_1")
        const { checkpoints, cursor } = yield* rest.listCheckpoints("model_0a1b2c3d")
        assert.deepStrictEqual(checkpoints.map(({ tinkerPath }) => tinkerPath), [
          "tinker://model_0a1b2c3d/weights/step_1"
        ])
        assert.isUndefined(cursor)
        assert.strictEqual((yield* rest.getWeightsInfo("tinker://model_0a1b2c3d/weights/step_1")).loraRank, 8)
        assert.strictEqual((yield* Effect.flip(rest.listSessions()))._tag, "Unsupported")
        const error = yield* Effect.flip(rest.listUserCheckpoints())
        assert.strictEqual(error._tag, "Unsupported")
        assert.match(error.message, /this server does not offer it .*\n.*listTrainingRuns and listCheckpoints/)
      }).pipe(
        Effect.provide(
          RestClient.layer(options).pipe(Layer.provide(skyrl().layer))
        )
      ))
  })

  describe("the form of a pass", () => {
    const forms = (server: ReturnType<typeof skyrl>) =>
      server.seen.filter(({ path }) => path.includes("/forward")).map(({ headers, path }) =>
        `${path.replace("/api/v1/", "")} ${headers["content-type"]}`
      )

    it.scoped("is JSON for a server of the time before protobuf, with a place of its own for forward passes", () =>
      Effect.gen(function*() {
        const server = skyrl()
        const { client } = yield* training(server, Server.options)
        yield* yield* client.forwardBackward([datum], "cross_entropy")
        yield* yield* client.forward([datum], "cross_entropy")
        assert.deepStrictEqual(forms(server), ["forward_backward application/json", "forward application/json"])
        assert.deepStrictEqual(server.of("forward_backward")[0]?.json, {
          model_id: "model_0a1b2c3d",
          seq_id: 1,
          forward_backward_input: {
            loss_fn: "cross_entropy",
            data: [{
              model_input: { chunks: [{ type: "encoded_text", tokens: [1, 2] }] },
              loss_fn_inputs: {
                target_tokens: { data: [2, 3], dtype: "int64", shape: [2] },
                weights: { data: [1, 1], dtype: "float32", shape: [2] }
              }
            }]
          }
        })
        assert.strictEqual(server.of("forward")[0]?.json["seq_id"], 2)
        assert.property(server.of("forward")[0]?.json, "forward_input")
      }))

    it.scoped("is protobuf for a server since then, and nothing is asked for that was not asked anyway", () =>
      Effect.gen(function*() {
        const server = skyrl({ modern: true })
        const { client } = yield* training(server, Server.options)
        yield* yield* client.forwardBackward([datum], "cross_entropy")
        yield* yield* client.forward([datum], "cross_entropy")
        assert.deepStrictEqual(server.paths().filter((path) => path !== "retrieve_future"), [
          "client/config",
          "client/dynamic_config",
          "create_session",
          "create_model",
          "forward_backward",
          "forward_backward"
        ])
        assert.deepStrictEqual(forms(server), [
          "forward_backward application/x-protobuf",
          "forward_backward application/x-protobuf"
        ])
      }))

    it.scoped("is what a server between the two asks for", () =>
      Effect.gen(function*() {
        const server = skyrl({ flags: { proto_write_fwdbwd: true } })
        const { client } = yield* training(server, Server.options)
        yield* yield* client.forwardBackward([datum], "cross_entropy")
        yield* yield* client.forward([datum], "cross_entropy")
        assert.deepStrictEqual(forms(server), ["forward_backward application/x-protobuf", "forward application/json"])
      }))

    const refusals = {
      "500 in plain text, as of SkyRL 0.3.0": Server.refuse(500, "Internal Server Error"),
      "415": Server.refuse(415, { detail: "Unsupported media type" }),
      "422 about the whole body": Server.refuse(422, {
        detail: [{ type: "model_attributes_type", loc: ["body"], msg: "Input should be a valid dictionary" }]
      })
    }
    for (const [name, answer] of Object.entries(refusals)) {
      it.scoped(`a refusal of protobuf (${name}) is followed by JSON at once, under the same number`, () =>
        Effect.gen(function*() {
          const server = skyrl({ refuseForm: { form: "protobuf", answer } })
          const { client } = yield* training(server, { ...Server.options, compatibility: { passes: "protobuf" } })
          // No clock is moved here: nothing waits.
          yield* yield* client.forwardBackward([datum], "cross_entropy")
          yield* yield* client.optimStep({ learningRate: 1e-4 })
          yield* yield* client.forwardBackward([datum], "cross_entropy")
          assert.deepStrictEqual(forms(server), [
            "forward_backward application/x-protobuf",
            "forward_backward application/json",
            "forward_backward application/json"
          ])
          const [refused, resent, next] = server.of("forward_backward")
          assert.strictEqual(resent?.headers["x-idempotency-key"], refused?.headers["x-idempotency-key"])
          assert.deepStrictEqual([resent?.json["seq_id"], next?.json["seq_id"]], [1, 3])
        }))
    }

    it.scoped("a server that reads protobuf alone is found out too", () =>
      Effect.gen(function*() {
        const server = skyrl({ refuseForm: { form: "json", answer: refusals["415"] } })
        const { client } = yield* training(server, Server.options)
        yield* yield* client.forward([datum], "cross_entropy")
        yield* yield* client.forward([datum], "cross_entropy")
        assert.deepStrictEqual(forms(server), [
          "forward application/json",
          "forward_backward application/x-protobuf",
          "forward_backward application/x-protobuf"
        ])
      }))

    it.scoped("a server that is down is not taken for one that refuses a form", () =>
      Effect.gen(function*() {
        let down = 3
        const broken: Server.Answer = Server.refuse(500, "Internal Server Error")
        const refuse = {
          get forward_backward() {
            return down-- > 0 ? broken : undefined
          }
        }
        const server = skyrl({ refuse })
        const { client } = yield* training(server, Server.options)
        const pass = yield* Effect.fork(Effect.flatten(client.forwardBackward([datum], "cross_entropy")))
        yield* TestClock.adjust("1 minute")
        yield* pass
        assert.strictEqual(forms(server).at(-1), "forward_backward application/json")

        // Where the form is known to work, the other is not even tried.
        down = 1
        const modern = skyrl({ modern: true, refuse })
        const { client: other } = yield* training(modern, Server.options)
        const second = yield* Effect.fork(Effect.flatten(other.forwardBackward([datum], "cross_entropy")))
        yield* TestClock.adjust("1 minute")
        yield* second
        assert.deepStrictEqual(forms(modern), [
          "forward_backward application/x-protobuf",
          "forward_backward application/x-protobuf"
        ])
      }))

    it.scoped("what the data say wrong is not taken for a refusal of the form", () =>
      Effect.gen(function*() {
        const server = skyrl({
          refuse: {
            forward_backward: Server.refuse(422, {
              detail: [{
                type: "literal_error",
                loc: ["body", "forward_backward_input", "loss_fn"],
                msg: "no such loss"
              }]
            })
          }
        })
        const { client } = yield* training(server, Server.options)
        const error = yield* Effect.flip(client.forwardBackward([datum], "cross_entropy"))
        assert.strictEqual(error._tag, "BadRequest")
        assert.strictEqual(forms(server).length, 1)
      }))

    it.scoped("numbers that JSON has no word for are refused here", () =>
      Effect.gen(function*() {
        const server = skyrl()
        const { client } = yield* training(server, Server.options)
        const infinite = Either.getOrThrow(Datum.fromTokens([1, 2, 3], { weights: [1, Number.POSITIVE_INFINITY, 1] }))
        const error = yield* Effect.flip(client.forwardBackward([infinite], "cross_entropy"))
        assert.strictEqual(error._tag, "InvalidInput")
        assert.match(error.message, /weights of datum 0 is not finite/)
        yield* yield* client.forwardBackward([datum], "cross_entropy")
        assert.strictEqual(server.of("forward_backward")[0]?.json["seq_id"], 1)
      }))
  })

  it.scoped("archives are found under the bare name of a checkpoint where a server has no other route", () =>
    Effect.gen(function*() {
      const archive = "/api/v1/training_runs/model_0a1b2c3d/checkpoints/step_1/archive"
      const server = Server.make(({ path }) =>
        path === archive
          ? { status: 302, headers: { location: "http://localhost:1/download" }, body: new Uint8Array(0) }
          : path.endsWith("/client/config")
          ? undefined
          : unknown
      )
      const rest = yield* RestClient.RestClient.pipe(
        Effect.provide(yield* Layer.build(RestClient.layer(Server.options).pipe(Layer.provide(server.layer))))
      )
      const urlOf = (path: string) => Effect.map(rest.getCheckpointArchiveUrl(path), ({ url }) => url)
      assert.strictEqual(yield* urlOf("tinker://model_0a1b2c3d/step_1"), "http://localhost:1/download")
      assert.strictEqual(yield* urlOf("tinker://model_0a1b2c3d/sampler_weights/step_1"), "http://localhost:1/download")
      assert.strictEqual(yield* urlOf("tinker://model_0a1b2c3d/sampler_weights/step_1"), "http://localhost:1/download")
      // Asked once under the full id, then remembered.
      assert.strictEqual(server.paths().filter((path) => path.includes("sampler_weights")).length, 1)
    }))

  it.scoped("a server with another prefix and other paths is one of configuration (G8)", () =>
    Effect.gen(function*() {
      const server = Server.make(({ path }) => {
        switch (path) {
          case "/base/v2/client/config":
            return Server.json({})
          case "/base/v2/capabilities":
            return Server.json({ supported_models: [{ model_name: "m" }] })
          default:
            return unknown
        }
      })
      const service = yield* ServiceClient.ServiceClient.pipe(
        Effect.provide(
          yield* Layer.build(
            ServiceClient.layer({
              baseUrl: "http://localhost:1/base/",
              apiKey: "tml-key",
              apiPrefix: "/v2",
              paths: { capabilities: "/api/v1/capabilities" }
            }).pipe(Layer.provide(server.layer))
          )
        )
      )
      const { supportedModels } = yield* service.serverCapabilities
      assert.strictEqual(supportedModels[0]?.modelName, "m")
    }))
})
