import { Agent, AgentData, CallStore, Recorder } from "@effect-tinker/agents"
import { Dataset, Example, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Duration, Effect, Exit, Ref, Scheduler, Stream } from "effect"
import { SamplingClient, TensorData } from "effect-tinker"
import { chatRenderer, Local } from "./support/chat.js"

const ask = (model: Agent.RunContext["model"], messages: ReadonlyArray<Message.Message>) =>
  model.generate({ messages, maxTokens: 12 })

/** Asks twice in one conversation, and once in another. */
const agent = Agent.make({
  tasks: ["France", "Norway"],
  run: (land, { model }) =>
    Effect.gen(function*() {
      const start = [Message.user(`What is the capital of ${land}?`)]
      const first = yield* ask(model, start)
      yield* ask(model, [...start, first.message, Message.user("Are you sure?")])
      return (yield* ask(model, [Message.user("Hello!")])).text
    }),
  score: (_, text) => text.length
})

const collected = Effect.gen(function*() {
  const sampler = yield* SamplingClient.make({ baseModel: "local/chat" })
  const directory = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped()
  const recorder = yield* Recorder.makeDirectory(`${directory}/calls`)
  const groups = yield* AgentData.collect({
    agent,
    sampler,
    renderer: yield* chatRenderer,
    maxTokens: 12,
    groupSize: 3,
    recorder
  }).pipe(Stream.runCollect)
  return { directory, groups: Chunk.toReadonlyArray(groups) }
})

describe("AgentData", () => {
  it("best: those that are good enough, the best first", () => {
    const runs = [0.2, 0.9, 0.5, 0.9].map((reward, id) => ({ id, reward }))
    assert.deepStrictEqual(AgentData.best(runs, { minimum: 0.5 }).map(({ id }) => id), [1])
    assert.deepStrictEqual(AgentData.best(runs, { minimum: 0.5, keep: 8 }).map(({ id }) => id), [1, 3, 2])
    assert.deepStrictEqual(AgentData.best(runs, { minimum: 1 }), [])
  })

  it.scopedLive("runs are in the order of the group, whichever ends first", () =>
    Effect.gen(function*() {
      const started = yield* Ref.make(0)
      const slowestFirst = Agent.make({
        tasks: ["Hello!"],
        run: (text, { model }) =>
          Effect.gen(function*() {
            const member = yield* Ref.getAndUpdate(started, (count) => count + 1)
            yield* ask(model, [Message.user(text)])
            return yield* Effect.delay(Effect.succeed(member), Duration.millis(200 * (2 - member)))
          }),
        score: () => 1
      })
      // On Effect's own scheduler they begin in their order: on the backend's, a fiber whose slice is over goes behind the others.
      const [group] = Chunk.toReadonlyArray(
        yield* AgentData.collect({
          agent: slowestFirst,
          sampler: yield* SamplingClient.make({ baseModel: "local/chat" }),
          renderer: yield* chatRenderer,
          maxTokens: 12,
          groupSize: 3
        }).pipe(Stream.runCollect, Effect.withScheduler(Scheduler.defaultScheduler))
      )
      assert.deepStrictEqual(group?.runs.map(({ result }) => result), [0, 1, 2].map((member) => Exit.succeed(member)))
    }).pipe(Effect.provide([Local, NodeContext.layer])))

  it.scopedLive(
    "runs are collected, written as JSON lines and read back token for token, and trained on",
    () =>
      Effect.gen(function*() {
        const { directory, groups } = yield* collected
        assert.deepStrictEqual(groups.map(({ runs, task }) => [task, runs.length]), [["France", 3], ["Norway", 3]])

        // the store has them with their rewards
        const stored = Chunk.toReadonlyArray(yield* Stream.runCollect(CallStore.read(`${directory}/calls`)))
        assert.sameDeepMembers(
          stored.map(({ calls, score }) => [calls.length, score._tag === "Some" ? score.value.reward : undefined]),
          groups.flatMap(({ runs }) => runs.map(({ reward }) => [3, reward]))
        )

        const kept = groups.flatMap(({ runs }) => AgentData.best(runs, { minimum: 0 }))
        assert.strictEqual(kept.length, 2)
        const path = `${directory}/best.jsonl`
        yield* AgentData.writeJsonl(path, Stream.fromIterable(kept))
        const expected = (yield* Effect.forEach(kept, ({ calls }) => AgentData.toData(calls))).flat()
        const data = Chunk.toReadonlyArray(yield* Stream.runCollect(Dataset.values(AgentData.jsonl(path))))
        assert.deepStrictEqual(data, expected)
        assert.strictEqual(data.length, 4)

        // weights are on what was sampled, and nothing else
        const [first] = kept[0]?.calls ?? []
        const tensor = data[0]?.lossFnInputs["weights"]
        assert.isTrue(first !== undefined && tensor !== undefined)
        if (first === undefined || tensor === undefined) return
        const weights = Array.from(TensorData.toFloat32Array(tensor))
        const from = first.turn.prompt.length - 1
        assert.deepStrictEqual(weights.slice(0, from), Array.from({ length: from }, () => 0))
        assert.isTrue(weights.slice(from, from + first.turn.completion.length).every((weight) => weight === 1))

        // the same lines are chats
        const chats = Chunk.toReadonlyArray(yield* Stream.runCollect(Dataset.values(Example.chats(path))))
        assert.deepStrictEqual(chats.map(({ messages }) => messages.map(({ role, trainable }) => [role, trainable])), [
          [["user", false], ["assistant", true], ["user", false], ["assistant", true]],
          [["user", false], ["assistant", true]],
          [["user", false], ["assistant", true], ["user", false], ["assistant", true]],
          [["user", false], ["assistant", true]]
        ])

        const reports = yield* Supervised.train({
          model: { baseModel: "local/chat", rank: 4 },
          data: AgentData.jsonl(path),
          learningRate: 1e-3,
          batchSize: 4,
          epochs: 3
        }).pipe(Stream.runCollect)
        const losses = Chunk.toReadonlyArray(reports).map(({ loss }) => loss)
        assert.isBelow(losses.at(-1) ?? NaN, losses[0] ?? NaN)
      }).pipe(Effect.provide([Local, NodeContext.layer])),
    120_000
  )
})
