import { type Example, RunLog } from "@effect-tinker/cookbook"
import { trainers } from "@effect-tinker/cookbook/Promise"
import * as NodePromise from "@effect-tinker/local/NodePromise"
import { connectLocal } from "@effect-tinker/local/Promise"
import { Message } from "@effect-tinker/tokenizer"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Option } from "effect"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

const model = { baseModel: "local/tiny", rank: 4, seed: 1 }
const chats = Array.from({ length: 6 }, (_, n) => ({ user: `${n}?`, assistant: ["cat", "dog"][n % 2] ?? "" }))

const connect = () => connectLocal({ services: NodeContext.layer })

const collect = async <A>(items: AsyncIterable<A>): Promise<ReadonlyArray<A>> => {
  const all: Array<A> = []
  for await (const item of items) all.push(item)
  return all
}

const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(() => assert.fail("it should reject"), (error: unknown) => error)

describe("trainers", () => {
  it("supervised: from memory and from a file the same, to a checkpoint", async () => {
    const root = await mkdtemp(join(tmpdir(), "tinker-promise-"))
    try {
      await using tinker = await connect()
      const options = { model, learningRate: 1e-3, batchSize: 3, epochs: 3, steps: 4 }
      const steps = await collect(trainers(tinker).supervised({ ...options, data: chats }))
      assert.deepStrictEqual(steps.map(({ step }) => step), [1, 2, 3, 4])
      assert.isBelow(steps[3]?.loss ?? NaN, steps[0]?.loss ?? 0)
      assert.isUndefined(steps[0]?.final)
      assert.strictEqual(steps[0]?.totalSteps, 4)
      const path = steps[3]?.final?.checkpoint.samplerPath
      await tinker.createSamplingClient({ modelPath: path ?? assert.fail("no checkpoint") })

      const file = join(root, "chats.jsonl")
      const lines = chats.map(({ assistant, user }) =>
        JSON.stringify({ messages: [{ role: "user", content: user }, { role: "assistant", content: assistant }] })
      )
      await writeFile(file, `${lines.join("\n")}\n`)
      const read = await collect(trainers(tinker).supervised({ ...options, data: file }))
      assert.deepStrictEqual(read.map(({ loss }) => loss), steps.map(({ loss }) => loss))
    } finally {
      await rm(root, { recursive: true })
    }
  })

  it("a run that is left or aborted goes on from its log", async () => {
    const root = await mkdtemp(join(tmpdir(), "tinker-promise-"))
    try {
      await using tinker = await connect()
      const options = { model, data: chats, learningRate: 1e-3, batchSize: 3, epochs: 4 }
      const whole = await collect(trainers(tinker).supervised(options))
      const log = join(root, "run")
      for await (const { step } of trainers(tinker).supervised({ ...options, log })) if (step === 1) break
      const controller = new AbortController()
      const aborted = await rejection((async () => {
        for await (const _ of trainers(tinker).supervised({ ...options, log, signal: controller.signal })) {
          controller.abort("enough")
        }
      })())
      assert.strictEqual(aborted, "enough")
      await collect(trainers(tinker).supervised({ ...options, log }))
      // A loop that is left does not see the step behind the one it has seen; the journal does.
      const { resumes, steps } = Option.getOrThrow(await tinker.run(RunLog.read(log)))
      assert.deepStrictEqual(steps.map(({ metrics }) => metrics["loss"]), whole.map(({ loss }) => loss))
      assert.isAbove(resumes, 0)
    } finally {
      await rm(root, { recursive: true })
    }
  })

  it("reinforce: rewards may be asynchronous, and a rejection ends the run as it is", async () => {
    await using tinker = await NodePromise.connectLocal()
    const seen: Array<string> = []
    const options = {
      model: { baseModel: "local/chat", rank: 4 },
      learningRate: 1e-4,
      groupSize: 2,
      groupsPerBatch: 1,
      maxTokens: 32,
      problems: [{ a: 2, b: 3 }],
      question: ({ a, b }: { readonly a: number; readonly b: number }) => `What is ${a}+${b}?`
    }
    const steps = await collect(
      trainers(tinker).reinforce({
        ...options,
        keepConstant: true,
        reward: async ({ a, b }, answer) => {
          seen.push(`${a}+${b}`)
          await Promise.resolve()
          return answer.includes(String(a + b))
        }
      })
    )
    assert.strictEqual(steps.length, 1)
    assert.deepStrictEqual(seen, ["2+3", "2+3"])
    assert.isNumber(steps[0]?.detail.reward)
    const mine = new RangeError("mine")
    const failing = [() => Promise.reject(mine), () => {
      throw mine
    }]
    for (const reward of failing) {
      assert.strictEqual(await rejection(collect(trainers(tinker).reinforce({ ...options, reward }))), mine)
    }
  })

  it("preference and distill train too, and what makes no sense is refused", async () => {
    await using tinker = await connect()
    const pairs: ReadonlyArray<Example.Preference> = chats.map(({ user }) => ({
      prompt: [Message.user(user)],
      chosen: [Message.assistant("cat")],
      rejected: [Message.assistant("dog")]
    }))
    const preferred = await collect(
      trainers(tinker).preference({ model, data: pairs, learningRate: 1e-3, batchSize: 3, epochs: 2 })
    )
    assert.isBelow(preferred.at(-1)?.loss ?? NaN, preferred[0]?.loss ?? 0)
    const distilled = await collect(
      trainers(tinker).distill({
        model,
        prompts: ["a", "b"],
        teacher: "local/tiny",
        learningRate: 1e-3,
        groupSize: 2,
        groupsPerBatch: 2,
        maxTokens: 4
      })
    )
    assert.strictEqual(distilled.length, 1)
    const refused = await rejection(
      collect(trainers(tinker).supervised({ model, data: chats, learningRate: 1e-3, batchSize: -1 }))
    )
    assert.propertyVal(refused, "_tag", "InvalidRun")
    const missing = await rejection(
      collect(trainers(tinker).supervised({ model, data: "/no/such/file.jsonl", learningRate: 1e-3 }))
    )
    assert.propertyVal(missing, "_tag", "SystemError")
  })
})
