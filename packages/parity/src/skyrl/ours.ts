/**
 * Our SDK on a SkyRL server: what `python/skyrl_server/client.py` does, and what happens when things go wrong.
 */
import * as Safetensors from "@effect-tinker/local/Safetensors"
import { FileSystem, Path } from "@effect/platform"
import { Clock, Effect, Either, Fiber, Stream } from "effect"
import {
  Checkpoint,
  CheckpointDownload,
  Datum,
  Loss,
  ModelInput,
  RestClient,
  SamplingClient,
  ServiceClient,
  TinkerFuture,
  TrainingClient
} from "effect-tinker"
import { Differs } from "../Suite.js"

/** The suite's name, for its failures. */
export const name = "skyrl"

export const differs = (difference: string) => new Differs({ suite: name, differences: [difference] })

const length = 24

const tokens = (example: number): ReadonlyArray<number> =>
  Array.from({ length }, (_, position) => 3 + (example * 31 + position * 7) % 500)

/** The same as in the Python client. */
export const data = [0, 1, 2, 3].map((example) => Either.getOrThrow(Datum.fromTokens(tokens(example))))

export const prompt = tokens(0).slice(0, 8)

const adam = { learningRate: 1e-3 }

export interface Trained {
  readonly losses: ReadonlyArray<number>
  readonly state: string
  readonly sampler: string
  readonly tokens: ReadonlyArray<number>
  readonly logprobs: ReadonlyArray<number>
  readonly resumed: number
  /** Seconds. */
  readonly wall: number
  readonly cpu: number
}

const forwardLoss = (training: TrainingClient.Service) =>
  training.forward(data, "cross_entropy").pipe(
    TinkerFuture.await,
    Effect.map((output) => Loss.summarize(output, data).sum)
  )

/** Seconds of wall and CPU time. */
const timed = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const started = yield* Clock.currentTimeNanos
    const cpu = process.cpuUsage()
    const value = yield* self
    const { system, user } = process.cpuUsage(cpu)
    return { value, wall: Number((yield* Clock.currentTimeNanos) - started) / 1e9, cpu: (system + user) / 1e6 }
  })

const pipelined = (training: TrainingClient.Service, steps: number) =>
  Effect.gen(function*() {
    const accepted = yield* Effect.forEach(
      Array.from({ length: steps }),
      () => training.trainStep(data, "cross_entropy", adam)
    )
    return yield* Effect.forEach(accepted, (step) => Effect.map(step, ({ loss }) => loss.sum))
  })

/** What the same steps take once both sides are warm. */
export const throughput = (model: string, warm: number, steps: number) =>
  Effect.gen(function*() {
    const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 8, seed: 11 })
    yield* pipelined(training, warm)
    const { cpu, wall } = yield* timed(pipelined(training, steps))
    return { cpu, wall }
  })

/**
 * As many steps as the Python client took, all accepted before the first result is awaited. Both sides take a few on
 * another model first: a server compiles what it runs for the first time, and so do we.
 */
export const train = Effect.fnUntraced(function*(model: string, steps: number) {
  yield* pipelined(yield* TrainingClient.makeLora({ baseModel: model, rank: 8, seed: 3 }), 5)
  const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 8, seed: 11 })
  const { cpu, value: losses, wall } = yield* timed(pipelined(training, steps))
  const { path: state } = yield* training.saveState("ours").pipe(TinkerFuture.await)
  const { path: sampler } = yield* training.saveWeightsForSampler("ours").pipe(TinkerFuture.await)
  const sampling = yield* SamplingClient.make({ modelPath: sampler })
  const drawn = yield* sampling.sample({
    prompt: ModelInput.fromInts(prompt),
    maxTokens: 8,
    temperature: 0,
    seed: 1
  })
  const logprobs = yield* sampling.computeLogprobs(ModelInput.fromInts(prompt))
  const resumed = yield* TrainingClient.makeFromState({ path: state })
  const trained: Trained = {
    losses,
    state,
    sampler,
    tokens: Array.from(drawn.sequences[0]?.tokens ?? []),
    logprobs: Array.from(logprobs),
    resumed: yield* forwardLoss(resumed),
    wall,
    cpu
  }
  return { training, trained }
})

/** What went otherwise than it should, in a line each. */
type Problems = ReadonlyArray<string>

const tagOf = <A, E extends { readonly _tag: string }, R>(self: Effect.Effect<A, E, R>) =>
  Effect.match(self, { onFailure: ({ _tag }) => _tag, onSuccess: () => "success" })

const expectTag = (what: string, expected: string, actual: string): Problems =>
  actual === expected ? [] : [`${what}: ${actual} instead of ${expected}`]

/** What is final is final at once, what is absent says so, and a call that was left does not hold up the next. */
export const behaves = Effect.fnUntraced(function*(training: TrainingClient.Service) {
  const service = yield* ServiceClient.ServiceClient
  const taken = yield* tagOf(training.saveState("ours"))
  const unknown = yield* tagOf(Effect.scoped(service.createLoraTrainingClient({ baseModel: "no/such-model" })))
  const left = yield* training.forwardBackward(data, "cross_entropy")
  const waiting = yield* Effect.fork(left)
  yield* Effect.yieldNow()
  yield* Fiber.interrupt(waiting)
  yield* TinkerFuture.ignore(left)
  const next = yield* tagOf(Effect.flatten(training.optimStep(adam)))
  return [
    ...expectTag("a checkpoint name that is taken", "Conflict", taken),
    ...expectTag("an unknown base model", "InvalidInput", unknown),
    ...expectTag("an operation after one that was left", "success", next)
  ]
})

/** Lists, and the tensors of the archive. */
export const records = Effect.fnUntraced(function*({ sampler, state }: Trained, directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const rest = yield* RestClient.RestClient
  const { trainingRunId } = yield* Checkpoint.parsePath(state)
  const runs = yield* Stream.runCollect(rest.streamTrainingRuns())
  const { checkpoints } = yield* rest.listCheckpoints(trainingRunId)
  const found = yield* rest.getCheckpoint(sampler)
  const sessions = yield* tagOf(rest.listSessions())
  const { files } = yield* CheckpointDownload.run({ tinkerPath: sampler, directory })
  const bytes = yield* fs.readFile(path.join(directory, "adapter_model.safetensors"))
  const adapter = yield* Either.mapLeft(Safetensors.decode(bytes), (problem) => differs(`the archive: ${problem}`))
  const loaded = adapter.tensors.filter(({ name }) => /lora_[AB]/.test(name))
  const broken = loaded.filter(({ data }) => !data.every(Number.isFinite))
  const untrained = loaded.filter(({ data, name }) => name.includes("lora_B") && data.every((value) => value === 0))
  return {
    summary:
      `${runs.length} runs, ${checkpoints.length} checkpoints, ${files} files with ${loaded.length} LoRA tensors`,
    problems: [
      ...(Array.from(runs).some((run) => run.trainingRunId === trainingRunId) ? [] : ["the run is not listed"]),
      ...(checkpoints.some(({ tinkerPath }) => tinkerPath === state) ? [] : ["the checkpoint is not listed"]),
      ...expectTag("the kind of the sampler's checkpoint", "sampler", found.checkpointType),
      ...expectTag("a list of sessions", "Unsupported", sessions),
      ...(loaded.length > 0 ? [] : [`no LoRA tensor among ${adapter.tensors.map(({ name }) => name).join(", ")}`]),
      ...broken.map(({ name }) => `${name} of the archive is not finite`),
      ...(untrained.length === loaded.length / 2 ? ["the tensors of the archive are untrained"] : [])
    ]
  }
})

/** After a restart the model is gone, the session's client is not: it resumes from the checkpoint. */
export const resumes = Effect.fnUntraced(function*(training: TrainingClient.Service, trained: Trained) {
  const lost = yield* tagOf(Effect.flatten(training.forward(data, "cross_entropy")))
  const resumed = yield* TrainingClient.makeFromState({ path: trained.state })
  const loss = yield* forwardLoss(resumed)
  return [
    ...expectTag("a pass on a model of before the restart", "RequestFailed", lost),
    ...(Math.abs(loss - trained.resumed) <= 1e-5 * Math.abs(loss)
      ? []
      : [`the loss after the restart is ${loss}, it was ${trained.resumed}`])
  ]
})
