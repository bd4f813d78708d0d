import { RunLog } from "@effect-tinker/cookbook"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { NodeFileSystem } from "@effect/platform-node"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { Effect, Exit, Option, Redacted, Scope } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as process_ from "./fixtures/process.js"
import * as training from "./fixtures/training.js"

let cli: process_.Tinker
let server: process_.Env
const scope = Effect.runSync(Scope.make())

beforeAll(async () => {
  cli = await process_.make()
  const key = "tml-local"
  const { baseUrl } = await Effect.runPromise(
    Scope.extend(NodeTinkerLocal.serve({ apiKeys: [{ key: Redacted.make(key) }] }), scope)
  )
  server = { TINKER_BASE_URL: baseUrl, TINKER_API_KEY: key }
}, 120_000)

afterAll(async () => {
  await Effect.runPromise(Scope.close(scope, Exit.void))
  cli.dispose()
})

// That each of these commands works as a process is tested with the process itself; here are processes where modules in
// TypeScript are loaded, and where a process is interrupted.
const place = () => training.place(cli, server)

const tiny = ["--model", "local/tiny", "--rank", "4"]

const seriesOf = (directory: string) =>
  Effect.map(RunLog.read(directory), (found) => {
    const { resumes, steps } = Option.getOrThrow(found)
    return { resumes, losses: steps.map(({ metrics, step }) => [step, metrics["loss"], metrics["learning_rate"]]) }
  }).pipe(Effect.provide(NodeFileSystem.layer), Effect.runPromise)

describe.sequential("tinker train", { timeout: 300_000 }, () => {
  it("sft: learns, holds rows out, records the run; eval and runs find it there", async () => {
    const { here, jsonHere: json } = place()
    const sft = [
      "train",
      "sft",
      "chats.jsonl",
      ...tiny,
      "--batch-size",
      "4",
      "--epochs",
      "4",
      "--learning-rate",
      "2e-3"
    ]
    const trained = await json(...sft, "--eval-split", "0.2", "--out", "runs/chats")
    assert.strictEqual(trained.complete, true)
    assert.isBelow(trained.loss, 0.8 * trained.first_loss)
    assert.isAbove(trained.evaluations.held_out.nll, 0)
    assert.match(trained.sampler_path, /^tinker:\/\/\S+\/sampler_weights\/final$/)
    // Run again there is nothing to do, and nothing is done.
    assert.deepStrictEqual(await json(...sft, "--eval-split", "0.2", "--out", "runs/chats"), trained)

    const { runs } = await json("runs")
    assert.deepStrictEqual(
      runs.map(({ directory, model, recipe, status, steps }: Record<string, unknown>) => [
        directory,
        status,
        recipe,
        model,
        steps
      ]),
      [["runs/chats", "complete", "supervised", "local/tiny", trained.steps]]
    )
    const shown = await json("runs", "show", "runs/chats")
    assert.strictEqual(shown.losses.length, trained.steps)
    assert.deepStrictEqual(shown.config.source, { file: "chats.jsonl", eval_split: 0.2 })
    const table = await here(["runs"])
    assert.match(table.stdout, /^RUN +STATUS +RECIPE[\s\S]*runs\/chats +complete +supervised +local\/tiny/)

    const compared = await json("eval", "runs/chats", "--on", "chats.jsonl", "--compare", "local/tiny")
    assert.isBelow(compared.metrics.nll, compared.compare_metrics.nll)
    assert.deepStrictEqual([compared.better, compared.worse, compared.same], [12, 0, 0])
    const scored = await json(
      "eval",
      trained.sampler_path,
      "--on",
      "chats.jsonl",
      "--scorer",
      "scorer.mjs",
      "--limit",
      "3"
    )
    assert.isAtLeast(scored.metrics.score, 0.5)
    assert.strictEqual(scored.examples.length, 3)
    assert.strictEqual(scored.examples[0].expected, "Ahoy!")
  })

  it("dpo: the chosen answers become likelier", async () => {
    const { jsonHere: json } = place()
    const trained = await json("train", "dpo", "pairs.jsonl", ...tiny, "--epochs", "3", "--learning-rate", "2e-3")
    assert.strictEqual(trained.run_dir, "runs/dpo-pairs-tiny")
    assert.isBelow(trained.loss, 0.65)
    const after = await json("eval", trained.run_dir, "--on", "pairs.jsonl")
    const before = await json("eval", "local/tiny", "--on", "pairs.jsonl")
    assert.isAbove(after.metrics.margin, before.metrics.margin)
  })

  it("rl and distill: environments from a TypeScript module, and a teacher", async () => {
    const { json } = place()
    const sampled = ["--max-tokens", "8", "--group-size", "4"]
    const trained = await json("train", "rl", "env.ts", ...tiny, ...sampled, "--epochs", "2", "groupsPerBatch=2")
    assert.strictEqual(trained.steps, 4)
    const rollouts = await json("eval", trained.run_dir, "--env", "env.ts", "--max-tokens", "8", "--group-size", "2")
    assert.strictEqual(rollouts.total, 4)
    assert.isTrue(rollouts.examples.every(({ value }: { readonly value: number }) => value >= 0 && value <= 1))
    const teacher = ["--teacher", trained.sampler_path]
    const student = await json("train", "distill", "pairs.jsonl", ...tiny, ...sampled, ...teacher, "--seed", "2")
    assert.strictEqual(student.steps, 1)
  })

  it("distill: the teacher's distribution in given answers, or of an instruction in the model's own", async () => {
    const { jsonHere: json } = place()
    const epochs = ["--epochs", "4", "--learning-rate", "2e-3", "--top-k", "5"]
    const off = await json(
      ...["train", "distill", "chats.jsonl", ...tiny, ...epochs, "--mode", "off-policy", "--teacher", "local/small"]
    )
    assert.strictEqual(off.run_dir, "runs/distill-off-policy-chats-tiny")
    assert.isBelow(off.loss, off.first_loss)
    const self = await json(
      ...["train", "distill", "chats.jsonl", ...tiny, "--max-tokens", "4", "--group-size", "2", "--steps", "1"],
      ...["--mode", "self", "--instruction", "Answer as a pirate."]
    )
    assert.deepStrictEqual([self.steps, self.run_dir], [1, "runs/distill-self-chats-tiny"])
  })

  it("agent: an agent of the AI SDK and one of @effect/ai, each rollout counting the same", async () => {
    const { fails, json } = place()
    const sampled = ["--max-tokens", "8", "--group", "4", "groupsPerBatch=2"]
    const trained = await json("train", "agent", "agent.ts", ...tiny, ...sampled, "--epochs", "2")
    assert.strictEqual(trained.run_dir, "runs/agent-agent-tiny")
    assert.strictEqual(trained.steps, 4)
    assert.isAtLeast(trained.evaluations.test["env/all/reward"], 0)
    assert.strictEqual((await json("runs", "show", trained.run_dir)).config.loss.normalize, "rollout")
    const other = await json("train", "agent", "effect-agent.ts", ...tiny, ...sampled)
    assert.strictEqual(other.steps, 2)
    const rollouts = await json("eval", trained.run_dir, "--env", "agent.ts", "--max-tokens", "8", "--group-size", "2")
    assert.strictEqual(rollouts.total, 1)
    assert.match(
      await fails("train", "agent", "env.ts", ...tiny),
      /^1 error: The default export of env\.ts is no agent/
    )
  })

  it("Ctrl-C saves, says how to go on, and the same command computes what an uninterrupted run computes", async () => {
    const args = ["train", "sft", "chats.jsonl", ...tiny, "--batch-size", "2", "--epochs", "4", "--warm-up", "2"]
    const whole = place()
    await whole.json(...args, "--run-dir", "run")
    const cut = place()
    const first = await cut.tinker([...args, "--run-dir", "run"], { interruptAt: /step 5\// })
    assert.strictEqual(first.code, 130, first.stderr)
    assert.match(first.stderr, /Saved at step (\d+) in run\. Run the same command again to go on from there\.\n/)
    const second = await cut.tinker([...args, "--run-dir", "run"])
    assert.strictEqual(second.code, 0, second.stderr)
    assert.match(second.stderr, /^Resuming the run in run at step \d+\n/)
    const [expected, found] = [await seriesOf(join(whole.cwd, "run")), await seriesOf(join(cut.cwd, "run"))]
    assert.strictEqual(expected.losses.length, 24)
    assert.deepStrictEqual(found, { resumes: 1, losses: expected.losses })
  })

  it("a budget ends a run before it is exceeded, and the run can go on with another", async () => {
    const { cwd, here } = place()
    const args = ["train", "sft", "chats.jsonl", ...tiny, "--batch-size", "2", "--epochs", "4", "--run-dir", "run"]
    const poor = await here([...args, "--token-budget", "600"])
    assert.strictEqual(poor.code, 1)
    assert.match(poor.stderr, /error: The budget is used up before the run is complete\n +It is saved in run/)
    const spent = Number(/Spent +([\d,]+) tokens/.exec(poor.stdout)?.[1]?.replace(",", ""))
    assert.isTrue(spent > 0 && spent <= 600, poor.stdout)
    const { losses } = await seriesOf(join(cwd, "run"))
    assert.isTrue(losses.length > 0 && losses.length < 24)
    const rich = await here([...args, "--budget", "1", "--price", "train=1,prefill=1,sample=1"])
    assert.strictEqual(rich.code, 0, rich.stderr)
    assert.strictEqual((await seriesOf(join(cwd, "run"))).losses.length, 24)
  })

  it("data check: what is trained on, what is skipped and why, lengths, tokens and cost", async () => {
    const { here, jsonHere: json } = place()
    const checked = await json(
      "data",
      "check",
      "flawed.jsonl",
      "--model",
      "local/tiny",
      "--price",
      "train=2",
      "--epochs",
      "3"
    )
    assert.strictEqual(checked.kept, 4)
    assert.deepStrictEqual(checked.skipped, { empty: 1, malformed: 2 })
    assert.deepStrictEqual(checked.skipped_rows.map(({ row }: { readonly row: number }) => row), [5, 6, 7])
    assert.isTrue(checked.trained_tokens > 0 && checked.trained_tokens < checked.tokens)
    assert.closeTo(checked.estimated_cost, 3 * checked.tokens * 2 / 1e6, 1e-12)
    assert.strictEqual(
      checked.histogram.reduce((sum: number, { count }: { readonly count: number }) => sum + count, 0),
      4
    )
    const shown = await here(["data", "check", "flawed.jsonl", "--model", "local/tiny"])
    assert.match(shown.stdout, /User: Hello![\s\S]*« Ahoy!/)
    assert.match(shown.stderr, /row 5: empty: no messages/)
    const pairs = await json("data", "check", "pairs.jsonl", "--model", "local/tiny")
    assert.strictEqual(pairs.kind, "preferences")
  })

  it("bad input is two lines and an exit code, and leaves no run behind", async () => {
    const { cwd, fails, refuses } = place()
    assert.match(await fails("train", "sft", "none.jsonl", ...tiny), /^1 error: No such file or directory: none\.jsonl/)
    assert.match(
      await refuses("train", "sft", "empty.jsonl", ...tiny),
      /^1 error: empty\.jsonl has no rows to train on/
    )
    assert.match(
      await refuses("train", "sft", "pairs.jsonl", ...tiny),
      /^2 error: pairs\.jsonl has pairs[\s\S]*train dpo/
    )
    assert.match(
      await refuses("train", "dpo", "chats.jsonl", ...tiny),
      /^2 error: chats\.jsonl has chats, not preferences/
    )
    assert.match(await refuses("train", "sft", "chats.jsonl"), /^2 error: .*--model/)
    assert.match(
      await refuses("train", "sft", "chats.jsonl", ...tiny, "adam.clop=1"),
      /^2 error: adam\.clop=1 does not fit: adam\.clop: is unexpected[\s\S]*The fields are: model, learningRate/
    )
    assert.match(
      await refuses("train", "sft", "chats.jsonl", ...tiny, "--eval-split", "1"),
      /^2 error: --eval-split must be at least 0 and less than 1/
    )
    assert.match(
      await refuses("train", "sft", "chats.jsonl", "--model", "some/thing"),
      /^2 error: No learning rate is known/
    )
    assert.match(
      await refuses("train", "sft", "chats.jsonl", ...tiny, "--budget", "1"),
      /^2 error: --budget needs prices/
    )
    assert.match(
      await refuses("train", "rl", "no-env.mjs", ...tiny),
      /^1 error: .*no environment: its problems have something/
    )
    assert.match(await refuses("train", "rl", "no-default.mjs", ...tiny), /^1 error: .*has no default export/)
    assert.match(
      await refuses("train", "distill", "pairs.jsonl", ...tiny, "--teacher", "x"),
      /^2 error: --teacher must be/
    )
    assert.match(
      await refuses("train", "distill", "pairs.jsonl", ...tiny),
      /^2 error: --mode on-policy needs --teacher/
    )
    assert.match(
      await refuses("train", "distill", "pairs.jsonl", ...tiny, "--mode", "self"),
      /^2 error: --mode self needs --instruction/
    )
    const offPolicy = ["--mode", "off-policy", "--teacher", "local/small"]
    assert.match(
      await refuses("train", "distill", "chats.jsonl", ...tiny, ...offPolicy, "--max-steps-off-policy", "1"),
      /^2 error: --max-steps-off-policy has no meaning with --mode off-policy/
    )
    assert.match(
      await refuses("train", "distill", "pairs.jsonl", ...tiny, ...offPolicy),
      /^2 error: pairs\.jsonl has pairs of answers/
    )
    assert.match(
      await refuses("train", "sft", "chats.jsonl", ...tiny, "--rank", "0"),
      /^2 error: rank: Expected a positive number, actual 0\n/
    )
    assert.match(await refuses("eval", "local/tiny"), /^2 error: There is nothing to evaluate on/)
    assert.match(
      await refuses("eval", "local/tiny", "--on", "chats.jsonl", "--scorer", "no-scorer.mjs"),
      /^1 error: The default export of no-scorer\.mjs is not a function/
    )
    assert.match(await refuses("runs", "show", "nothing"), /^1 error: There is no run in nothing/)
    assert.notInclude(readdirSync(cwd), "runs")
  })

  it("a directory that holds another run is not written to", async () => {
    const { cwd, jsonHere: json, refuses } = place()
    const args = ["train", "sft", "chats.jsonl", ...tiny, "--steps", "1", "--run-dir", "run"]
    await json(...args)
    const before = readFileSync(join(cwd, "run", "journal.jsonl"), "utf8")
    assert.match(await refuses(...args, "--seed", "7"), /^1 error: run holds a run with another .*seed[\s\S]*--run-dir/)
    assert.match(
      await refuses(...args.map((word) => word === "chats.jsonl" ? "flawed.jsonl" : word)),
      /^1 error: run holds a run with another .*source\.file/
    )
    assert.strictEqual(readFileSync(join(cwd, "run", "journal.jsonl"), "utf8"), before)
  })
})
