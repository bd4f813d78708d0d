/**
 * Pretrains `local/chat` from a seed: text, vocabulary, training, weights, evaluation, record.
 *
 *     npm run pretrain                    everything; continues where an earlier run was stopped
 *     npm run pretrain -- --released      begins with the weights in the package: trains only the cycles that were added to the
 *                                         plan since
 *     npm run pretrain -- --steps N       keeps the learning rate of the last cycle up until step N, then lets it fall over a
 *                                         third of that cycle's steps; a finished run goes on from where its rate began to fall
 *     npm run pretrain -- --data          generates the text and prints its hash, nothing else
 *     npm run pretrain -- --evaluate      measures the weights in the package and writes that into their record and the READMEs
 *
 * `--work DIR` names where text, checkpoints and the log are kept (`node_modules/.cache/pretrain`). `PYTHON` names the
 * interpreter (3.11 or newer) the environment is made with, `--python PATH` one that has the packages already. `PROCESSES=1`
 * trains on one core instead of two, with the same steps.
 */
import { Command, FileSystem, Path } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Config, Console, Data, Effect, Schema } from "effect"
import { createHash } from "node:crypto"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"

const here = fileURLToPath(new URL(".", import.meta.url))
const model = fileURLToPath(new URL("../models/chat", import.meta.url))
const heldOut = fileURLToPath(new URL("../test/fixtures/chat-held-out.jsonl", import.meta.url))
const cache = fileURLToPath(new URL("../../../node_modules/.cache/pretrain", import.meta.url))

class StepFailed extends Data.TaggedError("StepFailed")<{ readonly step: string; readonly code: number }> {
  override get message(): string {
    return `${this.step} ended with ${this.code}`
  }
}

const Seed = Schema.Struct({ seed: Schema.Int })

const Text = Schema.Struct({
  ...Seed.fields,
  count: Schema.Int,
  /** How often a made-up word stands for a known one, if not as usual. */
  madeUp: Schema.optional(Schema.Number)
})

const Rows = Schema.Struct({
  text: Schema.Array(Text),
  /** Rows of a length, in files `NAME-1.npz` and so on: one for each text, or one of long conversations. */
  streams: Schema.Array(
    Schema.Struct({ name: Schema.String, length: Schema.Int, long: Schema.optional(Schema.Boolean) })
  )
})

/** What of the plan concerns the text; the rest is read by the training program. */
const Plan = Schema.parseJson(Schema.Struct({
  vocabulary: Text,
  dev: Seed,
  long: Text,
  cycles: Schema.NonEmptyArray(Schema.Struct({
    stages: Schema.Array(Schema.Struct({
      ...Rows.fields,
      /** Text on which the model is to stay as it was when the cycle began. It has a mixture of its own, the next one. */
      kept: Schema.optional(Rows)
    }))
  }))
}))

/** How far the released weights were trained. */
const Released = Schema.parseJson(Schema.Struct({ plan: Schema.Struct({ cycles: Schema.Array(Schema.Unknown) }) }))

/** What `--steps` changes: the whole plan as it is, but for the length of its last cycle. */
const Lengths = Schema.parseJson(
  Schema.Struct(
    {
      cycles: Schema.NonEmptyArray(
        Schema.Struct(
          { stable_steps: Schema.Int, decay_steps: Schema.Int },
          { key: Schema.String, value: Schema.Unknown }
        )
      )
    },
    { key: Schema.String, value: Schema.Unknown }
  )
)

const withSteps = (plan: typeof Lengths.Type, steps: number): typeof Lengths.Type => {
  const before = plan.cycles.slice(0, -1)
  const begin = before.reduce((end, cycle) => Math.max(end, cycle.stable_steps + cycle.decay_steps), 0)
  const last = {
    ...plan.cycles[plan.cycles.length - 1],
    stable_steps: steps,
    decay_steps: Math.ceil((steps - begin) / 3)
  }
  const [first, ...rest] = [...before, last]
  return { ...plan, cycles: [first ?? last, ...rest] }
}

/** Runs a program with its output shown; anything but success ends the run. */
const run = (step: string, program: string, ...args: ReadonlyArray<string>) =>
  Command.make(program, ...args).pipe(
    Command.workingDirectory(here),
    Command.env({ PYTHONDONTWRITEBYTECODE: "1", OMP_WAIT_POLICY: "PASSIVE" }),
    Command.stdout("inherit"),
    Command.stderr("inherit"),
    Command.exitCode,
    Effect.flatMap((code) => code === 0 ? Effect.void : new StepFailed({ step, code }))
  )

const generate = (out: string, ...args: ReadonlyArray<string>) =>
  run(
    "generate",
    process.execPath,
    "--conditions=@effect-tinker/source",
    "--import",
    "tsx",
    "generate.ts",
    out,
    ...args
  )

/** The environment of `requirements.txt`, made at the first use and again when a pin changes. */
const environment = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const interpreter = yield* Config.string("PYTHON").pipe(Config.withDefault("python3"))
  const venv = path.join(here, ".venv")
  const python = path.join(venv, "bin", "python")
  const wanted = yield* fs.readFileString(path.join(here, "requirements.txt"))
  const installed = path.join(venv, "installed.txt")
  if ((yield* fs.readFileString(installed).pipe(Effect.orElseSucceed(() => ""))) !== wanted) {
    yield* Console.log(`installing ${wanted.trim().split("\n").join(", ")}`)
    yield* run("venv", interpreter, "-m", "venv", "--clear", venv)
    yield* run(
      "pip",
      python,
      "-m",
      "pip",
      "install",
      "--quiet",
      "--disable-pip-version-check",
      "-r",
      "requirements.txt"
    )
    yield* fs.writeFileString(installed, wanted)
  }
  return python
})

const sha256 = (file: string) =>
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFile(file)),
    (bytes) => createHash("sha256").update(bytes).digest("hex")
  )

/** The text of the plan and its hash. Files that are there already are not written again. */
const text = Effect.fnUntraced(function*(plan: typeof Plan.Type, work: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  yield* fs.makeDirectory(work, { recursive: true })
  const write = Effect.fnUntraced(function*(name: string, ...args: ReadonlyArray<string>) {
    const file = path.join(work, `${name}.jsonl`)
    if (!(yield* fs.exists(file))) {
      yield* generate(`${file}.new`, ...args)
      yield* fs.rename(`${file}.new`, file)
    }
    return file
  })
  const drawn = ({ count, madeUp, seed }: typeof Text.Type) => [
    "--seed",
    String(seed),
    "--count",
    String(count),
    ...(madeUp === undefined ? [] : ["--made-up", String(madeUp)])
  ]
  // The vocabulary is that of the first stage: weights are trained on with the tokens they began with.
  const vocabulary = yield* write("vocabulary", ...drawn(plan.vocabulary), "--stage", "1")
  const dev = yield* write("dev", "--seed", String(plan.dev.seed), "--measured")
  const long = yield* write("long", ...drawn(plan.long), "--skill", "long")
  let written = 0
  const stages = yield* Effect.forEach(
    plan.cycles.flatMap(({ stages }, cycle) =>
      stages.flatMap(({ kept, ...stage }) => kept === undefined ? [stage] : [stage, kept]).map((rows) => ({
        ...rows,
        cycle
      }))
    ),
    ({ cycle, streams, text }, stage) =>
      Effect.map(
        Effect.forEach(text, (entry) => write(`text-${++written}`, ...drawn(entry), "--stage", String(stage + 1))),
        (files) => ({ cycle, files, streams })
      )
  )
  const hashes = yield* Effect.forEach([vocabulary, ...stages.flatMap(({ files }) => files), long], sha256)
  const hash = createHash("sha256").update(hashes.join("\n")).digest("hex")
  yield* Console.log(`text: sha256 ${hash}`)
  return { vocabulary, dev, stages, long, hash }
})

const evaluate = (python: string, out: string) => run("evaluate", python, "evaluate.py", model, heldOut, out)

const program = Effect.gen(function*() {
  const { values } = parseArgs({
    options: {
      work: { type: "string", default: cache },
      python: { type: "string" },
      released: { type: "boolean", default: false },
      steps: { type: "string" },
      data: { type: "boolean", default: false },
      evaluate: { type: "boolean", default: false }
    }
  })
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const work = path.resolve(values.work)
  const inWork = (name: string) => path.join(work, name)
  const planFile = path.join(here, "plan.json")
  const source = yield* fs.readFileString(planFile)
  const plan = yield* Schema.decode(Plan)(source)
  const interpreter = values.python === undefined ? environment : Effect.succeed(path.resolve(values.python))

  if (values.evaluate) {
    yield* fs.makeDirectory(work, { recursive: true })
    const python = yield* interpreter
    yield* evaluate(python, inWork("evaluation.json"))
    return yield* run("record", python, "record.py", work, model)
  }
  const { dev, hash, long, stages, vocabulary } = yield* text(plan, work)
  if (values.data) return
  const python = yield* interpreter
  const tokenizer = path.join(model, "tokenizer.json")
  const checkpoint = inWork("checkpoint.pt")
  // Released weights keep the tokens they began with, and need no rows of the cycles they have behind them.
  const ended = values.released
    ? (yield* Schema.decode(Released)(yield* fs.readFileString(path.join(model, "record.json")))).plan.cycles.length
    : 0
  if (!values.released) yield* run("tokenizer", python, "tokenizer.py", vocabulary, model)
  const prepare = Effect.fnUntraced(function*(source: string, rows: ReadonlyArray<readonly [number, string]>) {
    const files = rows.map(([length, name]) => [length, inWork(`${name}.npz`)] as const)
    const complete = yield* Effect.every(files, ([, file]) => fs.exists(file))
    if (complete) return
    yield* run(
      "prepare",
      python,
      "prepare.py",
      tokenizer,
      source,
      ...files.map(([length, file]) => `${length}=${file}`)
    )
  })
  for (const { files, streams } of stages.filter(({ cycle }) => cycle >= ended)) {
    for (const [i, file] of files.entries()) {
      const rows = streams.filter(({ long }) => long !== true).map(({ length, name }) =>
        [length, `${name}-${i + 1}`] as const
      )
      yield* prepare(file, rows)
    }
    for (const { length, name } of streams.filter(({ long }) => long === true)) {
      yield* prepare(long, [[length, `${name}-1`]])
    }
  }
  yield* run("prepare", python, "prepare.py", tokenizer, dev, `1024=${inWork("dev.npz")}`, "--last")
  const settings = values.steps === undefined
    ? source
    : yield* Schema.encode(Lengths)(withSteps(yield* Schema.decode(Lengths)(source), Number(values.steps)))
  yield* fs.writeFileString(inWork("plan.json"), settings)
  if (values.released && !(yield* fs.exists(checkpoint))) {
    yield* run("begin", python, "begin.py", model, inWork("plan.json"), work)
  }
  yield* run("train", python, "train.py", work, inWork("plan.json"))
  yield* run("export", python, "export.py", checkpoint, inWork("plan.json"), model)
  yield* evaluate(python, inWork("evaluation.json"))
  yield* run("record", python, "record.py", work, model, hash)
})

program.pipe(Effect.provide(NodeContext.layer), NodeRuntime.runMain)
