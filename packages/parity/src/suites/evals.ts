/**
 * `--evals`: the graders of benchmarks beside those of the official cookbook, lm-eval and the Berkeley Function Calling
 * Leaderboard, on made answers.
 */
import { ChoiceAnswer, FunctionCall, Instructions, MathAnswer, PythonAnswer } from "@effect-tinker/cookbook"
import { FileSystem, Path } from "@effect/platform"
import { Console, Effect, Schema } from "effect"
import * as answers from "../evals/answers.js"
import { apart, explain } from "../evals/explained.js"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs, PythonFailed } from "../Suite.js"

const name = "evals"

/** Answers for each grader, and what they are made from; both can be given: `--evals 20000 7`. */
const usual = { count: 10_000, seed: 1 }

/** Less is a failure, also where every difference is explained. */
const least = 0.999

const Verdict = Schema.parseJson(
  Schema.Record({ key: Schema.String, value: Schema.NullOr(Schema.Union(Schema.Boolean, Schema.String)) })
)

const Arguments = {
  number: Schema.Tuple(Schema.String, Schema.String),
  contest: Schema.Tuple(Schema.String, Schema.Number),
  math: Schema.Tuple(Schema.String, Schema.String),
  choice: Schema.Tuple(Schema.String, Schema.Number),
  code: Schema.Tuple(Schema.String),
  instruction: Schema.Tuple(
    Schema.String,
    Schema.Record({ key: Schema.String, value: Schema.Unknown }),
    Schema.String
  ),
  call: Schema.Tuple(
    Schema.Array(
      Schema.Struct({ name: Schema.String, arguments: Schema.Record({ key: Schema.String, value: Schema.Unknown }) })
    ),
    Schema.Array(Schema.Struct({
      name: Schema.String,
      parameters: Schema.Struct({
        properties: Schema.Record({
          key: Schema.String,
          value: Schema.Struct({
            type: Schema.String,
            items: Schema.optional(Schema.Struct({ type: Schema.String }))
          })
        }),
        required: Schema.optional(Schema.Array(Schema.String))
      })
    })),
    Schema.Array(
      Schema.Record({
        key: Schema.String,
        value: Schema.Record({ key: Schema.String, value: Schema.Array(Schema.Unknown) })
      })
    )
  )
}

const decode = <A, I>(schema: Schema.Schema<A, I>, given: ReadonlyArray<unknown>) =>
  Effect.orDie(Schema.decodeUnknown(schema)(given))

const graders: Readonly<
  Record<answers.Made["grader"], (given: ReadonlyArray<unknown>) => Effect.Effect<boolean | string>>
> = {
  number: (given) =>
    Effect.map(decode(Arguments.number, given), ([answer, wanted]) => MathAnswer.isNumber(answer, wanted)),
  contest: (given) =>
    Effect.map(decode(Arguments.contest, given), ([answer, wanted]) => MathAnswer.isContestInteger(answer, wanted)),
  math: (given) => Effect.map(decode(Arguments.math, given), ([answer, wanted]) => MathAnswer.isBoxed(answer, wanted)),
  choice: (given) =>
    Effect.map(decode(Arguments.choice, given), ([answer, choices]) => ChoiceAnswer.find(answer, choices)),
  code: (given) => Effect.map(decode(Arguments.code, given), ([answer]) => PythonAnswer.find(answer)),
  instruction: (given) =>
    Effect.flatMap(decode(Arguments.instruction, given), ([kind, arguments_, answer]) =>
      Effect.orDie(
        Effect.map(Instructions.follows(answer, [{ kind, arguments: arguments_ }]), ([follows]) => follows === true)
      )),
  call: (given) =>
    Effect.map(
      decode(Arguments.call, given),
      ([calls, signatures, accepted]) => FunctionCall.areCalls(calls, signatures, accepted)
    )
}

interface Tally {
  compared: number
  same: number
  readonly notes: Map<string, number>
}

const short = (value: unknown): string => JSON.stringify(value).slice(0, 300)

export const evals: Suite = {
  name,
  summary: "graders of benchmarks on 10,000 made answers each, beside three other projects'",
  run: (args) =>
    Effect.scoped(Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const python = yield* Python.makeEvals
      const [count = usual.count, seed = usual.seed] = args.map(Number).filter(Number.isInteger)
      const made = answers.make(count, seed)
      const directory = yield* fs.makeTempDirectoryScoped({ prefix: "effect-tinker-evals-" })
      const file = path.join(directory, "answers.jsonl")
      yield* fs.writeFileString(file, made.map((one) => JSON.stringify(one)).join("\n"))
      const lines = (yield* python.run("evals_graders", file)).trim().split("\n")
      if (lines.length !== made.length) {
        const reason = `${lines.length} verdicts on ${made.length} answers`
        return yield* new PythonFailed({ program: "evals_graders", reason })
      }
      const tallies = new Map<string, Tally>()
      const differences: Array<string> = []
      yield* Effect.forEach(made, (one, i) =>
        Effect.gen(function*() {
          const ours = yield* graders[one.grader](one.arguments)
          const theirs = yield* Effect.orDie(Schema.decodeUnknown(Verdict)(lines[i]))
          for (const [project, verdict] of Object.entries(theirs)) {
            const key = `${one.grader}, ${project}`
            const tally = tallies.get(key) ?? { compared: 0, same: 0, notes: new Map<string, number>() }
            tallies.set(key, tally)
            const note = (text: string) => tally.notes.set(text, (tally.notes.get(text) ?? 0) + 1)
            const reason = apart(one, project)
            if (reason !== undefined) {
              note(`not compared: ${reason}`)
              continue
            }
            tally.compared++
            const explained = verdict === ours ? undefined : explain(one, verdict)
            if (verdict === ours) tally.same++
            else if (explained !== undefined) note(explained)
            else differences.push(`${key}: ours ${short(ours)}, theirs ${short(verdict)}, for ${short(one.arguments)}`)
          }
        }))
      for (const [key, { compared, notes, same }] of tallies) {
        yield* Console.log(`${key}: ${same} of ${compared} alike (${(100 * same / compared).toFixed(2)} %)`)
        for (const [reason, times] of notes) yield* Console.log(`  ${times}: ${reason}`)
        if (same < least * compared) differences.push(`${key}: fewer than ${100 * least} % are alike`)
      }
      if (differences.length > 0) return yield* new Differs({ suite: name, differences })
    })).pipe(Effect.catchTags({
      BadArgument: (error) => new PythonFailed({ program: name, reason: error.message }),
      SystemError: (error) => new PythonFailed({ program: name, reason: error.message })
    }))
}
