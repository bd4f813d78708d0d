import { RunLog } from "@effect-tinker/cookbook"
import { RunDirectory } from "@effect-tinker/studio"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Exit, Option, Scope } from "effect"
import { spawnSync } from "node:child_process"

const directory = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const opened = (path: string) => Effect.flatMap(RunDirectory.open(path, "run"), (run) => Effect.orDie(run))

const losses = ({ table }: RunDirectory.Run) => {
  const found: Array<readonly [number, number]> = []
  table.each("loss", (step, value) => found.push([step, value]))
  return found
}

const step = (n: number, loss: number) =>
  `${
    JSON.stringify({
      _tag: "Step",
      time: 1e12 + n * 1000,
      step: n,
      metrics: { loss, tokens: 10 },
      timings: { step: 500 }
    })
  }\n`

const live = <A, E>(effect: Effect.Effect<A, E, FileSystem.FileSystem | NodeContext.NodeContext | Scope.Scope>) =>
  Effect.provide(effect, NodeContext.layer)

const wholeRun = (entries: ReadonlyArray<object>) => entries.map((entry) => `${JSON.stringify(entry)}\n`).join("")

describe("RunDirectory", () => {
  it.scoped("a run whose process is gone without a word says so at once, and not that it runs", () =>
    live(Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* directory
      yield* fs.writeFileString(`${path}/journal.jsonl`, step(1, 3))
      const run = yield* opened(path)
      const now = yield* Effect.promise(() => Promise.resolve(Date.now()))
      // Time stands still at zero in this test: a heartbeat is as old as it says.
      const statusWith = Effect.fnUntraced(function*(name: string, content: string) {
        yield* fs.writeFileString(`${path}/${name}`, content)
        yield* run.refresh
        yield* fs.remove(`${path}/${name}`)
        return run.summary(now).status
      })
      const { pid } = spawnSync(process.execPath, ["-e", "0"])
      yield* run.refresh
      assert.strictEqual(run.summary(now).status, "running")
      assert.strictEqual(yield* statusWith(`.lock-${pid}-1`, "0"), "gone")
      assert.strictEqual(yield* statusWith(`.lock-${process.pid}-999`, "0"), "running")
      // Elsewhere only the heartbeat tells.
      assert.strictEqual(yield* statusWith(`.lock-${pid}-1`, "0 another-machine 7"), "running")
      assert.strictEqual(yield* statusWith(`.lock-${pid}-1`, `${-180_001} another-machine 7`), "gone")
      // This process has the claim of another run too, which says when it started and where it is.
      yield* RunLog.claim(`${path}/other`)
      const [own = ""] = yield* fs.readDirectory(`${path}/other`)
      const claim = yield* fs.readFileString(`${path}/other/${own}`)
      const [, place = "", started = ""] = claim.split(" ")
      assert.strictEqual(yield* statusWith(`.lock-${process.pid}-999`, claim), "running")
      if (started !== "") {
        assert.strictEqual(yield* statusWith(`.lock-${process.pid}-999`, `0 ${place} ${Number(started) - 1}`), "gone")
      }
      // One that ended says how.
      const ended = { _tag: "Ended", time: 1e12, step: 1, outcome: "interrupted", complete: false }
      yield* fs.writeFileString(`${path}/journal.jsonl`, step(1, 3) + wholeRun([ended]))
      assert.strictEqual(yield* statusWith(`.lock-${pid}-1`, "0"), "interrupted")
    })))

  it.scoped("what a run cost: as it recorded it, or by its tokens and a price", () =>
    live(Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* directory
      const price = { train: 2, prefill: 1, sample: 10 }
      const cost = Effect.fnUntraced(function*(file: string, lines: ReadonlyArray<object>) {
        yield* fs.remove(path, { recursive: true })
        yield* fs.makeDirectory(path)
        yield* fs.writeFileString(`${path}/${file}`, wholeRun(lines))
        const run = yield* Effect.flatMap(RunDirectory.open(path, "run", { price }), (found) => Effect.orDie(found))
        yield* run.refresh
        return run.summary(0).cost
      })
      const ours = (step: number, metrics: object) => ({ _tag: "Step", time: 0, step, metrics, timings: {} })
      assert.strictEqual(yield* cost("journal.jsonl", [ours(1, { tokens: 1e6 }), ours(2, { tokens: 5e5 })]), 3)
      // 1,000 rollouts of 2 turns of 100 tokens: 200,000 sampled, and the 300,000 before them given.
      const sampled = { "env/all/rollouts": 1000, "env/all/turns": 2, "env/all/tokens_per_turn": 100 }
      assert.strictEqual(yield* cost("journal.jsonl", [ours(1, { tokens: 5e5, ...sampled })]), 1 + 0.3 + 2)
      assert.strictEqual(yield* cost("journal.jsonl", [ours(1, { tokens: 1e6, cost: 7 })]), 7)
      // In the currency that the metrics name, as our trainers and the Python cookbook since 0.6.1 record it.
      const recorded = (cumulative: number) => ({ "cost/step_usd": 1, "cost/cumulative_usd": cumulative })
      assert.strictEqual(
        yield* cost("journal.jsonl", [ours(1, recorded(1)), ours(2, { tokens: 1e6, ...recorded(2.5) })]),
        2.5
      )
      assert.strictEqual(yield* cost("metrics.jsonl", [{ step: 0, ...recorded(4) }]), 4)
      const python = { step: 0, "env/all/total_ac_tokens": 2e5, "env/all/total_ob_tokens": 3e5 }
      assert.strictEqual(yield* cost("metrics.jsonl", [python]), 1 + 0.3 + 2)
      // An evaluation adds nothing, and does not make the cost of its step zero.
      const evaluation = { _tag: "Evaluation", time: 0, step: 1, name: "held-out", metrics: { nll: 1 } }
      assert.strictEqual(yield* cost("journal.jsonl", [ours(1, { tokens: 1e6 }), evaluation]), 2)
    })))

  it.scoped("how long the server let a run wait, and the command that resumes it", () =>
    live(Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* directory
      const timings = (capacity: number) => ({ step: 900, "wait/capacity": capacity, "wait/rate_limit": 500 })
      yield* fs.writeFileString(
        `${path}/journal.jsonl`,
        wholeRun([1, 2].map((n) => ({ _tag: "Step", time: n, step: n, metrics: {}, timings: timings(n * 1000) })))
      )
      yield* fs.writeFileString(
        `${path}/command.json`,
        JSON.stringify({ cwd: "/home/me", words: ["train", "sft", "my chats.jsonl", "--model", "it's"] })
      )
      const run = yield* opened(path)
      yield* run.refresh
      const { command, waited, waits } = run.detail(0)
      assert.strictEqual(waited, 4)
      assert.deepStrictEqual(waits, [{ reason: "capacity", seconds: 3 }, { reason: "rate_limit", seconds: 1 }])
      assert.strictEqual(command, "cd /home/me && tinker train sft 'my chats.jsonl' --model 'it'\\''s'")
    })))

  it.scoped("how long a run took, and the currency of its cost", () =>
    live(Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* directory
      const step = (n: number, time: number, timings: object) => ({
        _tag: "Step",
        time,
        step: n,
        metrics: { cost: 1 },
        timings
      })
      const read = Effect.fnUntraced(function*(lines: ReadonlyArray<object>, options?: RunDirectory.OpenOptions) {
        yield* fs.writeFileString(`${path}/journal.jsonl`, wholeRun(lines))
        const run = yield* Effect.flatMap(RunDirectory.open(path, "run", options), (found) => Effect.orDie(found))
        yield* run.refresh
        return run.summary(0)
      })
      // Two steps of 1.5 s, with a night between them.
      const slept = yield* read([step(1, 1e12, { step: 1500 }), step(2, 1e12 + 3.6e7, { step: 1500 })])
      assert.strictEqual(slept.seconds, 3)
      // Without timings it is the time between the lines.
      assert.strictEqual((yield* read([step(1, 1e12, {}), step(2, 1e12 + 9000, {})])).seconds, 9)
      assert.strictEqual(slept.currency, "USD")
      assert.strictEqual((yield* read([step(1, 0, {})], { currency: "EUR" })).currency, "EUR")
      assert.strictEqual((yield* read([step(1, 0, {})], { currency: "EUR" })).cost, 1)
      assert.isNull((yield* read([])).seconds)
    })))

  it.scoped("a journal that RunLog writes is followed while it is written, through a resume to its end", () =>
    live(Effect.gen(function*() {
      const path = yield* directory
      const config = { model: { baseModel: "local/tiny", rank: 8 }, learningRate: { peak: 3e-4 }, steps: 4 }
      const first = yield* Scope.make()
      const log = yield* Scope.extend(RunLog.open(path, { trainer: "supervised", config }), first)
      const run = yield* opened(path)
      const now = yield* Clock.currentTimeMillis
      const record = (target: RunLog.RunLog, n: number, loss: number) =>
        target.append({ _tag: "Step", step: n, metrics: { loss }, timings: { step: 250 } })
      yield* record(log, 1, 3)
      assert.isTrue(yield* run.refresh)
      assert.isFalse(yield* run.refresh)
      assert.deepStrictEqual(losses(run), [[1, 3]])
      const { model, step, totalSteps, trainer } = run.summary(now)
      assert.deepStrictEqual([model, trainer, step, totalSteps], ["local/tiny", "supervised", 1, 4])
      yield* log.append({
        _tag: "Checkpoint",
        name: "000001",
        kind: "periodic",
        step: 1,
        position: { epoch: 0, index: 8, offset: 0 },
        statePath: "tinker://r/weights/000001",
        samplerPath: "tinker://r/sampler_weights/000001"
      })
      yield* record(log, 2, 2.5)
      yield* record(log, 3, 9)
      yield* Scope.close(first, Exit.void)
      yield* run.refresh
      assert.strictEqual(run.summary(now).status, "interrupted")

      const second = yield* Scope.make()
      const again = yield* Scope.extend(RunLog.open(path, { trainer: "supervised", config }), second)
      yield* run.refresh
      assert.deepStrictEqual(losses(run), [[1, 3]])
      for (const [n, loss] of [[2, 2], [3, 1], [4, 0.5]] as const) yield* record(again, n, loss)
      yield* again.append({ _tag: "Evaluation", step: 4, name: "held-out", metrics: { nll: NaN } })
      yield* again.append({ _tag: "Note", step: 4, level: "warning", message: "2 rows were skipped" })
      yield* again.finish
      yield* Scope.close(second, Exit.void)
      yield* run.refresh
      const detail = run.detail(now)
      assert.deepStrictEqual(losses(run), [[1, 3], [2, 2], [3, 1], [4, 0.5]])
      assert.deepStrictEqual([detail.status, detail.resumes, detail.warnings, detail.unreadable], ["complete", 1, 1, 0])
      assert.deepStrictEqual(detail.checkpoints.map(({ name, samplerPath }) => [name, samplerPath]), [
        ["000001", "tinker://r/sampler_weights/000001"]
      ])
      const metric = (name: string) => detail.metrics.find((found) => found.name === name)
      assert.strictEqual(metric("eval/held-out/nll")?.nonFinite, 1)
      assert.strictEqual(metric("time/step")?.last, 0.25)
    })))

  it.scoped("a line that is still being written waits for its end; lines that make no sense are counted", () =>
    live(Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* directory
      const file = `${path}/journal.jsonl`
      const whole = step(2, 1)
      yield* fs.writeFileString(file, step(1, 2) + whole.slice(0, 20))
      const run = yield* opened(path)
      yield* run.refresh
      assert.deepStrictEqual(losses(run), [[1, 2]])
      yield* fs.writeFileString(file, `${whole.slice(20)}not json\n{"_tag":"Step"}\n[1]\n`, { flag: "a" })
      yield* run.refresh
      assert.deepStrictEqual(losses(run), [[1, 2], [2, 1]])
      assert.strictEqual(run.detail(0).unreadable, 3)
    })))

  it.scoped("a file that was truncated, replaced or rewritten is read from its beginning", () =>
    live(Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* directory
      const file = `${path}/journal.jsonl`
      yield* fs.writeFileString(file, step(1, 2) + step(2, 1))
      const run = yield* opened(path)
      yield* run.refresh
      yield* fs.writeFileString(file, step(1, 5))
      assert.isTrue(yield* run.refresh)
      assert.deepStrictEqual(losses(run), [[1, 5]])
      // The same length of other bytes, and more after them.
      yield* fs.writeFileString(file, step(1, 6) + step(2, 7))
      assert.isTrue(yield* run.refresh)
      assert.deepStrictEqual(losses(run), [[1, 6], [2, 7]])
      yield* fs.writeFileString(`${path}/other`, step(1, 8) + step(2, 9) + step(3, 10))
      yield* fs.rename(`${path}/other`, file)
      yield* run.refresh
      assert.deepStrictEqual(losses(run), [[1, 8], [2, 9], [3, 10]])
      yield* fs.remove(file)
      yield* run.refresh
      assert.deepStrictEqual(losses(run), [])
    })))

  it.scoped("a log directory of the Python cookbook, resumed once", () =>
    live(Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* directory
      const lines = [
        { step: 0, train_mean_nll: 3, num_tokens: 100, "time/total": 2, progress: 0.25 },
        { step: 1, train_mean_nll: 2, num_tokens: 100, "time/total": 2, progress: 0.5 },
        { step: 1, "test/nll": 2.5 },
        { step: 2, train_mean_nll: 99, num_tokens: 100, "time/total": 2, progress: 0.75 },
        { step: 1, train_mean_nll: 1.9, num_tokens: 100, "time/total": 2, progress: 0.5 }
      ]
      yield* fs.writeFileString(
        `${path}/config.json`,
        JSON.stringify({ model_name: "Qwen/Qwen3-8B", learning_rate: 1e-4 })
      )
      yield* fs.writeFileString(
        `${path}/metrics.jsonl`,
        `${lines.map((line) => JSON.stringify(line)).join("\n")}\n{"step": 2, "train_mean_nll": NaN}\n`
      )
      yield* fs.writeFileString(
        `${path}/checkpoints.jsonl`,
        `${JSON.stringify({ name: "000002", batch: 2, epoch: 0, state_path: "tinker://a/weights/000002" })}\n`
      )
      const run = yield* opened(path)
      yield* run.refresh
      const detail = run.detail(yield* Clock.currentTimeMillis)
      assert.deepStrictEqual([detail.model, detail.format, detail.totalSteps, detail.resumes], [
        "Qwen/Qwen3-8B",
        "python",
        4,
        1
      ])
      assert.deepStrictEqual(run.table.points("train_mean_nll")?.y, [3, 1.9, null])
      assert.deepStrictEqual(detail.checkpoints.map(({ name, step }) => [name, step]), [["000002", 2]])
      assert.strictEqual(detail.headline[0]?.name, "train_mean_nll")
    })))

  it.scoped("runs are found below a directory, whatever else lies around", () =>
    live(Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const root = yield* directory
      for (const place of ["a/journal.jsonl", "b/c/metrics.jsonl", "node_modules/x/metrics.jsonl", "e/notes.txt"]) {
        const path = `${root}/${place}`
        yield* fs.makeDirectory(path.slice(0, path.lastIndexOf("/")), { recursive: true })
        yield* fs.writeFileString(path, "")
      }
      assert.deepStrictEqual([...(yield* RunDirectory.find(root))].sort(), ["a", "b/c"])
      assert.deepStrictEqual(yield* RunDirectory.find(`${root}/a`), ["."])
      assert.isTrue(Option.isNone(yield* RunDirectory.open(`${root}/e`, "e")))
    })))
})
