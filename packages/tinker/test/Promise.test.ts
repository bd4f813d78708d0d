import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { runInNewContext } from "node:vm"
import { Tinker } from "../src/Promise.js"
import * as Server from "./utils/recordingServer.js"
import * as Sampling from "./utils/samplingServer.js"
import * as Training from "./utils/trainingServer.js"

const answer = { type: "sample", sequences: [{ stop_reason: "length", tokens: [1], logprobs: [-1] }] }

const turns = (n: number) => Effect.runPromise(Effect.repeatN(Effect.yieldNow(), n))

describe("Promise", () => {
  it("a connection that cannot be made leaves nothing open", async () => {
    let open = 0
    const layer = Layer.provideMerge(
      Layer.scopedDiscard(Effect.acquireRelease(Effect.sync(() => open++), () => Effect.sync(() => open--))),
      Server.make(() => undefined).layer
    )
    const failure = await Tinker.connect({ ...Server.options, timeout: 0, layer }).catch((error: unknown) => error)
    assert.propertyVal(failure, "_tag", "InvalidInput")
    assert.strictEqual(open, 0)
  })

  it("clients may be closed twice, and after their connection", async () => {
    const tinker = await Tinker.connect({ ...Server.options, layer: Training.make().layer })
    const training = await tinker.createLoraTrainingClient({ baseModel: "base" })
    await training.close()
    await training.close()
    await tinker.close()
    await training.close()
    await tinker.close()
    const late = await training.optimStep({ learningRate: 1 }).catch((error: unknown) => error)
    assert.propertyVal(late, "_tag", "Closed")
  })

  it("a loop over samples that is aborted between two of them stops those that run ahead", async () => {
    const server = Sampling.make(
      answer,
      (seen) =>
        seen.path.endsWith("/retrieve_future") && !String(seen.json["request_id"]).endsWith(":0")
          ? Effect.never
          : undefined
    )
    const tinker = await Tinker.connect({ ...Server.options, layer: server.layer })
    const sampler = await tinker.createSamplingClient({ baseModel: "base" })
    const controller = new AbortController()
    const requests = Array.from({ length: 4 }, () => ({ prompt: [1, 2], samplingParams: { maxTokens: 1 } }))
    const failure = await (async () => {
      for await (const { index } of sampler.sampleMany(requests, { concurrency: 4, signal: controller.signal })) {
        assert.strictEqual(index, 0)
        await turns(50)
        controller.abort("enough")
      }
      return undefined
    })().catch((error: unknown) => error)
    assert.strictEqual(failure, "enough")
    const held = server.of("retrieve_future").filter(({ answered }) => !answered)
    assert.strictEqual(held.length, 3)
    assert.isTrue(held.every(({ aborted }) => aborted))
    await tinker.close()
  })

  it("closing waits for what a loop that was aborted has to release", async () => {
    const tinker = await Tinker.connect({ ...Server.options, layer: Training.make().layer })
    const released: Array<string> = []
    let finish = () => {}
    const held = new Promise<void>((resolve) => {
      finish = resolve
    })
    const controller = new AbortController()
    const saving = Stream.acquireRelease(Effect.succeed(1), () =>
      Effect.promise(async () => {
        await held
        released.push("saved")
      })).pipe(Stream.concat(Stream.never))
    const failure = await (async () => {
      for await (const _ of tinker.iterate(saving, { signal: controller.signal })) {
        turns(5).then(() => controller.abort("enough"))
      }
      return undefined
    })().catch((error: unknown) => error)
    assert.strictEqual(failure, "enough")
    const closing = tinker.close().then(() => released.push("closed"))
    await turns(50)
    assert.deepStrictEqual(released, [])
    finish()
    await closing
    assert.deepStrictEqual(released, ["saved", "closed"])
  })

  it("a loss may return a promise of another realm", async () => {
    const Foreign: PromiseConstructor = runInNewContext("Promise")
    const tinker = await Tinker.connect({ ...Server.options, layer: Training.make().layer })
    const training = await tinker.createLoraTrainingClient({ baseModel: "base" })
    const data = [{ modelInput: [1], lossFnInputs: { target_tokens: [2], weights: [1] } }]
    const output = await training.forwardBackwardCustom(
      data,
      () => Foreign.resolve({ loss: 1, gradients: [[0.5]], metrics: { own: 2 } })
    )
    assert.strictEqual(output.metrics["own"], 2)
    await tinker.close()
  })
})
