import { AgentModel, CallStore, Recorder } from "@effect-tinker/agents"
import { Message } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Deferred, Effect, Exit, Fiber, Option, Scope, Stream } from "effect"
import { add, callOf, chatRenderer, scripted } from "./support/chat.js"

const answers = [callOf("{\"a\": 1, \"b\": 2}"), "It is 3.", "Bye."]

/** Three turns of a conversation: two that continue, one that forks. */
const converse = Effect.fnUntraced(function*(rollout: string) {
  const renderer = yield* chatRenderer
  const agent = yield* AgentModel.make({ renderer, sampler: yield* scripted(renderer, answers, 7), rollout })
  const question = [Message.user("1+2?")]
  const first = yield* agent.generate({ messages: question, tools: [add] })
  const messages = [...question, first.message, { role: "tool", content: "3", toolCallId: first.toolCalls[0]?.id }]
  const second = yield* agent.generate({ messages, tools: [add] })
  yield* agent.generate({ messages: [...messages, Message.assistant(`${second.text}!`), Message.user("Thanks.")] })
})

const directory = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const read = (path: string) => Effect.map(Stream.runCollect(CallStore.read(path)), Chunk.toReadonlyArray)

const files = Effect.fnUntraced(function*(path: string, ending: string) {
  const fs = yield* FileSystem.FileSystem
  return (yield* fs.readDirectory(path)).filter((name) => name.endsWith(ending)).map((name) => `${path}/${name}`)
})

describe("CallStore", () => {
  it.scoped("can be read by its user only", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = `${yield* directory}/calls/recorded`
      const recorder = yield* Recorder.makeDirectory(path)
      yield* Effect.provideService(converse("a"), Recorder.Recorder, recorder)
      const names = yield* fs.readDirectory(path)
      assert.isAbove(names.length, 1)
      for (const name of ["", "..", ...names]) {
        const { mode, type } = yield* fs.stat(`${path}/${name}`)
        assert.strictEqual(mode & 0o777, type === "Directory" ? 0o700 : 0o600, name)
      }
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("what is read is what was recorded", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const recorder = yield* Recorder.makeDirectory(path)
      const write = Effect.gen(function*() {
        yield* Effect.forEach(["a", "b"], converse, { concurrency: 2 })
        yield* recorder.score("a", 0.5, { turns: 3 })
      }).pipe(Effect.provideService(Recorder.Recorder, recorder))
      yield* write
      // while it is open for writing
      const stored = yield* read(path)
      assert.deepStrictEqual(stored.map(({ rollout }) => rollout).sort(), ["a", "b"])
      for (const recorded of stored) {
        assert.deepStrictEqual(recorded, yield* recorder.rollout(recorded.rollout))
        assert.deepStrictEqual(Recorder.summarize(recorded.calls), {
          calls: 3,
          roots: 1,
          spliced: 1,
          forked: { ToolsChanged: 1 },
          rejected: 0
        })
      }
      const scores = stored.flatMap(({ score }) => Option.toArray(score))
      assert.deepStrictEqual(scores.map(({ reward, rollout }) => [rollout, reward]), [["a", 0.5]])
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("what comes at once is written in its order, and the store does not close before", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const scope = yield* Scope.make()
      const store = yield* Scope.extend(CallStore.open(path), scope)
      const scores = Array.from({ length: 600 }, (_, n) => ({ rollout: `r${n}`, reward: n, metrics: {}, time: n }))
      yield* Effect.forEach(scores, (score) => Effect.forkDaemon(store.score(score)))
      yield* Effect.yieldNow()
      yield* Scope.close(scope, Exit.void)
      const stored = yield* read(path)
      assert.deepStrictEqual(stored.flatMap(({ score }) => Option.toArray(score)), scores)
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("what a killed process left behind is skipped", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* directory
      yield* converse("a").pipe(Effect.provide(Recorder.layerDirectory(path)))
      const [whole] = yield* read(path)
      const [lines = ""] = yield* files(path, ".jsonl")
      const [arrays = ""] = yield* files(path, ".bin")
      const text = yield* fs.readFileString(lines)
      // half a line
      yield* fs.writeFileString(lines, text.slice(0, -20))
      assert.deepStrictEqual((yield* read(path))[0]?.calls, whole?.calls.slice(0, 2))
      // all lines, but arrays that never reached the disk
      yield* fs.writeFileString(lines, text)
      const { size } = yield* fs.stat(arrays)
      yield* fs.truncate(arrays, Number(size) - 1)
      assert.deepStrictEqual((yield* read(path))[0]?.calls, whole?.calls.slice(0, 2))
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("a rollout goes on in another process", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const renderer = yield* chatRenderer
      const say = (answer: string, messages: ReadonlyArray<Message.Message>) =>
        Effect.gen(function*() {
          const sampler = yield* scripted(renderer, [answer])
          const agent = yield* AgentModel.make({ renderer, sampler, rollout: "r" })
          return yield* agent.generate({ messages })
        }).pipe(Effect.provide(Recorder.layerDirectory(path)))
      const question = [Message.user("Hello")]
      const first = yield* say("One.", question)
      const second = yield* say("Two.", [...question, first.message, Message.user("Again")])
      assert.deepInclude(second.origin, { _tag: "Continued", parent: first.callId })
      const [recorded] = yield* read(path)
      assert.deepStrictEqual(recorded?.calls[1]?.turn.prompt, second.promptIds)
      assert.strictEqual((yield* files(path, ".bin")).length, 2)
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("memory is bounded: rollouts that rest are read back when they go on", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const recorder = yield* Recorder.makeDirectory(path, { maxTokens: 100 })
      const renderer = yield* chatRenderer
      const names = Array.from({ length: 20 }, (_, n) => `r${n}`)
      const sampler = yield* scripted(renderer, Array.from({ length: 40 }, (_, n) => `Answer ${n}`))
      const agent = yield* AgentModel.make({ renderer, sampler }).pipe(
        Effect.provideService(Recorder.Recorder, recorder)
      )
      const question = [Message.user("Hello")]
      const first = yield* Effect.forEach(names, (rollout) => agent.generate({ messages: question, rollout }))
      assert.isAtMost((yield* recorder.size).tokens, 100)
      const second = yield* Effect.forEach(first, ({ message, rollout }) =>
        agent.generate({ messages: [...question, message, Message.user("Again")], rollout }))
      assert.deepStrictEqual(
        new Set(second.map(({ origin }) =>
          origin._tag
        )),
        new Set(["Continued"])
      )
      assert.isAtMost((yield* recorder.size).tokens, 100)
      for (const [n, rollout] of names.entries()) {
        assert.strictEqual((yield* recorder.release(rollout)).calls[1]?.id, second[n]?.callId)
      }
      assert.deepStrictEqual(yield* recorder.size, { rollouts: 0, tokens: 0 })
      assert.deepStrictEqual(yield* recorder.rollouts, [])
      assert.strictEqual((yield* read(path)).length, 20)
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("a conversation is held once, however many calls it has", () =>
    Effect.gen(function*() {
      const path = yield* directory
      const renderer = yield* chatRenderer
      for (const recorder of [yield* Recorder.make(), yield* Recorder.makeDirectory(path)]) {
        const sampler = yield* scripted(renderer, ["One.", "Two.", "Three.", "Other."])
        const agent = yield* AgentModel.make({ renderer, sampler, rollout: "r" }).pipe(
          Effect.provideService(Recorder.Recorder, recorder)
        )
        let messages: ReadonlyArray<Message.Message> = [Message.user("Hello")]
        const replies: Array<AgentModel.Reply> = []
        for (let turn = 0; turn < 3; turn++) {
          const reply = yield* agent.generate({ messages })
          replies.push(reply)
          messages = [...messages, reply.message, Message.user("Again")]
        }
        const last = replies[2]
        const length = (last?.promptIds.length ?? 0) + (last?.sampledIds.length ?? 0)
        assert.deepStrictEqual(yield* recorder.size, { rollouts: 1, tokens: length })
        // another answer to the first one: the branches share what they have in common
        yield* agent.generate({ messages: messages.slice(0, 3) })
        const { calls } = yield* recorder.rollout("r")
        assert.deepStrictEqual(
          calls.slice(0, 3).map(({ turn }) => [turn.prompt, turn.completion]),
          replies.map(({ promptIds, sampledIds }) => [promptIds, sampledIds])
        )
        const buffers = new Set(calls.slice(0, 2).flatMap(({ turn }) => [turn.prompt.buffer, turn.completion.buffer]))
        assert.isAtMost(buffers.size, 3)
      }
      const [stored] = yield* read(path)
      assert.strictEqual(stored?.calls.length, 4)
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("a call that is recorded while its rollout is read back is not lost", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const reading = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      const slow: FileSystem.FileSystem = {
        ...fs,
        open: (path, options) =>
          options?.flag === "r"
            ? Deferred.succeed(reading, undefined).pipe(
              Effect.zipRight(Deferred.await(gate)),
              Effect.zipRight(fs.open(path, options))
            )
            : fs.open(path, options)
      }
      const recorder = yield* Recorder.makeDirectory(yield* directory, { maxTokens: 1 }).pipe(
        Effect.provideService(FileSystem.FileSystem, slow)
      )
      const renderer = yield* chatRenderer
      const sampler = yield* scripted(renderer, ["One.", "Two.", "Three."])
      const agent = yield* AgentModel.make({ renderer, sampler }).pipe(
        Effect.provideService(Recorder.Recorder, recorder)
      )
      const ask = (rollout: string) => agent.generate({ messages: [Message.user("Hello")], rollout })
      yield* ask("a")
      // takes its place in memory
      yield* ask("b")
      const [call] = (yield* recorder.rollout("b")).calls
      const fiber = yield* Effect.fork(recorder.rollout("a"))
      yield* Deferred.await(reading)
      assert.isDefined(call)
      if (call !== undefined) yield* recorder.record({ ...call, id: "late", rollout: "a" })
      yield* Deferred.succeed(gate, undefined)
      assert.deepStrictEqual((yield* Fiber.join(fiber)).calls.map(({ id }) => id).slice(1), ["late"])
      assert.strictEqual((yield* recorder.rollout("a")).calls.length, 2)
    }).pipe(Effect.provide(NodeFileSystem.layer)))
})
