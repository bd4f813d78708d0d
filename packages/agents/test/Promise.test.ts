import { Agent } from "@effect-tinker/agents"
import { trainAgent } from "@effect-tinker/agents/Promise"
import { connectLocal } from "@effect-tinker/local/Promise"
import { Message } from "@effect-tinker/tokenizer"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"

const echo = Agent.make({
  tasks: [{ question: "a" }, { question: "b" }],
  test: [{ question: "c" }],
  run: ({ question }, { model }) => model.generate({ messages: [Message.user(question)] }),
  score: async (_, { text }) => text.length / 4
})

const options = {
  model: { baseModel: "local/tiny", rank: 4, seed: 1 },
  learningRate: 1e-3,
  maxTokens: 4,
  groupSize: 2,
  groupsPerBatch: 2,
  keepConstant: true
}

describe("trainAgent", () => {
  it("trains on the agent's tasks and evaluates its test", async () => {
    await using tinker = await connectLocal({ services: NodeContext.layer })
    const steps = []
    for await (const step of trainAgent(tinker, { ...options, agent: echo })) steps.push(step)
    assert.strictEqual(steps.length, 1)
    assert.isNumber(steps[0]?.evaluations["test"]?.["env/all/reward"])
    assert.isString(steps[0]?.final?.checkpoint.samplerPath)
  })

  it("an abort ends the run with the signal's reason", async () => {
    await using tinker = await connectLocal({ services: NodeContext.layer })
    const signal = AbortSignal.abort("enough")
    const aborted = await trainAgent(tinker, { ...options, agent: echo, signal })[Symbol.asyncIterator]().next()
      .catch((error: unknown) => error)
    assert.strictEqual(aborted, "enough")
  })
})
