import { Engine, LocalTokenizer } from "@effect-tinker/local"
import { Effect } from "effect"

const program = Effect.gen(function*() {
  const engine = yield* Engine.Engine
  const adapter = yield* engine.createAdapter({ baseModel: "local/tiny", rank: 32, seed: 1 })
  const tokens = LocalTokenizer.encode("cat: meow\n")
  const data = [{
    tokens: tokens.slice(0, -1),
    lossInputs: { target_tokens: { data: tokens.slice(1), shape: [tokens.length - 1] } }
  }]
  for (let step = 0; step < 30; step++) {
    yield* adapter.forwardBackward({ data, loss: "cross_entropy" })
    yield* adapter.optimStep({ learningRate: 5e-4 })
  }
  const sampler = yield* engine.sampler(yield* adapter.snapshot())
  const { sequences } = yield* sampler.sample({
    prompt: LocalTokenizer.encode("cat:"),
    params: { temperature: 0, stop: "\n", maxTokens: 20 }
  })
  return LocalTokenizer.decode(sequences[0]?.tokens ?? []) // " meow\n"
})

Effect.runPromise(program.pipe(Effect.provide(Engine.layer()))).then(console.log)
