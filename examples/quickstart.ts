/**
 * Fine-tunes a small language model on this machine, with the clients that talk to the hosted service.
 *
 * Run it with `npm run quickstart`. It needs no account and no network; the environment can send it elsewhere.
 * `--seed N` draws other problems, `--json` ends with what was measured on one line.
 */
import { Dataset, Environment, Example, Reinforce, Supervised } from "@effect-tinker/cookbook"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Chat, Message } from "@effect-tinker/tokenizer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Clock, Config, Effect, Random, Stream } from "effect"
import { ModelInput, SamplingClient, TrainingClient } from "effect-tinker"
import { availableParallelism } from "node:os"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { parseArgs } from "node:util"
import type { Problem } from "./quickstart/tasks.js"
import * as Tasks from "./quickstart/tasks.js"
import { makeScreen } from "./quickstart/terminal.js"
import { backend, baseUrl } from "./shared/backend.js"

const { values: { json, seed: given } } = parseArgs({
  options: { seed: { type: "string", default: "1" }, json: { type: "boolean", default: false } }
})
const seed = Number(given)
const screen = makeScreen(process.stdout, { color: process.env["NO_COLOR"] === undefined })
const model = Config.withDefault(Config.string("EXAMPLE_MODEL"), "local/chat")
/** Times the rates that are right for `local/chat`; large models want far smaller ones. */
const rate = Config.withDefault(Config.number("EXAMPLE_RATE"), 1)

const percent = (share: number) => `${Math.round(100 * share)} %`

/** Asks every question, and compares the likeliest answer with the right one. */
const exam = Effect.fnUntraced(
  function*(label: string, sampler: SamplingClient.Service, problems: ReadonlyArray<Problem>) {
    const chat = yield* Chat.forModel(yield* model)
    const bar = screen.bar(label, problems.length)
    let asked = 0
    const answers = yield* Effect.forEach(problems, ({ question }) =>
      chat.ask(
        (prompt, params) => sampler.sample({ prompt: ModelInput.fromInts(prompt), ...params }),
        question,
        { temperature: 0, maxTokens: 48 }
      ).pipe(
        Effect.map(({ text }) => text.trim()),
        Effect.tap(() => bar(++asked, ""))
      ), { concurrency: 16 })
    return { answers, right: answers.filter((answer, i) => answer === problems[i]?.answer).length / problems.length }
  }
)

type Exam = Effect.Effect.Success<ReturnType<typeof exam>>

const compare = (problems: ReadonlyArray<Problem>, before: Exam, after: Exam) =>
  Effect.zipRight(
    screen.table([
      ["held out", "before", "after"],
      ...problems.slice(0, 5).map(({ answer, question }, i) => {
        const [was = "", is = ""] = [before.answers[i], after.answers[i]]
        return [question, was, is === answer ? is : `${is} (${answer})`]
      })
    ]),
    screen.line(`  right of ${problems.length}: ${percent(before.right)} before, ${percent(after.right)} after`)
  )

const supervised = Effect.gen(function*() {
  yield* screen.heading("1. Learning from examples: orders in a format of your own")
  const { heldOut, train } = yield* Tasks.orders({ train: 192, heldOut: 40 })
  const baseModel = yield* model
  const { renderer } = yield* Chat.forModel(baseModel)
  const before = yield* exam("asking before", yield* SamplingClient.make({ baseModel }), heldOut)
  const losses: Array<number> = []
  const bar = screen.bar("training", 24)
  const { checkpoint } = yield* Supervised.train({
    model: { baseModel, rank: 16, seed },
    data: Dataset.map(
      Dataset.fromIterable(train),
      ({ answer, question }) => Example.conversation([Message.user(question), Message.assistant(answer)])
    ),
    renderer,
    batchSize: 16,
    epochs: 2,
    learningRate: { peak: Number(process.env["SLR"] ?? 2e-3) * (yield* rate), decay: "linear", warmUp: 3 }
  }).pipe(
    Stream.tap(({ loss, step }) => {
      losses.push(loss)
      return bar(step, `loss ${loss.toFixed(3)}`)
    }),
    Stream.runLast,
    Effect.flatMap(Effect.flatMap(({ final }) => final))
  )
  yield* screen.chart(losses, (value) => value.toFixed(1))
  const after = yield* exam(
    "asking after",
    yield* SamplingClient.make({ modelPath: checkpoint.samplerPath ?? "" }),
    heldOut
  )
  yield* compare(heldOut, before, after)
  return { before: before.right, after: after.right }
})

const reinforced = Effect.gen(function*() {
  const steps = Number(process.env["STEPS"] ?? 20)
  const groups = Number(process.env["GROUPS_"] ?? 16)
  yield* screen.heading("2. Learning from reward: sums, of which it knows about half")
  const { heldOut, train } = yield* Tasks.sums({ train: groups * steps, heldOut: 100 })
  const baseModel = yield* model
  const { renderer } = yield* Chat.forModel(baseModel)
  const before = yield* exam("asking before", yield* SamplingClient.make({ baseModel }), heldOut)
  const rewards: Array<number> = []
  const bar = screen.bar("training", steps)
  const { checkpoint } = yield* Reinforce.train({
    model: { baseModel, rank: 16, seed },
    problems: Environment.problems(train, {
      question: ({ question }) => question,
      reward: ({ answer }, said) => said.trim() === answer
    }),
    renderer,
    groupSize: Number(process.env["GROUP"] ?? 8),
    groupsPerBatch: groups,
    maxTokens: 12,
    seed,
    learningRate: Number(process.env["RLR"] ?? 3e-4) * (yield* rate)
  }).pipe(
    Stream.tap(({ detail, step }) => {
      rewards.push(detail.reward)
      return bar(step, `reward ${detail.reward.toFixed(2)}`)
    }),
    Stream.runLast,
    Effect.flatMap(Effect.flatMap(({ final }) => final))
  )
  yield* screen.chart(rewards, (value) => value.toFixed(1))
  const after = yield* exam(
    "asking after",
    yield* SamplingClient.make({ modelPath: checkpoint.samplerPath ?? "" }),
    heldOut
  )
  yield* compare(heldOut, before, after)
  return { before: before.right, after: after.right, answers: after.answers, heldOut, statePath: checkpoint.statePath }
})

const program = Effect.gen(function*() {
  const start = yield* Clock.currentTimeMillis
  const url = yield* baseUrl
  yield* screen.line(
    `Fine-tuning ${yield* model} ${url === "" ? "on this machine: no account, no network" : `on ${url}`}.`
  )
  const delay = monitorEventLoopDelay({ resolution: 1 })
  yield* SamplingClient.make({ baseModel: yield* model })
  delay.enable()
  const first = process.env["ONLY"] === "rl" ? { before: 0, after: 0 } : yield* supervised
  const { answers, heldOut, statePath, ...second } = yield* reinforced
  yield* screen.heading("3. Saving and coming back")
  const again = yield* TrainingClient.makeFromState({ path: statePath, withOptimizer: true })
  const resumed = yield* exam("asking again", yield* again.saveWeightsAndGetSamplingClient(), heldOut)
  const same = resumed.answers.filter((answer, i) => answer === answers[i]).length
  yield* screen.line(`  ${statePath}\n  loaded, it gives ${same} of ${heldOut.length} answers as before`)
  const seconds = ((yield* Clock.currentTimeMillis) - start) / 1000
  yield* screen.line(`\nDone in ${seconds.toFixed(1)} s.`)
  if (json) {
    yield* screen.line(JSON.stringify({
      seed,
      supervised: first,
      reward: second,
      same: same / heldOut.length,
      seconds,
      eventLoopDelayMillis: delay.max / 1e6
    }))
  }
})

NodeRuntime.runMain(program.pipe(
  Effect.withRandom(Random.make(seed)),
  Effect.scoped,
  Effect.provide(backend(NodeTinkerLocal.layerInProcess({ threads: availableParallelism() })))
))
