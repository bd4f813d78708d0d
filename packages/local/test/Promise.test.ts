import { chatFor, tokenizerFor } from "@effect-tinker/tokenizer/Promise"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Stream } from "effect"
import { Autodiff, CustomLoss, Loss, QueueState, ServiceClient, TinkerError, TinkerTransport } from "effect-tinker"
import { downloadCheckpoint, fromExamples, fromTokens, metrics, Tinker, type Training } from "effect-tinker/Promise"
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as LocalServer from "../src/LocalServer.js"
import * as LocalTokenizer from "../src/LocalTokenizer.js"
import { connectLocal } from "../src/Promise.js"
import * as TinkerLocal from "../src/TinkerLocal.js"

const model = "local/tiny"
const lesson = fromTokens(LocalTokenizer.encode("cat: meow\n"))
const prompt = LocalTokenizer.encode("cat:")
const adam = { learningRate: 5e-4 }

const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(() => assert.fail("it should reject"), (error: unknown) => error)

const later = () => new Promise((resolve) => setTimeout(resolve, 20))

/** A connection whose requests are recorded, with the server behind it. */
const watched = async () => {
  const paths: Array<string> = []
  let server: LocalServer.Service | undefined
  const layer = Layer.effect(
    TinkerTransport.TinkerTransport,
    Effect.gen(function*() {
      server = yield* LocalServer.LocalServer
      return TinkerTransport.mapSend((send) => (request) => {
        paths.push(request.path.replace(/^.*\/api\/v1\//, ""))
        return send(request)
      })(yield* TinkerTransport.TinkerTransport)
    })
  ).pipe(Layer.provide(TinkerLocal.layer({ hold: "50 millis" })), Layer.merge(Logger.remove(Logger.defaultLogger)))
  const tinker = await Tinker.connect({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey, layer })
  return {
    tinker,
    /** Operations of models, as they reached the server. */
    operations: () => paths.filter((path) => /^(forward|optim|save|load)/.test(path)),
    pause: () =>
      server === undefined ? assert.fail("no server") : Effect.runPromise(server.pause({ state: "paused_capacity" }))
  }
}

const lora = (tinker: Tinker): Promise<Training> =>
  tinker.createLoraTrainingClient({ baseModel: model, rank: 8, seed: 1 })

describe("Promise", () => {
  it("trains, samples, saves and lists, with awaits alone", async () => {
    await using tinker = await connectLocal()
    const training = await lora(tinker)
    const losses: Array<number> = []
    for (let step = 0; step < 8; step++) {
      const pass = training.forwardBackward([lesson], "cross_entropy")
      const stepped = training.optimStep(adam)
      losses.push((await pass).metrics["loss:sum"] ?? Number.NaN)
      await stepped
    }
    assert.isBelow(losses.at(-1) ?? Infinity, (losses[0] ?? 0) / 2)
    const { path } = await training.saveState("here")
    const resumed = await tinker.createTrainingClientFromState({ path, withOptimizer: true })
    const plain = { modelInput: lesson.modelInput, lossFnInputs: lesson.lossFnInputs }
    const [a, b] = await Promise.all([training, resumed].map((client) => client.forward([plain], "cross_entropy")))
    assert.closeTo(a?.metrics["loss:sum"] ?? 0, b?.metrics["loss:sum"] ?? 1, 1e-6)
    await using sampler = await training.saveWeightsAndGetSamplingClient()
    const { sequences } = await sampler.sample({ prompt, maxTokens: 4, stop: [] })
    assert.strictEqual(sequences[0]?.tokens.length, 4)
    assert.strictEqual((await sampler.computeLogprobs(Array.from(prompt))).length, 4)
    const names: Array<string> = []
    for await (const checkpoint of tinker.rest.userCheckpoints({ pageSize: 1 })) names.push(checkpoint.tinkerPath)
    assert.include(names, path)
    assert.include((await tinker.serverCapabilities()).supportedModels.map(({ modelName }) => modelName), model)
  })

  it("G16: a rejection nobody looks at fails the next save, sampler or close, and is logged once", async () => {
    const lines: Array<string> = []
    const logger = Logger.make(({ logLevel, message }) => {
      if (logLevel._tag === "Warning") lines.push(String(message))
    })
    const layer = Layer.merge(TinkerLocal.layer(), Logger.replace(Logger.defaultLogger, logger))
    const tinker = await Tinker.connect({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey, layer })
    const training = await lora(tinker)

    // Refused here, before anything is sent.
    training.optimStep({ learningRate: -1 })
    const save = await rejection(training.saveState("a"))
    assert.instanceOf(save, TinkerError.UnobservedFailure)
    assert.propertyVal(save, "operation", "optimStep")
    assert.instanceOf(Object(save).cause, TinkerError.InvalidInput)
    assert.strictEqual(lines.length, 1)

    // Refused by the server, after it was accepted.
    training.forwardBackward([lesson], Loss.other("no_such_loss"))
    assert.instanceOf(await rejection(training.saveWeightsAndGetSamplingClient()), TinkerError.UnobservedFailure)

    // Awaited late, or aborted by its caller: nothing is lost.
    const late = training.optimStep({ learningRate: -1 })
    await later()
    assert.instanceOf(await rejection(late), TinkerError.InvalidInput)
    training.optimStep(adam, { signal: AbortSignal.abort() })
    await training.saveState("b")

    training.forwardBackward([lesson], Loss.other("no_such_loss"))
    assert.instanceOf(await rejection(training.close()), TinkerError.UnobservedFailure)
    const other = await lora(tinker)
    other.optimStep({ learningRate: -1 })
    assert.instanceOf(await rejection(tinker.close()), TinkerError.UnobservedFailure)
    assert.strictEqual(lines.length, 4)
  })

  it("calls made in one tick reach the server in that order", async () => {
    const { operations, tinker } = await watched()
    const training = await lora(tinker)
    const calls: Array<Promise<unknown>> = []
    const expected: Array<string> = []
    for (let i = 0; i < 12; i++) {
      calls.push(training.forwardBackward([lesson], "cross_entropy"), training.optimStep(adam))
      expected.push("forward_backward", "optim_step")
      if (i % 4 === 3) {
        calls.push(training.saveState(`s${i}`))
        expected.push("save_weights")
      }
    }
    await Promise.all(calls)
    assert.deepStrictEqual(operations(), expected)
    await tinker.close()
  })

  it("an aborted call rejects with the signal's reason; what was not sent never is", async () => {
    const { operations, pause, tinker } = await watched()
    const training = await lora(tinker)
    await pause()
    const controller = new AbortController()
    const { signal } = controller
    const waiting = training.forwardBackward([lesson], "cross_entropy", { signal })
    await later()
    const sampling = tinker.createSamplingClient({ baseModel: model, signal })
    const reason = new Error("enough")
    controller.abort(reason)
    assert.strictEqual(await rejection(waiting), reason)
    assert.strictEqual(await rejection(sampling), reason)
    const before = operations().length
    assert.strictEqual(await rejection(training.optimStep(adam, { signal })), reason)
    assert.strictEqual(await rejection(Tinker.connect({ signal })), reason)
    const aborted = rejection(training.saveState("x", { signal: AbortSignal.abort() }))
    assert.propertyVal(await aborted, "name", "AbortError")
    assert.strictEqual(operations().length, before)
    await tinker.close()
  })

  it("closing rejects what is under way, and everything afterwards, as Closed", async () => {
    const { pause, tinker } = await watched()
    const training = await lora(tinker)
    await pause()
    const pass = rejection(training.forwardBackward([lesson], "cross_entropy"))
    const left = rejection(training.optimStep(adam))
    await later()
    await Promise.all([tinker.close(), tinker.close()])
    assert.instanceOf(await pass, TinkerError.Closed)
    assert.instanceOf(await rejection(training.optimStep(adam)), TinkerError.Closed)
    assert.instanceOf(await rejection(tinker.rest.listSessions()), TinkerError.Closed)
    assert.instanceOf(await left, TinkerError.Closed)
  })

  it("errors are the tagged classes themselves", async () => {
    await using tinker = await connectLocal()
    const missing = await rejection(tinker.rest.getTrainingRun("no-such-run"))
    assert.instanceOf(missing, TinkerError.NotFound)
    assert.instanceOf(missing, Error)
    assert.propertyVal(missing, "_tag", "NotFound")
    assert.propertyVal(missing, "status", 404)
    const training = await lora(tinker)
    assert.instanceOf(await rejection(training.forwardBackward([], "cross_entropy")), TinkerError.InvalidInput)
    const ragged = { modelInput: [1, 2], lossFnInputs: { target_tokens: [[1], [2, 3]], weights: [1, 1] } }
    assert.instanceOf(await rejection(training.forwardBackward([ragged], "cross_entropy")), TinkerError.InvalidInput)
    assert.throws(() => fromTokens([1]), TinkerError.InvalidInput)
    assert.instanceOf(await rejection(Tinker.connect({ baseUrl: "ftp://x" })), TinkerError.InvalidInput)
    assert.instanceOf(
      await rejection(tinker.rest.getBillingUsage({ startingOn: new Date("?"), endingBefore: new Date() })),
      TinkerError.InvalidInput
    )
  })

  it("many samples are an async iterator over any requests; a failed one is an element", async () => {
    await using tinker = await connectLocal()
    const sampler = await tinker.createSamplingClient({ baseModel: model })
    const requests = [1, -1, 2].map((maxTokens) => ({ prompt, maxTokens, stop: [] }))
    const lengths = new Map<number, number | string | undefined>()
    for await (const { error, index, response } of sampler.sampleMany(requests, { concurrency: 2 })) {
      lengths.set(index, error?._tag ?? response?.sequences[0]?.tokens.length)
    }
    assert.deepStrictEqual([lengths.get(0), lengths.get(1), lengths.get(2)], [1, "InvalidInput", 2])

    let pulled = 0
    const endless = async function*() {
      for (;;) {
        pulled++
        yield { prompt, maxTokens: 1 }
      }
    }
    let seen = 0
    for await (const { response } of sampler.sampleMany(endless(), { concurrency: 2 })) {
      assert.isDefined(response)
      if (++seen === 5) break
    }
    const then = pulled
    await later()
    assert.strictEqual(pulled, then)
    assert.isBelow(pulled, 30)

    const broken = async function*() {
      yield { prompt, maxTokens: 1 }
      throw new RangeError("mine")
    }
    const iterator = sampler.sampleMany(broken(), { concurrency: 1 })[Symbol.asyncIterator]()
    const [first, second] = await Promise.allSettled([iterator.next(), iterator.next()])
    assert.strictEqual(first.status, "fulfilled")
    assert.instanceOf(second.status === "rejected" ? second.reason : undefined, RangeError)
    assert.deepStrictEqual(await iterator.next(), { done: true, value: undefined })
  })

  it("losses of one's own may be asynchronous, and waiting is told", async () => {
    const { pause, tinker } = await watched()
    const training = await lora(tinker)
    const builtIn = await training.forwardBackward([lesson], "cross_entropy")
    const own = await training.forwardBackwardCustom([lesson], async (data, logprobs) => {
      await later()
      const [scores] = logprobs
      const [datum] = data
      if (scores === undefined || datum === undefined) return assert.fail("one datum")
      return { loss: Autodiff.neg(Autodiff.sum(Autodiff.mul(scores, CustomLoss.input(datum, "weights")))) }
    })
    assert.closeTo(own.metrics["loss:sum"] ?? 0, builtIn.metrics["loss:sum"] ?? 1, 1e-4)
    const mine = new RangeError("mine")
    assert.strictEqual(await rejection(training.forwardBackwardCustom([lesson], () => Promise.reject(mine))), mine)
    await pause()
    const told = await new Promise<QueueState.Event>((onEvent) => {
      training.forwardBackward([lesson], "cross_entropy", { onEvent }).catch(() => {})
    })
    assert.strictEqual(QueueState.reason(told), "the service is short of capacity")
    await tinker.close()
  })

  it("what is called after a custom loss is sent after it, also when nobody waits", async () => {
    const { operations, tinker } = await watched()
    const training = await lora(tinker)
    training.forwardBackwardCustom([lesson], async (_data, [scores]) => {
      await later()
      return { loss: scores === undefined ? assert.fail("one datum") : Autodiff.neg(Autodiff.sum(scores)) }
    })
    await training.optimStep(adam)
    assert.deepStrictEqual(operations(), ["forward_backward", "forward_backward", "optim_step"])
    await tinker.close()
  })

  it("rejections that nobody awaits do not reach the process", async () => {
    const unhandled: Array<unknown> = []
    const listen = (reason: unknown) => unhandled.push(reason)
    process.on("unhandledRejection", listen)
    const { tinker } = await watched()
    const training = await lora(tinker)
    training.forwardBackward([], "cross_entropy")
    training.optimStep({ learningRate: Number.NaN })
    tinker.rest.getTrainingRun("no-such-run")
    training.saveState("x", { signal: AbortSignal.abort() })
    await later()
    training.forwardBackward([lesson], "cross_entropy")
    tinker.rest.trainingRuns()[Symbol.asyncIterator]().next()
    const lost = await rejection(tinker.close())
    assert.instanceOf(lost, TinkerError.UnobservedFailure)
    assert.propertyVal(lost, "others", 1)
    training.optimStep(adam)
    tinker.rest.trainingRuns()[Symbol.asyncIterator]().next()
    await later()
    process.off("unhandledRejection", listen)
    assert.deepStrictEqual(unhandled, [])
  })

  it("chats: conversations in, answers out, continued from the exact tokens", async () => {
    await using tinker = await connectLocal()
    const tokenizer = await tokenizerFor(tinker, model)
    assert.strictEqual(tokenizer.decode(tokenizer.encode("meow")), "meow")
    const chat = await chatFor(tinker, model, { system: "Be brief." })
    const training = await tinker.createLoraTrainingClient({ baseModel: model, rank: 16, seed: 1 })
    const batch = fromExamples(await chat.supervised([{ user: "cat?", assistant: "meow" }]))
    const losses = []
    for (let step = 0; step < 3; step++) {
      losses.push((await training.trainStep(batch, "cross_entropy", { learningRate: 1e-3 })).loss.perToken)
    }
    assert.isBelow(losses[2] ?? NaN, losses[0] ?? 0)
    const sampler = await training.saveWeightsAndGetSamplingClient()
    const params = { maxTokens: 8, temperature: 0 }
    const answer = await chat.ask(sampler, "cat?", params)
    assert.deepStrictEqual(answer.message, chat.renderer.parse(answer.turn.completion).message)
    const streamed = []
    for await (const part of chat.askStream(sampler, "cat?", params)) {
      if (part._tag === "Answer") streamed.push(part.answer.text)
    }
    assert.deepStrictEqual(streamed, [answer.text])
    const next = await chat.reply(sampler, answer, "cat?", params)
    assert.deepStrictEqual(
      Array.from(next.turn.prompt.subarray(0, answer.turn.prompt.length)),
      Array.from(answer.turn.prompt)
    )
    assert.strictEqual(await rejection(chat.ask(sampler, "cat?", { signal: AbortSignal.abort("enough") })), "enough")
    const broken = new RangeError("the sampler's own")
    assert.strictEqual(await rejection(chat.ask({ sample: () => Promise.reject(broken) }, "cat?")), broken)
    assert.propertyVal(await rejection(chatFor(tinker, "no/such-model")), "_tag", "TokenizerNotFound")
  })

  it("downloads a checkpoint, and says how it goes on", async () => {
    const root = await mkdtemp(join(tmpdir(), "tinker-promise-"))
    try {
      await using tinker = await connectLocal({ services: NodeContext.layer })
      const training = await lora(tinker)
      const { path: tinkerPath } = await training.saveWeightsForSampler("here")
      const events: Array<string> = []
      const summary = await downloadCheckpoint(tinker, {
        tinkerPath,
        directory: join(root, "watched"),
        onEvent: ({ _tag }) => events.push(_tag)
      })
      assert.strictEqual(events.at(-1), "Completed")
      assert.strictEqual((await readdir(summary.directory)).length, summary.files)
      const quiet = await downloadCheckpoint(tinker, { tinkerPath, directory: join(root, "quiet") })
      assert.strictEqual(quiet.bytes, summary.bytes)
      const refused = await rejection(
        downloadCheckpoint(tinker, { tinkerPath: "tinker://nobody/weights/nothing", directory: join(root, "none") })
      )
      assert.propertyVal(refused, "_tag", "NotFound")
    } finally {
      await rm(root, { recursive: true })
    }
  })

  it("runs Effects and Streams with its services, and counts what was sent", async () => {
    const sent = () => metrics().filter(({ name }) => name === "tinker_requests_total").reduce((n, m) => n + m.value, 0)
    const before = sent()
    await using tinker = await connectLocal()
    const id = await tinker.run(Effect.flatMap(ServiceClient.ServiceClient, (client) => client.sessionId))
    assert.strictEqual(id, await tinker.sessionId())
    assert.isAbove(sent(), before)
    let released = 0
    const numbers = Stream.range(1, 10).pipe(Stream.rechunk(1), Stream.ensuring(Effect.sync(() => released++)))
    for await (const n of tinker.iterate(numbers)) if (n === 3) break
    assert.strictEqual(released, 1)
    assert.strictEqual(
      await rejection(tinker.run(Effect.never, { signal: AbortSignal.abort("enough") })),
      "enough"
    )
  })
})
