import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { readFileSync } from "node:fs"
import { Narrator } from "../shared/recipe.js"
import { beforeAndAfter, find, names, run } from "../shared/run.js"

const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), "utf8")

const Report = Schema.parseJson(Schema.Struct({
  recipe: Schema.String,
  seed: Schema.Int,
  before: Schema.Number,
  after: Schema.Number,
  passed: Schema.Literal(true)
}))

/** The seeds whose numbers the READMEs give. Rates and thresholds were chosen on others. */
const seeds = [0, 1, 2, 3, 4]

describe.each(names)("%s", (name) => {
  it.effect("is short, and its README has its numbers and the command for the hosted service", () =>
    Effect.gen(function*() {
      assert.isAtMost(read(`${name}/main.ts`).trimEnd().split("\n").length, 80)
      const readme = read(`${name}/README.md`)
      assert.include(readme, `npm run recipe -- ${name} --model`)
      const { model, passes } = yield* find(name)
      // what is downloaded first is not among the numbers of the bundled model
      if (!model.startsWith("local/")) return
      const lines = readme.split("\n").filter((text) => text.startsWith("{\"recipe\""))
      const reports = yield* Effect.forEach(lines, (line) => Schema.decode(Report)(line))
      assert.deepStrictEqual(reports.map(({ seed }) => seed), seeds)
      for (const report of reports) {
        assert.strictEqual(report.recipe, name)
        assert.isTrue(passes(report))
      }
      // the table of all recipes has the same numbers
      const row = read("README.md").split("\n").find((text) => text.startsWith(`| [${name}]`)) ?? ""
      assert.include(row, `| ${beforeAndAfter(reports)} | 5 of 5 |`)
    }))
})

// The others by `npm run recipe -- --all`.
describe.sequential("learns what it should", () => {
  for (const name of ["sl-loop", "chat-sl", "dpo"]) {
    it.live(`${name}, with another seed than those of the table`, () =>
      Effect.gen(function*() {
        const { report } = yield* run(name, { seed: 6 })
        assert.isTrue(report.passed, JSON.stringify(report))
      }).pipe(Effect.provideService(Narrator, { say: () => Effect.void })), 240_000)
  }
})
