/**
 * `--templates`: renderers made from the chat templates of public models beside transformers, on the marks that TRL puts
 * around what is trained on. Found by the marks in the marked template, and by comparison in the template as it is, an answer
 * has to be the bytes that TRL marks. Where there are no marks, what the prompt for an answer already says, such as an
 * opened `<think>`, is not trained on; TRL marks it. A template may be refused where it writes an answer differently once
 * messages follow it, or not behind the prompt that asks for it: the reason is said, and counted here.
 */
import { ChatTemplate, Message, Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { Console, Effect, Either, Schema } from "effect"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { against, Differs, PythonFailed } from "../Suite.js"

const name = "templates"

/** The release of TRL whose templates are compared; its wheel is read, not installed. */
const trl = "1.16.0"

const Rendered = Schema.Union(
  Schema.Struct({ text: Schema.String, spans: Schema.Array(Schema.Tuple(Schema.Int, Schema.Int)) }),
  Schema.Struct({ error: Schema.String })
)

const Call = Schema.Struct({
  function: Schema.Struct({
    name: Schema.String,
    arguments: Schema.Record({ key: Schema.String, value: Schema.Unknown })
  })
})

const Said = Schema.Struct({
  role: Schema.String,
  content: Schema.String,
  reasoning_content: Schema.optional(Schema.String),
  tool_calls: Schema.optional(Schema.Array(Call)),
  name: Schema.optional(Schema.String)
})

const Reference = Schema.parseJson(Schema.Struct({
  tools: Schema.Array(Schema.Struct({ function: Message.ToolSpec })),
  tokens: Schema.Record({ key: Schema.String, value: Schema.String }),
  templates: Schema.Array(Schema.Struct({
    name: Schema.String,
    marked: Schema.String,
    plain: Schema.NullOr(Schema.String),
    cases: Schema.Array(Schema.Struct({
      name: Schema.String,
      messages: Schema.Array(Said),
      marked: Rendered,
      plain: Schema.NullOr(Rendered),
      /** What the plain template writes to ask for an answer. */
      prompt: Schema.NullOr(Schema.String)
    }))
  }))
}))

const messageOf = ({ content, name, reasoning_content: reasoning, role, tool_calls: calls }: typeof Said.Type) => {
  const message: Message.Message = {
    role,
    content: reasoning === undefined
      ? content
      : [{ type: "thinking", thinking: reasoning }, { type: "text", text: content }],
    ...(calls === undefined ? {} : {
      toolCalls: calls.map(({ function: { arguments: given, name } }) => ({ name, arguments: JSON.stringify(given) }))
    }),
    ...(name === undefined ? {} : { name })
  }
  return message
}

/** Every byte is a token of its own, so that tokens are places in the text. */
const bytes = Effect.suspend(() => {
  const kept = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173)
  let extra = 0
  const symbols = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(kept(byte) ? byte : 256 + extra++))
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false }
  return Tokenizer.fromHuggingFace({
    id: "bytes",
    tokenizerJson: {
      version: "1.0",
      added_tokens: [],
      normalizer: null,
      pre_tokenizer: byteLevel,
      post_processor: null,
      decoder: byteLevel,
      model: { type: "BPE", vocab: Object.fromEntries(symbols.map((symbol, byte) => [symbol, byte])), merges: [] }
    },
    tokenizerConfig: {}
  })
})

const decoder = new TextDecoder()

/**
 * What is known to differ: Gemma's diffusion template opens the turn after a tool's result within what it writes for the answer,
 * and ends a call with the beginning of the result; TRL marks neither.
 */
const known: ReadonlySet<string> = new Set(["diffusion_gemma, tools"])

/** Reasons for which a template may be refused. */
const refusals = ["does not write this answer behind the prompt", "differently once messages follow it"]

/** The stretches of bytes that are trained on. */
const spansOf = (weights: ArrayLike<number>): ReadonlyArray<readonly [number, number]> => {
  const spans: Array<[number, number]> = []
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] !== 1) continue
    const last = spans.at(-1)
    if (last !== undefined && last[1] === i) last[1]++
    else spans.push([i, i + 1])
  }
  return spans
}

const compare = Effect.gen(function*() {
  const python = yield* Python.makeCookbook
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectoryScoped({ prefix: "effect-tinker-templates-" }).pipe(
    Effect.mapError((error) => new PythonFailed({ program: "templates.py", reason: error.message }))
  )
  const output = yield* python.run("templates", directory, trl)
  const { templates, tokens, tools } = yield* Effect.mapError(
    Schema.decode(Reference)(output),
    (error) => new PythonFailed({ program: "templates.py", reason: error.message })
  )
  yield* against(`trl ${trl}`)
  const tokenizer = yield* Effect.orDie(bytes)
  const specs = tools.map((tool) => tool.function)
  const differences: Array<string> = []
  let compared = 0
  const families = new Set<string>()
  for (const template of templates) {
    const counts = { same: 0, refused: 0 }
    for (const kind of ["marked", "plain"] as const) {
      const source = template[kind]
      if (source === null) continue
      const compiled = yield* Effect.either(ChatTemplate.compile(source, tokens))
      for (const one of template.cases) {
        const { marked } = one
        const expected = one[kind]
        // the marks of one text say nothing about another
        if (expected === null || "error" in marked || "error" in expected || expected.text !== marked.text) continue
        // what takes images takes no plain text
        if (!one.messages.every(({ content }) => expected.text.includes(content))) continue
        const label = `${template.name} (${kind}), ${one.name}`
        const called = one.messages.some((message) => message.tool_calls !== undefined)
        const made = yield* Either.match(compiled, {
          onLeft: (error) => Effect.succeed(error.message),
          onRight: (template) =>
            Renderers.fromTemplate(template, tokenizer, { tools: called ? specs : [] })
              .supervised(one.messages.map(messageOf), "all_assistant_messages")
              .pipe(Effect.catchAll((error) => Effect.succeed(error.message)))
        })
        if (typeof made === "string") {
          counts.refused++
          if (!refusals.some((reason) => made.includes(reason))) differences.push(`${label}: refused: ${made}`)
          continue
        }
        const text = decoder.decode(Uint8Array.from(made.tokens))
        if (text !== expected.text) {
          differences.push(`${label}: text ${JSON.stringify(text)}, expected ${JSON.stringify(expected.text)}`)
          continue
        }
        const raw = new TextEncoder().encode(text)
        const answers = (spans: ReadonlyArray<readonly [number, number]>) =>
          spans.map(([from, to]) => decoder.decode(raw.subarray(from, to)))
        const marks = new Uint8Array(raw.length)
        for (const [from, to] of marked.spans) marks.fill(1, from, to)
        const [found, wanted] = [answers(spansOf(made.weights)), answers(spansOf(marks))]
        const same = found.length === wanted.length && found.every((answer, i) => {
          const other = wanted[i] ?? ""
          const asked = other.slice(0, other.length - answer.length)
          return other.endsWith(answer) &&
            (asked === "" || (kind === "plain" && (one.prompt?.endsWith(asked) ?? false)))
        })
        if (!same && known.has(`${template.name}, ${one.name}`)) continue
        if (!same) {
          differences.push(`${label}: trains on ${JSON.stringify(found)}, TRL on ${JSON.stringify(wanted)}`)
        } else {
          counts.same++
          compared++
          families.add(template.name)
        }
      }
    }
    yield* Console.log(
      `${template.name}: ${counts.same} the same${counts.refused > 0 ? `, ${counts.refused} refused` : ""}`
    )
  }
  yield* Console.log(`${compared} conversations, ${families.size} templates`)
  if (differences.length > 0) return yield* new Differs({ suite: name, differences })
}).pipe(Effect.scoped)

export const templates: Suite = {
  name,
  summary: "renderers made from chat templates: what they train on, by the marks of TRL and transformers",
  run: () => compare
}
