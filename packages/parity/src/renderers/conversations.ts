/**
 * Random conversations: several turns, tools, reasoning, from a seed.
 */
import { Message } from "@effect-tinker/tokenizer"
import { crc32, deflateSync } from "node:zlib"
import type { Family } from "./families.js"

/** A generator of numbers from 0 to 1, the same for the same seed (mulberry32). */
export const generator = (seed: number): () => number => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const phrases = [
  "What is the weather in Paris?",
  "42 is the answer",
  "const x = { a: [1, 2] };",
  "naïve café, Ωmega",
  "中文测试",
  "one line\nand another",
  "a list:\n- one\n- two",
  "Thanks!",
  "it's 3.14 or 2e-7",
  "🙂 ok",
  "\"quoted\" 'text'",
  "tabs\tand  spaces",
  "<b>not a token</b>",
  "first\n\nsecond paragraph"
]

export const tools: ReadonlyArray<Message.ToolSpec> = [
  {
    name: "get_weather",
    description: "Current weather of a city",
    parameters: {
      type: "object",
      properties: {
        city: { type: "string", description: "Name of the city" },
        unit: { type: "string", enum: ["celsius", "fahrenheit"] },
        days: { type: "integer", description: "How many days" }
      },
      required: ["city"]
    }
  },
  {
    name: "search",
    description: "Searches documents",
    parameters: {
      type: "object",
      properties: {
        query: { type: "string" },
        filters: { type: "object", properties: { tags: { type: "array", items: { type: "string" } } } },
        strict: { type: "boolean" }
      },
      required: ["query", "strict"]
    }
  }
]

/** A black PNG of a size. */
const png = (width: number, height: number): Uint8Array => {
  const chunk = (type: string, data: Uint8Array): Buffer => {
    const body = Buffer.concat([Buffer.from(type, "latin1"), data])
    const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)]
    length.writeUInt32BE(data.length)
    checksum.writeUInt32BE(crc32(body))
    return Buffer.concat([length, body, checksum])
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // eight bits for each of red, green and blue
  header.set([8, 2, 0, 0, 0], 8)
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(Buffer.alloc(height * (1 + 3 * width)))),
    chunk("IEND", Buffer.alloc(0))
  ])
}

export interface Conversation {
  readonly tools: ReadonlyArray<Message.ToolSpec>
  readonly messages: ReadonlyArray<Message.Message>
}

export const conversation = (random: () => number, family: Family): Conversation => {
  const pick = <A>(items: ReadonlyArray<A>): A | undefined => items[Math.floor(random() * items.length)]
  const phrase = () => pick(phrases) ?? ""
  const text = () => random() < 0.6 ? phrase() : `${phrase()} ${phrase()}`
  const usesTools = family.tools && random() < 0.6
  const messages: Array<Message.Message> = random() < 0.5 ? [{ role: "system", content: text() }] : []
  const say = (content: string): Message.Message["content"] =>
    family.reasons && random() < 0.6
      ? [{ type: "thinking", thinking: text() }, { type: "text", text: content }]
      : content
  const call = (i: number): Message.ToolCall => {
    const name = pick(tools)?.name ?? "search"
    const args = name === "search"
      ? { query: phrase(), strict: random() < 0.5, filters: { tags: [phrase()] } }
      : { city: phrase(), days: Math.floor(random() * 9), ...(random() < 0.3 ? { unit: null } : {}) }
    return {
      ...(family.tokenizer === "kimi" ? { id: `functions.${name}:${i}` } : {}),
      name,
      // as Python writes it, which templates and the cookbook do
      arguments: JSON.stringify(args).length === 0 ? "{}" : spaced(args)
    }
  }
  const turns = 1 + Math.floor(random() * 3)
  const length = () => 1 + Math.floor(random() * (random() < 0.1 ? 900 : 200))
  /** What people and tools say, with images where the model sees. */
  const shown = (): Message.Message["content"] => {
    if (family.images === undefined || random() < 0.6) return text()
    const parts = Array.from({ length: 1 + Math.floor(random() * 3) }, (): ReadonlyArray<Message.ContentPart> => [
      ...(random() < 0.5 ? [{ type: "text" as const, text: random() < 0.3 ? ` ${text()}\n` : text() }] : []),
      Message.image(png(length(), length()), "png")
    ])
    return [...parts.flat(), ...(random() < 0.5 ? [{ type: "text" as const, text: text() }] : [])]
  }
  for (let turn = 0; turn < turns; turn++) {
    messages.push({ role: "user", content: shown() })
    for (let round = 0; usesTools && round < 2 && random() < 0.5; round++) {
      const calls = Array.from({ length: random() < 0.7 ? 1 : 2 }, (_, i) => call(i))
      messages.push({ role: "assistant", content: say(random() < 0.5 ? "" : text()), toolCalls: calls })
      for (const { id, name } of calls) {
        messages.push({ role: "tool", content: shown(), name, ...(id === undefined ? {} : { toolCallId: id }) })
      }
    }
    messages.push({ role: "assistant", content: say(text()) })
  }
  return { tools: usesTools ? tools : [], messages }
}

/** JSON with the spaces Python writes. */
export const spaced = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(spaced).join(", ")}]`
  if (typeof value === "object" && value !== null) {
    return `{${Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${spaced(item)}`).join(", ")}}`
  }
  return JSON.stringify(value)
}
