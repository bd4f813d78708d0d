import { describe } from "@effect/vitest"
import { suite } from "./utils/scorers.js"

const distance = (a: string, b: string): number => {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

// Scorer.e2e.test.ts says the same of those that `autoevals` has.
describe("scorers of our own", () => {
  suite({
    ExactMatch: ({ expected, output }) => ({ name: "ExactMatch", score: output === expected ? 1 : 0 }),
    Levenshtein: async ({ expected = "", output }) => ({
      name: "Levenshtein",
      score: 1 - distance(output, expected) / Math.max(output.length, expected.length, 1)
    }),
    NumericDiff: ({ expected, output }) => {
      if (expected === undefined) throw new Error("NumericDiff requires an expected value")
      return { name: "NumericDiff", score: output === expected ? 1 : 0 }
    }
  })
})
