import { Judge, Policy, Rollout, Trajectory } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { SamplingClient } from "effect-tinker"
import { Local, renderer } from "./utils/local.js"

/** The shorter one is better, and the judge likes what it is shown first. */
const shorter: Judge.Judge = ({ a, b }) =>
  Effect.succeed(Math.max(-1, Math.min(1, Math.sign(b.length - a.length) + 0.5)))

describe("Judge", () => {
  it.effect("a tournament ranks; both orders undo a liking for the first", () =>
    Effect.gen(function*() {
      const comparison = { prompt: [], a: "long", b: "long" }
      assert.strictEqual(yield* shorter(comparison), 0.5)
      assert.strictEqual(yield* Judge.symmetric(shorter)(comparison), 0)
      const scores = yield* Judge.tournament(Judge.symmetric(shorter), [], ["aaa", "a", "aa", "a"])
      assert.deepStrictEqual(scores, [-0.75, 0.5, -0.25, 0.5])
      assert.deepStrictEqual(yield* Judge.tournament(shorter, [], ["alone"]), [0])
    }))

  it.effect("both orders are asked at once", () =>
    Effect.gen(function*() {
      const answered = yield* Effect.makeLatch()
      const asked: Array<string> = []
      const judge: Judge.Judge<never> = ({ a }) =>
        Effect.suspend(() => {
          asked.push(a)
          return Effect.as(answered.await, 1)
        })
      const fiber = yield* Effect.fork(Judge.symmetric(judge)({ prompt: [], a: "x", b: "y" }))
      yield* Effect.repeatN(Effect.yieldNow(), 5)
      assert.deepStrictEqual(asked.sort(), ["x", "y"])
      yield* answered.open
      assert.strictEqual(yield* Fiber.join(fiber), 0)
    }))

  it.effect("a judge agrees with people as far as it says what they said", () =>
    Effect.gen(function*() {
      const decided = (a: string, b: string, preferred: Judge.Decided["preferred"]) => ({ prompt: [], a, b, preferred })
      const judge = Judge.symmetric(shorter)
      // verdicts a, b, b, tie: 3 of 4 are equal; by chance 2/4 x 1/4 + 1/4 x 2/4 + 1/4 x 1/4
      const found = yield* Judge.agreement(judge, [
        decided("x", "xx", "a"),
        decided("xx", "x", "b"),
        decided("xxx", "x", "a"),
        decided("x", "x", "tie")
      ])
      assert.deepInclude(found, { equal: 0.75, byChance: 0.3125, pairs: 4 })
      assert.closeTo(found.kappa, 7 / 11, 1e-12)
      // a verdict of 0.75 or less counts as a tie
      const careful = yield* Judge.agreement(judge, [decided("x", "xx", "tie"), decided("x", "x", "tie")], {
        tie: 0.75
      })
      assert.strictEqual(careful.equal, 1)
    }))

  it.scoped("the answers of a group are compared with each other", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const policy = Policy.fromScript([
        write.tokenizer.encode("a very long answer<|im_end|>"),
        write.tokenizer.encode("short<|im_end|>")
      ])
      const problem = Judge.problem({
        question: "?",
        judge: Judge.symmetric(shorter),
        check: (answer) => answer === "short" ? 0.1 : 0
      })
      const group = yield* Rollout.group(policy, problem, { size: 2, settings: { renderer: write }, concurrency: 1 })
      const [long = NaN, short = NaN] = Trajectory.rewardsOf(group)
      assert.closeTo(long, -0.75, 1e-9)
      assert.closeTo(short, 0.85, 1e-9)
    }))

  it.scoped("a model is asked for its probabilities", () =>
    Effect.gen(function*() {
      const model = { renderer: yield* renderer, sampler: yield* SamplingClient.make({ baseModel: "local/tiny" }) }
      const question = [Message.user("A or B?")]
      const shares = yield* Judge.probabilities(model, question, ["A", "B", "C"])
      assert.closeTo(shares.reduce((sum, share) => sum + share, 0), 1, 1e-6)
      const [a = 0, b = 0] = yield* Judge.probabilities(model, question, ["A", "B"])
      assert.closeTo(a / b, (shares[0] ?? 0) / (shares[1] ?? 1), 1e-4)
      const grade = yield* Judge.grade(model, question, { A: 1, B: 0 })
      assert.closeTo(grade, a, 1e-6)
      const judge = Judge.fromModel(model, { ask: () => question })
      assert.closeTo(yield* judge({ prompt: [], a: "x", b: "y" }), a - b, 1e-6)
      assert.closeTo(yield* Judge.symmetric(judge)({ prompt: [], a: "x", b: "y" }), 0, 1e-9)
    }).pipe(Effect.provide(Local)))
})
