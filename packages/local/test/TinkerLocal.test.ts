import { Chat, Message, Renderers, Tokenizer, Tokenizers } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Stream, TestClock } from "effect"
import * as ModelInput from "effect-tinker/ModelInput"
import * as OpenAiCompat from "effect-tinker/OpenAiCompat"
import * as SamplingClient from "effect-tinker/SamplingClient"
import * as ServiceClient from "effect-tinker/ServiceClient"
import * as TinkerTransport from "effect-tinker/TinkerTransport"
import * as Api from "effect-tinker/wire/Api"
import { SaveWeightsForSamplerRequest, SaveWeightsRequest } from "effect-tinker/wire/Weights"
import { readFileSync } from "node:fs"
import * as LocalCheckpoint from "../src/LocalCheckpoint.js"
import * as LocalTokenizer from "../src/LocalTokenizer.js"
import * as TinkerLocal from "../src/TinkerLocal.js"
import {
  call,
  createModel,
  openSampler,
  openSession,
  pass,
  passResult,
  resultOf,
  sample,
  sampleResult,
  step
} from "./server/support.js"

/** The vocabulary of `local/chat` with the two tokens that stand around an image. */
const seeing = Effect.suspend(() => {
  const file = JSON.parse(readFileSync(new URL("tokenizer.json", LocalCheckpoint.chatDirectory), "utf8"))
  const next = Object.keys(file.model.vocab).length + file.added_tokens.length
  const added = ["<|vision_start|>", "<|vision_end|>"].map((content, i) => ({
    ...file.added_tokens[0],
    id: next + i,
    content
  }))
  return Tokenizer.fromHuggingFace({
    tokenizerJson: { ...file, added_tokens: [...file.added_tokens, ...added] },
    tokenizerConfig: {}
  })
})

/** The client's requests to sample, as they leave it. */
const recording = (bodies: Array<string>) =>
  Layer.effect(
    TinkerTransport.TinkerTransport,
    Effect.map(
      TinkerTransport.TinkerTransport,
      TinkerTransport.mapSend((send) => (request) => {
        if (request.path.endsWith("/asample")) bodies.push(String(request.body))
        return send(request)
      })
    )
  )

describe("TinkerLocal", () => {
  it.scoped("is shown the images of a chat as chunks, and says that it reads text only", () => {
    const bodies: Array<string> = []
    return Effect.gen(function*() {
      const renderer = yield* Renderers.qwen3Vl(yield* seeing, { imageTokens: () => 3 })
      const chat = yield* Chat.make(renderer)
      const sampler = yield* SamplingClient.make({ baseModel: "local/tiny" })
      const png = new Uint8Array(33)
      png.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52])
      png[19] = png[23] = 8
      const question = Message.user([{ type: "text", text: "what is " }, Message.image(png, "png")])
      const refused = yield* Effect.flip(chat.ask(sampler, question, { maxTokens: 4 }))
      assert.include(refused.message, "reads text only")
      const [before, image, after] = JSON.parse(bodies[0] ?? "").prompt.chunks
      assert.deepStrictEqual(image, {
        type: "image",
        data: Buffer.from(png).toString("base64"),
        format: "png",
        expected_tokens: 3
      })
      const text = ({ tokens }: { readonly tokens: ReadonlyArray<number> }) => renderer.tokenizer.decode(tokens)
      assert.strictEqual(
        text(before) + text(after),
        "<|im_start|>user\nwhat is <|vision_start|><|vision_end|><|im_end|>\n<|im_start|>assistant\n"
      )
    }).pipe(Effect.provide(
      ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey }).pipe(
        Layer.provide(recording(bodies)),
        Layer.provide(TinkerLocal.layer())
      )
    ))
  })

  it.effect("lets the event loop turn between requests when it is due, though no socket lies between", () => {
    let turns = 0
    const pause = Effect.sync(() => void turns++)
    return Effect.gen(function*() {
      yield* openSession
      assert.strictEqual(turns, 0)
      yield* TestClock.adjust("10 millis")
      yield* openSession
      yield* openSession
      assert.strictEqual(turns, 1)
    }).pipe(Effect.provide(TinkerLocal.layer({ engine: { pause, sliceMillis: 10 } })))
  })

  it.effect("brings the tokenizers of its models, and of no others", () =>
    Effect.gen(function*() {
      const tokenizers = yield* Tokenizers.Tokenizers
      const text = "héllo<|im_end|>"
      for (const name of ["local/tiny", "local/small", LocalTokenizer.tokenizerId]) {
        const tokenizer = yield* tokenizers.forModel(name)
        assert.deepStrictEqual(Array.from(tokenizer.encode(text)), Array.from(LocalTokenizer.encode(text)))
      }
      const missing = yield* Effect.flip(tokenizers.forModel("Qwen/Qwen3-8B"))
      assert.strictEqual(missing._tag, "TokenizerNotFound")
    }).pipe(Effect.provide(TinkerLocal.layer())))

  it.effect("trains, saves and samples in process, over the wire's formats", () =>
    Effect.gen(function*() {
      const sessionId = yield* openSession
      const modelId = yield* createModel(sessionId)
      assert.strictEqual(modelId, `${sessionId}:train:0`)
      let seq = 0
      const losses: Array<number> = []
      for (let i = 0; i < 12; i++) {
        const forward = yield* pass(modelId, ++seq, ["cat: meow\n", "dog: woof\n"])
        const stepped = yield* step(modelId, ++seq)
        losses.push((yield* passResult(forward)).metrics["loss:sum"] ?? NaN)
        assert.property((yield* resultOf(stepped))["metrics"], "grad_norm")
      }
      assert.isBelow(losses[11] ?? Infinity, (losses[0] ?? 0) / 4)

      const saved = yield* resultOf(
        yield* call(
          Api.saveWeightsForSampler,
          new SaveWeightsForSamplerRequest({ modelId, path: "final", seqId: ++seq })
        )
      )
      assert.strictEqual(saved["path"], `tinker://${modelId}/sampler_weights/final`)
      const sampler = yield* openSampler(sessionId, 0, { modelPath: String(saved["path"]) })
      const future = yield* sample(sampler, 0, "cat:", { maxTokens: 8, temperature: 0, stop: ["\n"] })
      assert.deepStrictEqual(future.sampleSequenceIds?.map(String), [`${sampler}:0:0`])
      const { sequences } = yield* sampleResult(future)
      assert.strictEqual(LocalTokenizer.decode(sequences[0]?.tokens ?? []), " meow\n")
      assert.strictEqual(sequences[0]?.stopReason, "stop")
      assert.strictEqual(sequences[0]?.logprobs?.length, sequences[0]?.tokens.length)

      const state = yield* resultOf(yield* call(Api.saveWeights, new SaveWeightsRequest({ modelId, seqId: ++seq })))
      assert.match(String(state["path"]), /\/weights\/\d+$/)
    }).pipe(Effect.provide(TinkerLocal.layer())))

  for (
    const [title, clientConfig] of [
      ["by default", {}],
      ["with tokens and one poll per sampler", { pjwtAuthEnabled: true, sampleUseRetrieveFutures: true }]
    ] as const
  ) {
    it.scoped(`serves the SDK's own clients ${title}`, () =>
      Effect.gen(function*() {
        const sampler = yield* SamplingClient.make({ baseModel: "local/tiny" })
        const prompt = ModelInput.fromInts(LocalTokenizer.encode("the "))
        const answers = yield* Effect.forEach(
          Array.from({ length: 20 }, (_, seed) => seed),
          (seed) => sampler.sample({ prompt, maxTokens: 4, seed: seed % 2, stop: [] }),
          { concurrency: "unbounded" }
        )
        assert.isTrue(answers.every(({ sequences }) => sequences[0]?.tokens.length === 4))
        assert.deepStrictEqual(answers[0]?.sequences[0]?.tokens, answers[2]?.sequences[0]?.tokens)
        assert.strictEqual(yield* sampler.baseModel, "local/tiny")
        const scores = yield* sampler.computeLogprobs(prompt)
        assert.isTrue(Number.isNaN(scores[0]))
        assert.isBelow(scores[1] ?? 0, 0)
      }).pipe(Effect.provide(
        ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey }).pipe(
          Layer.provide(TinkerLocal.layer({ clientConfig }))
        )
      )))
  }

  it.effect("serves the SDK's OpenAI client, streamed", () =>
    Effect.gen(function*() {
      const client = yield* OpenAiCompat.OpenAiCompat
      const request = { model: "local/tiny", max_tokens: 6, seed: 1, messages: [{ role: "user", content: "hi" }] }
      const whole = yield* client.chat(request)
      const chunks = yield* Stream.runCollect(client.chatStream(request))
      assert.strictEqual(
        Array.from(chunks, (chunk) => chunk.choices[0]?.delta?.content ?? "").join(""),
        whole.choices[0]?.message.content
      )
    }).pipe(Effect.provide(
      OpenAiCompat.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey }).pipe(
        Layer.provide(TinkerLocal.layer())
      )
    )))
})
