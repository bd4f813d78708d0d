import { RunLog } from "@effect-tinker/cookbook"
import { Rollouts } from "@effect-tinker/studio"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Option, Scope } from "effect"

const directory = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const turn = (prompt: ReadonlyArray<number>, tokens: ReadonlyArray<number>, text: string) => ({
  prompt,
  tokens,
  logprobs: tokens.map(() => -0.5),
  policyVersion: 3,
  message: { role: "assistant", content: text },
  reward: 0,
  masked: false,
  metrics: {}
})

const rollout = (group: number, member: number, reward: number, text: string) => ({
  group,
  member,
  tags: ["sums \"turns\":["],
  reward,
  stop: "completed",
  turns: [turn([1, 2], [3, 4], "hm"), turn([1, 2, 3, 4, 5], [6], text), turn([1, 9], [7], "rewritten")]
})

const config = { model: { baseModel: "local/tiny" }, advantage: "center" }

describe("Rollouts", () => {
  it.scoped("from step to group to rollout to token", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const log = yield* RunLog.open(path, { trainer: "reinforce", config })
      yield* log.appendRollouts(1, [rollout(0, 0, 1, "The answer is 5"), rollout(0, 1, 0, "No idea")])
      yield* log.appendRollouts(2, [rollout(0, 0, 0.5, "<b>maybe</b>")])
      const rollouts = Rollouts.journal(`${path}/rollouts.jsonl`, () => ({ config, model: "local/tiny" }))
      assert.isTrue(yield* rollouts.refresh)
      assert.deepStrictEqual(rollouts.steps(), [
        { step: 1, split: "train", count: 2, mean: 0.5 },
        { step: 2, split: "train", count: 1, mean: 0.5 }
      ])
      const heads = yield* rollouts.list(1, "train")
      assert.deepStrictEqual(heads.map(({ member, reward, stop }) => [member, reward, stop]), [
        [0, 1, "completed"],
        [1, 0, "completed"]
      ])
      const one = yield* rollouts.read(1, "train", 0, Option.none())
      assert.strictEqual(one.advantage, 0.5)
      assert.deepStrictEqual(one.turns.map(({ message }) => message?.text), ["hm", "The answer is 5", "rewritten"])
      // The second turn shows only what is new to the model; the third does not continue and says where it differs.
      assert.deepStrictEqual(one.turns.map(({ tokens }) => tokens?.ids), [[1, 2, 3, 4], [5, 6], [1, 9, 7]])
      assert.deepStrictEqual(one.turns.map(({ tokens }) => tokens?.given), [2, 1, 2])
      assert.deepStrictEqual(one.turns.map(({ fork }) => fork?.reason), [undefined, undefined, "HistoryChanged"])
      const missing = yield* Effect.flip(rollouts.read(9, "train", 0, Option.none()))
      assert.strictEqual(missing._tag, "RolloutNotFound")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("of two attempts at a step the last one counts", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const first = yield* Scope.make()
      const log = yield* Scope.extend(RunLog.open(path, { trainer: "reinforce", config }), first)
      for (const step of [1, 2, 3]) yield* log.appendRollouts(step, [rollout(0, 0, 0, "old")])
      yield* Scope.close(first, Exit.void)
      const again = yield* RunLog.open(path, { trainer: "reinforce", config })
      yield* again.appendRollouts(1, [rollout(0, 0, 1, "new"), rollout(0, 1, 1, "new")])
      const rollouts = Rollouts.journal(`${path}/rollouts.jsonl`, () => ({ config, model: "" }))
      yield* rollouts.refresh
      assert.deepStrictEqual(rollouts.steps().map(({ count, mean, step }) => [step, count, mean]), [[1, 2, 1]])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("search finds what was said, whatever its case, and not what merely surrounds it", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const log = yield* RunLog.open(path, { trainer: "reinforce", config })
      yield* log.appendRollouts(1, [rollout(0, 0, 1, "The ANSWER is \"5\"\nyes"), rollout(0, 1, 0, "No idea")])
      const rollouts = Rollouts.journal(`${path}/rollouts.jsonl`, () => ({ config, model: "" }))
      yield* rollouts.refresh
      const texts = (words: string) =>
        Effect.map(rollouts.search(words, 10), ({ matches }) => matches.map((m) => m.excerpt))
      assert.deepStrictEqual(yield* texts("answer is"), ["The ANSWER is \"5\"\nyes"])
      assert.strictEqual((yield* texts("\"5\"\nyes")).length, 1)
      assert.deepStrictEqual(yield* texts("completed"), [])
      const cut = yield* rollouts.search("e", 1)
      assert.deepStrictEqual([cut.matches.length, cut.complete], [1, false])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("the rollout files of the Python cookbook, with conversations from its log tree", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* directory
      const record = (member: number, reward: number) => ({
        schema_version: 1,
        split: "train",
        iteration: 7,
        group_idx: 0,
        traj_idx: member,
        tags: ["gsm8k"],
        total_reward: reward,
        final_reward: 0,
        trajectory_metrics: { correct: reward },
        steps: [{
          step_idx: 0,
          ob_len: 30,
          ac_len: 12,
          reward,
          episode_done: true,
          metrics: {},
          logs: { answer: `say ${member}` }
        }],
        final_ob_len: 42
      })
      const said = (role: string, content: string) => ({
        tag: "div",
        attrs: {},
        children: [],
        data: { type: "conversation", messages: [{ role, content }] }
      })
      const tree = {
        root: {
          tag: "body",
          children: [said("user", "q"), said("assistant", "a0"), said("user", "q"), said("assistant", "a1")]
        }
      }
      yield* fs.makeDirectory(`${path}/iteration_000007`)
      yield* fs.writeFileString(
        `${path}/iteration_000007/train_rollout_summaries.jsonl`,
        `${[record(0, 0), record(1, 1)].map((line) => JSON.stringify(line)).join("\n")}\n{"half`
      )
      yield* fs.writeFileString(`${path}/iteration_000007/train_logtree.json`, JSON.stringify(tree))
      const rollouts = Rollouts.python(path)
      yield* rollouts.refresh
      assert.deepStrictEqual(rollouts.steps(), [{ step: 7, split: "train", count: null, mean: null }])
      assert.deepStrictEqual((yield* rollouts.list(7, "train")).map(({ reward }) => reward), [0, 1])
      assert.strictEqual(rollouts.steps()[0]?.mean, 0.5)
      assert.strictEqual(rollouts.unreadable(), 1)
      const one = yield* rollouts.read(7, "train", 1, Option.none())
      assert.deepStrictEqual(one.turns.map(({ before, message }) => [before[0]?.text, message?.text]), [["q", "a1"]])
      assert.deepStrictEqual([one.turns[0]?.logs, one.turns[0]?.sampledTokens, one.advantage], [
        [["answer", "say 1"]],
        12,
        0.5
      ])
      assert.strictEqual((yield* rollouts.search("SAY 1", 5)).matches.length, 1)
    }).pipe(Effect.provide(NodeContext.layer)))
})
