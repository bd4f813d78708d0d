import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Schema } from "effect"
import { makeRandom } from "../../src/internal/engine/numbers.js"
import { addPart, gradientOf, makeSharedPass, partCount, planParts, takePart } from "../../src/internal/engine/parts.js"
import type { Example } from "../../src/internal/engine/requests.js"
import type { Work } from "../../src/internal/engine/space.js"

const Lengths = Schema.Array(Schema.Int.pipe(Schema.between(1, 1024))).pipe(Schema.maxItems(64))

const tokensOf = (lengths: ReadonlyArray<number>) => (part: { readonly from: number; readonly to: number }): number =>
  lengths.slice(part.from, part.to).reduce((sum, length) => sum + length, 0)

describe("planParts", () => {
  it.prop("parts follow each other, cover everything and keep to the limit", [Arbitrary.make(Lengths)], ([lengths]) => {
    const parts = planParts(lengths, 512)
    const ends = parts.map(({ to }) => to)
    assert.deepStrictEqual(parts.map(({ from }) => from), [0, ...ends].slice(0, parts.length))
    assert.strictEqual(ends.at(-1) ?? 0, lengths.length)
    // what is longer than the limit is a part by itself
    for (const part of parts) assert.isTrue(tokensOf(lengths)(part) <= 512 || part.to === part.from + 1)
  })

  it("the last quarter of a batch is cut into parts half as long", () => {
    const lengths = Array.from({ length: 16 }, () => 128)
    assert.deepStrictEqual(
      planParts(lengths, 512).map(tokensOf(lengths)),
      [256, 256, 256, 256, 256, 256, 128, 128, 128, 128]
    )
  })

  it("no part is cut below the tokens that are worth sending", () => {
    const lengths = Array.from({ length: 32 }, () => 16)
    assert.deepStrictEqual(planParts(lengths, 512).map(tokensOf(lengths)), [128, 128, 128, 128])
  })
})

describe("SharedPass", () => {
  const Settings = Schema.Struct({
    parts: Schema.Int.pipe(Schema.between(1, 12)),
    threads: Schema.Int.pipe(Schema.between(1, 4)),
    mostWaiting: Schema.Int.pipe(Schema.between(1, 4)),
    seed: Schema.Int
  })
  const size = 3

  it.prop(
    "the sum is that of the parts in their order, whichever thread is fast",
    [Arbitrary.make(Settings)],
    ([given]) => {
      const random = makeRandom(given.seed)
      const examples = Array.from({ length: given.parts }, (): Example => ({
        tokens: new Int32Array(200),
        targets: new Int32Array(200),
        width: 1,
        shape: [200],
        inputs: { weights: new Float32Array(200), logprobs: new Float32Array(0), advantages: new Float32Array(0) }
      }))
      const { shared } = makeSharedPass(examples, {
        partTokens: 200,
        gradientFloats: size,
        mostWaiting: given.mostWaiting,
        take: (length) => new Float32Array(length).fill(NaN)
      })
      assert.strictEqual(partCount(shared), given.parts)
      // of very different size, so that another order would give another sum
      const gradients = examples.map(() =>
        Float32Array.from({ length: size }, () => (random.next() - 0.5) * 10 ** (8 * random.next()))
      )
      const finished = Array.from({ length: given.parts }, () => 0)
      function* thread(): Work<void> {
        for (let part = takePart(shared); part !== "none"; part = takePart(shared)) {
          if (typeof part === "number") {
            const target = gradientOf(shared, part)
            for (const [index, value] of (gradients[part] ?? []).entries()) {
              target[index] = value
              yield
            }
            yield* addPart(shared, part, addInto)
            finished[part] = (finished[part] ?? 0) + 1
          }
          yield
        }
      }
      function* addInto(target: Float32Array, source: Float32Array): Work<void> {
        for (let i = 0; i < size; i++) {
          target[i] = (target[i] ?? NaN) + (source[i] ?? NaN)
          yield
        }
      }
      let running = Array.from({ length: given.threads }, thread)
      while (running.length > 0) {
        const chosen = running[Math.floor(random.next() * running.length)]
        if (chosen?.next().done === true) running = running.filter((other) => other !== chosen)
      }
      assert.deepStrictEqual(finished, examples.map(() => 1))
      const expected = gradients.reduce((sum, gradient) => sum.map((value, i) => value + (gradient[i] ?? NaN)))
      assert.deepStrictEqual(shared.gradient, expected)
    }
  )
})
