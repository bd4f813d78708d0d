/**
 * Files from strangers: what is right, changed at random.
 */
import { ChatTemplate, Message } from "@effect-tinker/tokenizer"
import { assert } from "@effect/vitest"
import { Effect, Exit } from "effect"

/** TINKER_FUZZ_RUNS=10000 for the long run. */
export const runs = Number(process.env["TINKER_FUZZ_RUNS"] ?? 200)

/** Numbers from a seed, so that a failure can be run again. */
export const generator = (seed: number) => {
  let state = seed >>> 0
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 4_294_967_296) * below)
  }
}

/** A text with a stretch cut, doubled, or written over. */
const garble = (text: string, random: (below: number) => number): string => {
  const at = random(text.length)
  const end = Math.min(text.length, at + random(40))
  const pieces = [
    "{{ ",
    "{% for i in range(100000) %}",
    "{% endfor %}",
    " ~ ",
    "|join('x')",
    "|tojson",
    "namespace(",
    "[::-1]",
    "loop.",
    "%}",
    "macro f()"
  ]
  switch (random(4)) {
    case 0:
      return text.slice(0, at) + text.slice(end)
    case 1:
      return text.slice(0, end) + text.slice(at)
    case 2:
      return text.slice(0, at) + (pieces[random(pieces.length)] ?? "") + text.slice(end)
    default:
      return text.slice(0, at) + text.slice(random(text.length), at + 200) + text.slice(end)
  }
}

/** Lets the runner hear of the test, which hardly ever waits. */
export const breathe = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))

/** Templates, garbled, render or fail with a tag. The first of them is taken most often. */
export const renderGarbled = (sources: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const messages = [Message.system("s"), Message.user("hi"), Message.assistant("yes", "so")].map(Message.toTemplate)
    const count = { rendered: 0, refused: 0, slowest: 0 }
    for (let seed = 0; seed < runs; seed++) {
      if (seed % 50 === 0) yield* breathe
      const random = generator(seed + 1_000_000)
      let source = sources[random(3) === 0 ? random(sources.length) : 0] ?? ""
      for (let i = random(3); i >= 0; i--) source = garble(source, random)
      const started = performance.now()
      const exit = yield* Effect.exit(
        Effect.flatMap(ChatTemplate.compile(source), (template) =>
          template.render(messages, { addGenerationPrompt: true }))
      )
      count.slowest = Math.max(count.slowest, performance.now() - started)
      if (Exit.isSuccess(exit)) {
        count.rendered++
      } else {
        count.refused++
        assert.isTrue(exit.cause._tag === "Fail" && exit.cause.error._tag === "ChatTemplateFailed", `seed ${seed}`)
      }
    }
    assert.strictEqual(count.rendered + count.refused, runs)
    if (runs > 1000) {
      yield* Effect.log("templates", count)
    }
  })
