import { Renderers, Tokenizers } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { Datum, Loss, SamplingClient, TinkerFuture, TrainingClient } from "effect-tinker"
import { readFileSync } from "node:fs"
import * as LocalCheckpoint from "../src/LocalCheckpoint.js"
import * as NodeTinkerLocal from "../src/NodeTinkerLocal.js"

const parts = Effect.gen(function*() {
  const tokenizer = yield* (yield* Tokenizers.Tokenizers).forModel("local/chat")
  return { tokenizer, renderer: yield* Renderers.forModel("local/chat", tokenizer) }
})

const ask = Effect.fnUntraced(function*(question: string) {
  const { renderer, tokenizer } = yield* parts
  const sampler = yield* SamplingClient.make({ baseModel: "local/chat" })
  const prompt = yield* renderer.generationPrompt([{ role: "user", content: question }])
  const { sequences } = yield* sampler.sample({ prompt, maxTokens: 96, temperature: 0 })
  const [first] = sequences
  return { text: tokenizer.decode(first?.tokens ?? [], { skipSpecialTokens: true }), stop: first?.stopReason }
})

describe("local/chat", () => {
  it.scopedLive("answers in words and ends its turn", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* ask("Thank you very much"), { text: "You are welcome!", stop: "stop" })
      const { text } = yield* ask("Mira lives in Oslo. Tarko lives in Velgrad. Where does Tarko live?")
      assert.include(text, "Velgrad")
    }).pipe(Effect.provide(NodeTinkerLocal.layerInProcess())))

  it.scopedLive("learns from examples", () =>
    Effect.gen(function*() {
      const { renderer } = yield* parts
      const training = yield* TrainingClient.makeLora({ baseModel: "local/chat", rank: 8, seed: 1 })
      assert.strictEqual(yield* training.tokenizerId, "local/chat")
      const { tokens, weights } = yield* renderer.supervised([
        { role: "user", content: "Who are you?" },
        { role: "assistant", content: "A pirate." }
      ])
      const batch = [yield* Datum.fromTokens(tokens, { weights })]
      const losses: Array<number> = []
      for (let step = 0; step < 8; step++) {
        const { pass } = yield* training.trainStep(batch, "cross_entropy", { learningRate: 1e-3 }).pipe(
          TinkerFuture.await
        )
        losses.push(Loss.summarize(pass, batch).perToken)
      }
      assert.isBelow(losses.at(-1) ?? Infinity, (losses[0] ?? 0) / 2)
    }).pipe(Effect.provide(NodeTinkerLocal.layerInProcess())))

  it.scopedLive(
    "over HTTP: chat in its own tokens, and its tokenizer where transformers looks for it",
    () =>
      Effect.gen(function*() {
        const { apiKey, baseUrl } = yield* NodeTinkerLocal.serve()
        const response = yield* Effect.promise(() =>
          fetch(`${baseUrl}/oai/api/v1/chat/completions`, {
            method: "POST",
            headers: { authorization: `Bearer ${Redacted.value(apiKey)}`, "content-type": "application/json" },
            body: JSON.stringify({
              model: "local/chat",
              messages: [{ role: "user", content: "Thank you very much" }],
              temperature: 0,
              logprobs: true
            })
          }).then((answer) => answer.json())
        )
        const [choice] = response.choices
        assert.strictEqual(choice.message.content, "You are welcome!")
        assert.strictEqual(choice.finish_reason, "stop")
        assert.strictEqual(choice.logprobs.content.at(-1).token, "<|im_end|>")
        for (const file of ["tokenizer.json", "chat_template.jinja"]) {
          const served = yield* Effect.promise(() =>
            fetch(`${baseUrl}/local/chat/resolve/main/${file}`).then((answer) => answer.text())
          )
          assert.strictEqual(served, readFileSync(new URL(file, LocalCheckpoint.chatDirectory), "utf8"))
        }
      }),
    60_000
  )
})
