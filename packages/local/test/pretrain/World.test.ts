import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { createHash } from "node:crypto"
import type { Json, ToolSpec } from "../../pretrain/world/Conversation.js"
import * as Conversation from "../../pretrain/world/Conversation.js"
import * as HeldOut from "../../pretrain/world/HeldOut.js"
import * as Lexicon from "../../pretrain/world/Lexicon.js"
import { Source } from "../../pretrain/world/Source.js"
import * as World from "../../pretrain/world/World.js"

const seeds = FastCheck.integer({ min: 1, max: 2 ** 31 })
const stages = FastCheck.integer({ min: 1, max: World.stages })

const take = (options: World.Options, count: number): Array<Conversation.Conversation> => {
  const drawn: Array<Conversation.Conversation> = []
  for (const conversation of World.conversations(options)) {
    if (drawn.push(conversation) === count) return drawn
  }
  return drawn
}

const textOf = (conversation: Conversation.Conversation): string =>
  Conversation.segments(conversation).map(({ text }) => text).join("")

const wordsOf = (text: string): ReadonlyArray<string> => text.toLowerCase().match(/[a-z]+/g) ?? []

const pairsOf = (text: string): ReadonlyArray<readonly [number, number]> =>
  Array.from(text.matchAll(/(?<![\d.])(\d+) (?:[+*/-]|plus|minus|times|divided by) (\d+)/g), ([, a, b]) => [
    Number(a),
    Number(b)
  ])

const isA = (type: string, value: Json): boolean =>
  type === "integer" ? Number.isInteger(value) : type === "array" ? Array.isArray(value) : typeof value === type

const fits = (tools: ReadonlyArray<ToolSpec>, call: Conversation.ToolCall): boolean => {
  const tool = tools.find(({ name }) => name === call.name)
  return tool !== undefined &&
    tool.parameters.required.every((name) => name in call.arguments) &&
    Object.entries(call.arguments).every(([name, value]) =>
      isA(tool.parameters.properties[name]?.type ?? "none", value)
    )
}

describe("World", () => {
  it("shows nothing in training that is held out", () => {
    // Every item a held-out conversation was made of, against every word of the training text.
    const source = new Source(3, "held-out")
    for (const skill of World.skills) for (let i = 0; i < 60; i++) World.conversation(source, skill)
    const items = new Set(Array.from(source.items, (item) => item.toLowerCase()))
    assert.isAbove(items.size, 2000)
    FastCheck.assert(
      FastCheck.property(seeds, stages, (seed, stage) => {
        for (const conversation of take({ seed, side: "train", stage }, 300)) {
          const text = textOf(conversation)
          for (const word of wordsOf(text)) assert.isFalse(items.has(word), `${word} in ${text}`)
          for (const [a, b] of pairsOf(text)) assert.isTrue(HeldOut.pairAllowed("train", a, b), `${a}, ${b} in ${text}`)
          for (const { name } of conversation.tools ?? []) assert.strictEqual(HeldOut.sideOf(name), "train", name)
        }
      }),
      { numRuns: 20 }
    )
  })

  it("makes held-out conversations of held-out items", () => {
    FastCheck.assert(
      FastCheck.property(seeds, (seed) => {
        const source = new Source(seed, "held-out")
        for (const skill of ["add-2", "add-3", "subtract", "two-step", "tool-call", "fact-3"]) {
          const conversation = World.conversation(source, skill)
          for (const [a, b] of pairsOf(textOf(conversation))) assert.isTrue(HeldOut.pairAllowed("held-out", a, b))
          for (const { name } of conversation.tools ?? []) assert.strictEqual(HeldOut.sideOf(name), "held-out", name)
        }
        for (const item of source.items) assert.strictEqual(HeldOut.sideOf(item), "held-out", item)
      }),
      { numRuns: 50 }
    )
  })

  it("holds out a tenth, whichever way a word or a pair is written", () => {
    const source = new Source(1, "train")
    const words = Array.from({ length: 5000 }, () => String(source.int(0, 1e9)))
    assert.closeTo(words.filter((word) => HeldOut.sideOf(word) === "held-out").length / words.length, 0.1, 0.02)
    FastCheck.assert(FastCheck.property(FastCheck.string(), FastCheck.nat(999), FastCheck.nat(999), (word, a, b) => {
      assert.strictEqual(HeldOut.sideOf(word), HeldOut.sideOf(Array.from(word.toLowerCase()).reverse().join("")))
      assert.strictEqual(HeldOut.pairItem(a, b), HeldOut.pairItem(b, a))
    }))
  })

  it("has members of every open class on both sides", () => {
    const { codas: _codas, familiar: _familiar, onsets: _onsets, vowels: _vowels, ...classes } = Lexicon
    for (const [name, members] of Object.entries(classes)) {
      for (const side of ["train", "held-out"] as const) {
        assert.isTrue(members.some((member) => HeldOut.sideOf(member) === side), `${name} has nothing on ${side}`)
      }
    }
  })

  it("draws the same conversations from the same seed", () => {
    FastCheck.assert(
      FastCheck.property(seeds, FastCheck.constantFrom("train" as const, "held-out" as const), (seed, side) => {
        assert.deepStrictEqual(take({ seed, side }, 20), take({ seed, side }, 20))
      }),
      { numRuns: 20 }
    )
  })

  it.each([
    [1, { seed: 101 }, "52dbe3758db699a44857cd99959455aaca067584847ed0730041f9bf5101dba0"],
    [2, { seed: 105 }, "513ebaa2fdf7590333723698b938eca7e7ce2a686fac60d33c9d594b1d0a2c0e"],
    [3, { seed: 111, madeUp: 0.3 }, "c5a6ec6d646130ce987c8c4bfd44f41017ff1bdfe8f3e1f1e548cc626a876cf1"],
    [4, { seed: 112, madeUp: 0.4 }, "c7b491954c622b0018215eb906bff8975e4bf55782b51adafd7710b1da084136"],
    [5, { seed: 116, madeUp: 0.4 }, "dd6f4c4bb641739905d88946a3ab2d282e9751586facde24c316d1d724433402"],
    [6, { seed: 118, madeUp: 0.4 }, "3bd90ce0dfbc67358022fe18f3fafbd1b1b31efc8cdb97f30a30321e81a2312c"]
  ])(
    "draws the text of stage %i, which the weights were already trained on, as it was then",
    (stage, options, hash) => {
      const text = take({ ...options, side: "train", stage }, 2000).map(textOf).join("\n")
      assert.strictEqual(createHash("sha256").update(text).digest("hex"), hash)
    }
  )

  it("shows the working of two steps, each with its right result", () => {
    const source = new Source(9, "train")
    for (let i = 0; i < 200; i++) {
      const { answer } = Conversation.lastTurn(World.conversation(source, "two-step"))
      const steps = Array.from(answer.matchAll(/(\d+) ([+-]) (\d+) = (\d+)/g))
      assert.strictEqual(steps.length, 2, answer)
      for (const [, a, sign, b, result] of steps) {
        assert.strictEqual(sign === "+" ? Number(a) + Number(b) : Number(a) - Number(b), Number(result), answer)
      }
      assert.strictEqual(steps[0]?.[4], steps[1]?.[1], answer)
    }
  })

  it("calls only tools that are there, with arguments that fit", () => {
    FastCheck.assert(
      FastCheck.property(seeds, FastCheck.constantFrom("train" as const, "held-out" as const), (seed, side) => {
        for (const { messages, tools } of take({ seed, side }, 200)) {
          for (const message of messages) {
            if (message.role !== "assistant") continue
            for (const call of message.toolCalls ?? []) assert.isTrue(fits(tools ?? [], call), JSON.stringify(call))
          }
        }
      }),
      { numRuns: 20 }
    )
  })

  it("ends every conversation with the model's own turn", () => {
    FastCheck.assert(
      FastCheck.property(seeds, (seed) => {
        for (const conversation of take({ seed, side: "train" }, 100)) {
          const parts = Conversation.segments(conversation)
          assert.isTrue(parts.every(({ own }, i) => own === (i % 2 === 1)) && parts.length % 2 === 0)
          assert.isTrue(parts.every(({ own, text }) => !own || /^\S[\s\S]*<\|im_end\|>$/.test(text)))
        }
      }),
      { numRuns: 20 }
    )
  })
})

describe("Conversation", () => {
  it("writes turns, tools, reasoning, calls and results in the model's format", () => {
    const conversation: Conversation.Conversation = {
      skill: "example",
      system: "Be brief.",
      tools: [{
        name: "get_weather",
        description: "Weather in a city.",
        parameters: {
          type: "object",
          properties: { city: { type: "string" }, unit: { type: "string" } },
          required: ["city"]
        }
      }, { name: "roll", description: "", parameters: { type: "object", properties: {}, required: [] } }],
      messages: [
        { role: "user", content: "Oslo?" },
        {
          role: "assistant",
          content: "I will look.",
          reasoning: "A tool.",
          toolCalls: [{ name: "get_weather", arguments: { city: "Oslo" } }, { name: "roll", arguments: {} }]
        },
        { role: "tool", content: "sunny" },
        { role: "tool", content: "4" },
        { role: "assistant", content: "Sunny." }
      ]
    }
    assert.strictEqual(
      textOf(conversation),
      `<|im_start|>system
Be brief.

<tools>
get_weather(city: string, unit?: string) Weather in a city.
roll()
</tools><|im_end|>
<|im_start|>user
Oslo?<|im_end|>
<|im_start|>assistant
<think>
A tool.
</think>

I will look.
<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo"}}
</tool_call>
<tool_call>
{"name": "roll", "arguments": {}}
</tool_call><|im_end|>
<|im_start|>user
<tool_response>
sunny
</tool_response>
<tool_response>
4
</tool_response><|im_end|>
<|im_start|>assistant
Sunny.<|im_end|>`
    )
    assert.strictEqual(Conversation.lastTurn(conversation).answer, "Sunny.")
  })
})
