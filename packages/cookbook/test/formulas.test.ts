import { CheckpointPolicy, DataQuality, Distill, LearningRate, Sensitive } from "@effect-tinker/cookbook"
import * as NodeHubDataset from "@effect-tinker/cookbook/NodeHubDataset"
import { LocalTokenizer } from "@effect-tinker/local"
import { Message, Renderers } from "@effect-tinker/tokenizer"
import { Tokenizer } from "@effect-tinker/tokenizer"
import { CannotContinue } from "@effect-tinker/tokenizer/TokenizerError"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Option } from "effect"
import { TensorData } from "effect-tinker"
import * as continuation from "../src/internal/continuation.js"
import * as expression from "../src/internal/expression.js"

describe("CheckpointPolicy", () => {
  it("is due when one of its cadences is, and never without a step", () => {
    const due = (cadence: CheckpointPolicy.Cadence, steps: number, tokens = 0, millis = 0) =>
      CheckpointPolicy.isDue(cadence, { steps, tokens, millis })
    assert.deepStrictEqual([1, 2, 3].map((steps) => due({ steps: 2 }, steps)), [false, true, true])
    assert.isFalse(due({ steps: 0 }, 5))
    assert.isFalse(due({}, 5, 1e9, 1e9))
    assert.deepStrictEqual([99, 100].map((tokens) => due({ tokens: 100 }, 1, tokens)), [false, true])
    assert.deepStrictEqual([999, 1000].map((millis) => due({ time: "1 second" }, 1, 0, millis)), [false, true])
    assert.isFalse(due({ tokens: 100, time: "1 second" }, 0, 100, 1000))
    assert.isTrue(due({ steps: 10, time: "1 second" }, 1, 0, 1000))
  })

  it("its defaults: every 20 steps, 7 days, 2 hours, 1 minute, a quarter of the time", () => {
    const { warnBefore, ...defaults } = CheckpointPolicy.resolve({})
    assert.deepStrictEqual(defaults, {
      periodic: { steps: 20 },
      ttl: 7 * 24 * 3_600_000,
      rolling: {},
      rollingTtl: 2 * 3_600_000,
      background: false,
      onExit: true,
      exitTimeout: 60_000
    })
    assert.strictEqual(warnBefore(1000), 250)
    const given = CheckpointPolicy.resolve({
      periodic: { steps: 3 },
      ttl: "1 day",
      rolling: { tokens: 4 },
      rollingTtl: "1 hour",
      background: true,
      onExit: false,
      exitTimeout: "5 seconds",
      warnBefore: "10 seconds"
    })
    assert.strictEqual(given.warnBefore(1000), 10_000)
    assert.deepInclude(given, {
      ttl: 24 * 3_600_000,
      rollingTtl: 3_600_000,
      background: true,
      onExit: false,
      exitTimeout: 5000
    })
    assert.deepStrictEqual([given.periodic, given.rolling], [{ steps: 3 }, { tokens: 4 }])
  })
})

describe("LearningRate", () => {
  const rates = (fields: ConstructorParameters<typeof LearningRate.LearningRate>[0], total: number) => {
    const rate = new LearningRate.LearningRate(fields)
    return Array.from({ length: total + 2 }, (_, step) => Number(LearningRate.at(rate, step, total).toFixed(6)))
  }

  it("rises by equal steps, stays, or falls as a line or half a cosine, and not below its end", () => {
    assert.deepStrictEqual(rates({ peak: 8 }, 2), [8, 8, 8, 8])
    // a quarter, two and three of the peak, then the peak
    assert.deepStrictEqual(rates({ peak: 8, warmUp: 3 }, 4), [2, 4, 6, 8, 8, 8])
    assert.deepStrictEqual(rates({ peak: 8, decay: "linear" }, 4), [8, 6, 4, 2, 0, 0])
    assert.deepStrictEqual(rates({ peak: 8, decay: "linear", warmUp: 1, floor: 0.25 }, 4), [4, 8, 6, 4, 2, 2])
    // (1 + cos(pi / 4)) / 2 = 0.853553, (1 + cos(3 pi / 4)) / 2 = 0.146447
    assert.deepStrictEqual(rates({ peak: 8, decay: "cosine" }, 4), [8, 6.828427, 4, 1.171573, 0, 0])
    assert.deepStrictEqual(rates({ peak: 8, decay: "cosine", floor: 0.5 }, 2), [8, 6, 4, 4])
    // nothing is left after the warm-up
    assert.deepStrictEqual(rates({ peak: 8, decay: "linear", warmUp: 1 }, 1), [4, 8, 0])
  })
})

describe("continuation", () => {
  it.effect("forks where the prompt that was rendered does not begin with what was sampled", () =>
    Effect.gen(function*() {
      const files = LocalTokenizer.huggingFaceFiles
      const real = yield* Renderers.qwen3Instruct(yield* Tokenizer.fromHuggingFace(files))
      const refusal = new CannotContinue({ renderer: "any", reason: "HistoryRewritten", description: "rewritten" })
      const turn = { messages: [Message.user("?")], prompt: Int32Array.of(1, 2), completion: Int32Array.of(3, 4) }
      const next = (rendered: ReadonlyArray<number>) =>
        continuation.nextPrompt(
          {
            ...real,
            continue: () => Either.left(refusal),
            generationPrompt: () => Effect.succeed(Int32Array.from(rendered))
          },
          turn,
          Message.assistant("!"),
          []
        )
      const same = yield* next([1, 2, 3, 4, 5])
      assert.deepStrictEqual([Array.from(same.prompt), same.fork], [[1, 2, 3, 4, 5], undefined])
      assert.isUndefined((yield* next([1, 2, 3, 4])).fork)
      for (const other of [[1, 2, 3], [0, 2, 3, 4], [1, 0, 3, 4], [1, 2, 0, 4], [1, 2, 3, 0, 5]]) {
        assert.deepStrictEqual(
          (yield* next(other)).fork,
          { reason: "HistoryRewritten", description: "rewritten" },
          other.join()
        )
      }
    }))
})

describe("expressions", () => {
  it("have the same value however they are written", () => {
    for (
      const [first, second] of [
        ["1 + 2 * 3 - 4 / 2", "5"],
        ["2^3^2", "512"],
        ["-2^2", "-4"],
        ["2 - -3", "5"],
        ["(a + b)^2", "a^2 + 2ab + b^2"],
        ["(a - b)(a + b)", "a^2 - b^2"],
        ["x/y*y", "x"],
        ["5!/3!", "20"],
        ["0!", "1"],
        ["sqrt(-4)", "2 sqrt(-1)"],
        ["sqrt(-1) * sqrt(-1)", "-1"],
        ["(1 + sqrt(-1))/(1 - sqrt(-1))", "sqrt(-1)"],
        ["(-8)^(2)", "64"],
        ["(-1)^(1/2)", "sqrt(-1)"],
        ["sin(x)^2 + cos(x)^2", "1"],
        ["tan(x) cot(x)", "1"],
        ["sec(x)", "1/cos(x)"],
        ["csc(x)", "1/sin(x)"],
        ["exp(ln(x))", "x"],
        ["log(exp(2))", "2"],
        ["sin(pi/6)", "0.5"],
        ["cos(sqrt(-1))", "(exp(1) + exp(-1))/2"],
        ["sin(sqrt(-1))/sqrt(-1)", "(exp(1) - exp(-1))/2"],
        ["sin(1 + sqrt(-1))", "sin(1)cos(sqrt(-1)) + cos(1)sin(sqrt(-1))"],
        ["cos(1 + sqrt(-1))", "cos(1)cos(sqrt(-1)) - sin(1)sin(sqrt(-1))"],
        ["exp(pi * sqrt(-1))", "-1"],
        ["ln(-1)", "pi sqrt(-1)"],
        ["0^(1/2)", "0"],
        ["1.5e2", "150"],
        ["sqrt x", "x^(1/2)"],
        ["2**3", "8"]
      ] as const
    ) {
      assert.isTrue(expression.same(first, second), `${first} = ${second}`)
      assert.isFalse(expression.same(first, `${second} + 0.001`), `${first} = ${second} + 0.001`)
    }
  })

  it("what cannot be read, or has no value, is the same as nothing", () => {
    for (const text of ["", "1 +", "(1", "1)", "2 ^", "#", "1/0", "(-1)!", "2.5!", "171!", "sin", "*2"]) {
      assert.isFalse(expression.same(text, text), text)
    }
    // levels of parentheses
    const deep = (levels: number) => `${"(".repeat(levels)}1${")".repeat(levels)}`
    assert.isTrue(expression.same(deep(90), "1"))
    assert.isFalse(expression.same(deep(200), "1"))
  })

  it("LaTeX as plain text", () => {
    for (
      const [latex, text] of [
        ["\\frac{1}{2}", "1/2"],
        ["7\\frac{3}{4}", "7 3/4"],
        ["\\dfrac{a+b}{10}", "(a+b)/10"],
        ["\\tfrac12", "1/2"],
        ["\\sqrt{x+1}", "sqrt(x+1)"],
        ["\\sqrt 2", "sqrt(2)"],
        ["\\sqrt[3]{8}", "((8)^(1/(3)))"],
        ["x^{10}", "x^10"],
        ["x^{a+1}", "x^(a+1)"],
        ["2\\cdot 3 \\times 4 \\div 2", "2*3 *4 /2"],
        ["\\pi r^2", "pir^2"],
        ["\\left(1,2\\right)", "(1,2)"],
        ["√2·3", "sqrt2*3"],
        ["\\text{no}", "no"],
        ["{a{b}}", "ab"],
        ["\\alpha\\,\\beta", "α β"]
      ] as const
    ) assert.strictEqual(expression.fromLatex(latex), text, latex)
  })
})

describe("what else is computed", () => {
  it("soft targets take the row of their place, and leave out what has none", () =>
    Effect.runPromise(Effect.gen(function*() {
      const one = { k: 1, tokenIds: Int32Array.of(5, 6, 7), logprobs: Float32Array.of(-1, -2, -3), length: 3 }
      const { datum, entropy } = yield* Distill.softTargets({
        tokens: Int32Array.of(1, 2, 3, 4),
        weights: [9, 1, 1, 1],
        candidates: one,
        offset: 1
      })
      // places 2, 3 and 4 of the candidates; there are three of them, from 0 on
      const targets = datum.lossFnInputs["target_tokens"]
      assert(targets !== undefined)
      assert.deepStrictEqual(TensorData.toNested(targets), [[7], [0], [0]])
      // One candidate is certain, whatever its probability was among all.
      assert.strictEqual(entropy, 0)
    })))

  it("a dataset of the hub by repository, revision, configuration and split", () => {
    const read = (text: string) => Option.getOrUndefined(NodeHubDataset.parse(text))
    const plain = { revision: undefined, config: undefined, split: undefined }
    assert.deepStrictEqual(read("openai/gsm8k"), { ...plain, repo: "openai/gsm8k" })
    assert.deepStrictEqual(read("squad:test"), { ...plain, repo: "squad", split: "test" })
    assert.deepStrictEqual(read("openai/gsm8k@refs/pr/1:main/test"), {
      repo: "openai/gsm8k",
      revision: "refs/pr/1",
      config: "main",
      split: "test"
    })
    for (const wrong of ["", "a/b/c", "../a", "a b", "a:", "a@"]) assert.isUndefined(read(wrong), wrong)
  })

  it("texts of rows, whoever wrote their messages and however", () => {
    const texts = (kind: "completions" | "preferences", row: Readonly<Record<string, unknown>>) =>
      DataQuality.textsOf({ kind, row, shape: kind })
    assert.deepStrictEqual(
      texts("completions", {
        prompt: [{ from: "human", value: "1?" }, { from: "gpt", value: "2" }, { role: "system", content: "3" }],
        completion: [{ role: "model", content: [{ text: "4" }, "5"] }]
      }),
      { prompt: "user: 1?\nassistant: 2\nsystem: 3", answers: ["assistant: 45"] }
    )
    assert.deepStrictEqual(texts("preferences", { prompt: "p", chosen: "a", rejected: 7 }), {
      prompt: "p",
      answers: ["a", ""]
    })
  })

  it("personal data in every text of a value, and nowhere else", () => {
    assert.deepStrictEqual(
      Sensitive.redactJson({ "ann@example.org": ["to bob@example.org", { a: null, b: 3, c: true }], d: "x" }),
      { "ann@example.org": ["to [EMAIL]", { a: null, b: 3, c: true }], d: "x" }
    )
  })
})
