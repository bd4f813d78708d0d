import { Judge, Statistics } from "@effect-tinker/cookbook"
import { Effect } from "effect"

declare const judge: Judge.Judge
declare const decided: ReadonlyArray<Judge.Decided>
declare const answers: ReadonlyArray<{ readonly human: number; readonly judged: number }>

export const program = Effect.gen(function*() {
  // comparisons that people decided: { prompt, a, b, preferred: "a" | "b" | "tie" }
  const { high, kappa, low } = yield* Judge.agreement(judge, decided)

  // grades of the same answers, such as those given in the studio and those of the judge
  const grades = Statistics.agreement(answers.map(({ human, judged }) => ({ first: human, second: judged })), {
    weights: "quadratic" // 4 instead of 5 is less wrong than 1 instead of 5
  })
  return { comparisons: [low, kappa, high], grades: grades.kappa }
})
