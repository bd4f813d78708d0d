/** Scorers of the shape `autoevals` has, and what they do here. */
import { Dataset, Environment, Evaluator, Policy, Reinforce, Rollout, Scorer } from "@effect-tinker/cookbook"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { collect, Local, renderer } from "./local.js"

/** Those of `autoevals` that the tests use. That its own types fit is checked in `../autoevals`. */
export interface Scorers {
  readonly ExactMatch: Scorer.Scorer<Args>
  readonly Levenshtein: Scorer.Scorer<Args>
  readonly NumericDiff: Scorer.Scorer<{ readonly output: number; readonly expected?: number }>
}

export interface Args {
  readonly output: string
  readonly expected?: string
}

const capitals = [{ land: "Norway", city: "Oslo" }, { land: "Peru", city: "Lima" }] as const

const question = ({ land }: typeof capitals[number]) => `What is the capital of ${land}?`

/** What a group of rollouts is worth when the policy says this. */
const saying = <E>(problem: Environment.Group<E>, text: string) =>
  Effect.gen(function*() {
    const write = yield* renderer
    const policy = Policy.fromScript([write.tokenizer.encode(`${text}<|im_end|>`)])
    const { trajectories } = yield* Rollout.group(policy, problem, { size: 1, settings: { renderer: write } })
    return trajectories[0]?.turns[0]
  })

/** What every scorer must do, ours or a library's. */
export const suite = ({ ExactMatch, Levenshtein, NumericDiff }: Scorers) => {
  it.effect("as a reward", () =>
    Effect.gen(function*() {
      const [problem] = yield* collect(Dataset.values(Environment.problems(capitals, {
        question,
        reward: Scorer.reward(Levenshtein, ({ city }, output) => ({ output, expected: city }))
      })))
      assert.isDefined(problem)
      if (problem === undefined) return
      assert.strictEqual((yield* saying(problem, "Oslo"))?.reward, 1)
      assert.strictEqual((yield* saying(problem, "Osle"))?.reward, 0.75)
    }))

  it.effect("several at once: the mean is the reward, each is a metric by its name", () =>
    Effect.gen(function*() {
      const [problem] = yield* collect(Dataset.values(Scorer.problems(capitals, {
        question,
        scorers: [ExactMatch, Levenshtein],
        args: ({ city }, output) => ({ output, expected: city })
      })))
      assert.isDefined(problem)
      if (problem === undefined) return
      const turn = yield* saying(problem, "Osle")
      assert.deepStrictEqual([turn?.reward, turn?.metrics], [0.375, { ExactMatch: 0, Levenshtein: 0.75 }])
    }))

  it.effect("a scorer that throws is a typed failure", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Scorer.score(NumericDiff, { output: 1 }))
      assert.strictEqual(error._tag, "ScorerFailed")
      assert.include(error.message, "NumericDiff requires an expected value")
    }))

  it.scoped("a run is trained by one and evaluated by others", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const args = ({ city }: typeof capitals[number], output: string) => ({ output, expected: city })
      const test = Scorer.problems(capitals, { question, scorers: [ExactMatch, Levenshtein], args })
      const [report] = yield* collect(Reinforce.train({
        model: { baseModel: "local/tiny", rank: 4, seed: 1 },
        problems: Environment.problems(capitals, { question, reward: Scorer.reward(Levenshtein, args) }),
        renderer: write,
        // an answer that does not end is not scored
        settings: { overflowReward: 0, parseErrors: { reward: 0 } },
        learningRate: 1e-3,
        maxTokens: 4,
        groupSize: 4,
        groupsPerBatch: 2,
        keepConstant: true,
        evaluate: [Evaluator.rollouts(test, { settings: { renderer: write }, maxTokens: 4 })]
      }))
      assert.strictEqual(report?.detail.groups.length, 2)
      assert.isDefined(report?.evaluations["rollouts"]?.["env/all/reward"])
    }).pipe(Effect.provide(Local)))
}
