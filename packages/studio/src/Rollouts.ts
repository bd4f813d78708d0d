/**
 * Rollouts of a run, from step to group to rollout to token.
 *
 * Rollouts are large and there are many of them, so what is kept in memory is an index: where each one lies in its file,
 * and its reward. A rollout is read in full when it is opened. Of several attempts at a step the last one counts.
 *
 * All text in here was written by a model, by tools, or by the author of the data: it is shown as text and never
 * interpreted.
 *
 * @since 0.1.0
 */
import * as Trajectory from "@effect-tinker/cookbook/Trajectory"
import type * as Tokenizer from "@effect-tinker/tokenizer/Tokenizer"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Json from "./internal/json.js"
import * as Tail from "./internal/tail.js"
import * as TokenText from "./internal/tokens.js"
import * as Transcript from "./internal/transcript.js"

// =============================================================================
// models
// =============================================================================

/**
 * The rollouts of a step in a line.
 *
 * @since 0.1.0
 * @category models
 */
export interface StepSummary {
  readonly step: number
  /** `train`, or the name of an evaluation. */
  readonly split: string
  /** `null` where the file has not been read yet. */
  readonly count: number | null
  readonly mean: number | null
}

/**
 * A rollout in a line.
 *
 * @since 0.1.0
 * @category models
 */
export interface Head {
  /** Its place among the rollouts of the step. */
  readonly index: number
  readonly group: number
  readonly member: number
  readonly reward: number | null
  readonly stop: string | null
  readonly tags: ReadonlyArray<string>
}

/**
 * A message as it is shown.
 *
 * @since 0.1.0
 * @category models
 */
export interface Message {
  readonly role: string
  readonly text: string
  readonly reasoning: string
  readonly toolCalls: ReadonlyArray<{ readonly name: string; readonly arguments: string }>
}

/**
 * The tokens of a turn: first those that the model was given since the last turn, then those it sampled.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tokens {
  readonly ids: ReadonlyArray<number>
  /** Text of each token; `null` without a tokenizer, empty for a token that ends inside a character. */
  readonly texts: ReadonlyArray<string> | null
  /** How many of them were given. */
  readonly given: number
  /** One for each sampled token. */
  readonly logprobs: ReadonlyArray<number | null>
  /** Tokens of the prompt before the first one here. */
  readonly offset: number
  /** Tokens that are left out at the start because there are too many to show. */
  readonly omitted: number
}

/**
 * A turn: what the model saw, what it said, and what came of it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Turn {
  readonly before: ReadonlyArray<Message>
  readonly message: Message | null
  readonly tokens: Tokens | null
  readonly promptTokens: number
  readonly sampledTokens: number
  readonly reward: number | null
  /** Its tokens are not trained on. */
  readonly masked: boolean
  readonly policyVersion: number | null
  /** Why its prompt does not continue the tokens of the turn before: it is trained as a separate row. */
  readonly fork: { readonly reason: string; readonly description: string } | null
  readonly metrics: ReadonlyArray<readonly [string, number]>
  readonly logs: ReadonlyArray<readonly [string, string]>
}

/**
 * A rollout, the same for both kinds of run.
 *
 * @since 0.1.0
 * @category models
 */
export interface Rollout extends Head {
  readonly step: number
  readonly split: string
  /** How much better than its group it did, as the run computes it; `null` where the run uses another rule. */
  readonly advantage: number | null
  readonly turns: ReadonlyArray<Turn>
  readonly metrics: ReadonlyArray<readonly [string, number]>
}

/**
 * A rollout with a text that was searched for.
 *
 * @since 0.1.0
 * @category models
 */
export interface Match {
  readonly step: number
  readonly split: string
  readonly head: Head
  /** The text around it. */
  readonly excerpt: string
}

/**
 * Result of a search, and whether it looked at everything.
 *
 * @since 0.1.0
 * @category models
 */
export interface Found {
  readonly matches: ReadonlyArray<Match>
  readonly searched: number
  readonly complete: boolean
}

/**
 * There is no such rollout.
 *
 * @since 0.1.0
 * @category errors
 */
export class RolloutNotFound
  extends Schema.TaggedError<RolloutNotFound>("@effect-tinker/studio/Rollouts/RolloutNotFound")("RolloutNotFound", {
    step: Schema.Number,
    index: Schema.Number
  })
{
  override get message(): string {
    return `step ${this.step} has no rollout ${this.index}`
  }
}

type Failure = RolloutNotFound | PlatformError.PlatformError

/**
 * The rollouts of a run.
 *
 * @since 0.1.0
 * @category models
 */
export interface Rollouts {
  /** Indexes what was appended, and yields whether there was anything. */
  readonly refresh: Effect.Effect<boolean, PlatformError.PlatformError, FileSystem.FileSystem>
  readonly steps: () => ReadonlyArray<StepSummary>
  /** How many lines could not be read. */
  readonly unreadable: () => number
  readonly list: (
    step: number,
    split: string
  ) => Effect.Effect<ReadonlyArray<Head>, PlatformError.PlatformError, FileSystem.FileSystem>
  /** One rollout; with a tokenizer, with what its tokens say. */
  readonly read: (
    step: number,
    split: string,
    index: number,
    tokenizer: Option.Option<Tokenizer.Tokenizer>
  ) => Effect.Effect<Rollout, Failure, FileSystem.FileSystem>
  /** Rollouts whose messages contain a text, whatever its case; the latest steps first. */
  readonly search: (
    text: string,
    limit: number
  ) => Effect.Effect<Found, PlatformError.PlatformError, FileSystem.FileSystem>
}

// =============================================================================
// messages and tokens
// =============================================================================

const decoder = new TextDecoder()

/** Content as text or as parts, tool calls flat as ours or nested as OpenAI's. */
const messageOf = (u: unknown): Message | undefined => {
  if (!Json.isObject(u)) return undefined
  const role = Json.textOf(u["role"])
  const content = u["content"]
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : Json.arrayOf(content)
  if (role === undefined) return undefined
  const pick = (key: string) => parts.map((part) => Json.textOf(Json.objectOf(part)[key]) ?? "").join("")
  const calls = [...Json.arrayOf(u["toolCalls"]), ...Json.arrayOf(u["tool_calls"])].map((call) => {
    const raw = Json.objectOf(call)
    const inner = Json.isObject(raw["function"]) ? raw["function"] : raw
    const given = inner["arguments"]
    return {
      name: Json.textOf(inner["name"]) ?? "?",
      arguments: typeof given === "string" ? given : JSON.stringify(given ?? {})
    }
  })
  const broken = [...Json.arrayOf(u["unparsedToolCalls"]), ...Json.arrayOf(u["unparsed_tool_calls"])].map((call) => ({
    name: "unreadable call",
    arguments: Json.textOf(Json.objectOf(call)["rawText"]) ?? Json.textOf(Json.objectOf(call)["raw_text"]) ?? ""
  }))
  return { role, text: pick("text"), reasoning: pick("thinking"), toolCalls: [...calls, ...broken] }
}

const textOf = (message: Message): string =>
  [message.reasoning, message.text, ...message.toolCalls.map((call) => `${call.name} ${call.arguments}`)]
    .filter((text) => text !== "").join("\n")

const idsOf = (u: unknown): ReadonlyArray<number> => Json.arrayOf(u).map((id) => typeof id === "number" ? id : -1)

/** How many elements two lists have in common at their beginning. */
const common = (a: ReadonlyArray<number>, b: ReadonlyArray<number>): number => {
  let i = 0
  while (i < a.length && i < b.length && a[i] === b[i]) i++
  return i
}

/** More than this of one turn no browser shows well, and no person reads. */
const maxTokens = 20_000

interface Raw {
  readonly prompt: ReadonlyArray<number>
  readonly tokens: ReadonlyArray<number>
  readonly turn: Json.JsonObject
}

const forkOf = (u: unknown) => {
  const { description, reason } = Json.objectOf(u)
  return typeof reason === "string" ? { reason, description: Json.textOf(description) ?? "" } : undefined
}

const turnOf = (raw: Raw, previous: Raw | undefined, tokenizer: Option.Option<Tokenizer.Tokenizer>): Turn => {
  const { prompt, tokens, turn } = raw
  const history = previous === undefined ? [] : [...previous.prompt, ...previous.tokens]
  const shared = common(history, prompt)
  const continues = shared === history.length
  const given = prompt.slice(continues ? shared : 0)
  const omitted = Math.max(0, given.length + tokens.length - maxTokens)
  const shown = [...given, ...tokens].slice(omitted)
  const texts = Option.getOrNull(Option.map(tokenizer, (it) => TokenText.texts(it, shown)))
  const recorded = forkOf(turn["fork"])
  const said = Json.arrayOf(turn["given"]).flatMap((message) => messageOf(message) ?? [])
  return {
    before: said.length > 0 ? said : Option.match(tokenizer, {
      onNone: () => [],
      onSome: (it) =>
        Transcript.split(it.decode(given, { skipSpecialTokens: false })).map(({ role, text }) => ({
          role,
          text,
          reasoning: "",
          toolCalls: []
        }))
    }),
    message: messageOf(turn["message"]) ?? Option.getOrNull(Option.map(tokenizer, (it) => ({
      role: "assistant",
      text: it.decode(tokens, { skipSpecialTokens: false }),
      reasoning: "",
      toolCalls: []
    }))),
    tokens: {
      ids: shown,
      texts,
      given: Math.max(0, given.length - omitted),
      logprobs: Json.arrayOf(turn["logprobs"]).map((value) => Json.numberOf(value) ?? null),
      offset: prompt.length - given.length,
      omitted
    },
    promptTokens: prompt.length,
    sampledTokens: tokens.length,
    reward: Json.numberOf(turn["reward"]) ?? null,
    masked: turn["masked"] === true,
    policyVersion: Json.numberOf(turn["policyVersion"]) ?? null,
    fork: continues ? null : recorded ?? {
      reason: "HistoryChanged",
      description: `the prompt differs from the tokens of the turn before from token ${shared} on`
    },
    metrics: Json.numbersOf(turn["metrics"]),
    logs: []
  }
}

const advantages: Readonly<Record<string, Trajectory.Advantage>> = {
  center: Trajectory.center,
  standardize: Trajectory.standardize,
  leave_one_out: Trajectory.leaveOneOut
}

/** The advantage of a member by the rule of the run's configuration. */
const advantageOf = (rule: unknown, heads: ReadonlyArray<Head>, head: Head): number | null => {
  const compute = advantages[typeof rule === "string" ? rule : "center"]
  const group = heads.filter((other) => other.group === head.group)
  const rewards = group.map(({ reward }) => reward ?? NaN)
  if (compute === undefined || rewards.some(Number.isNaN)) return null
  return compute(rewards)[group.findIndex(({ index }) => index === head.index)] ?? null
}

const excerptOf = (text: string, needle: string): string | undefined => {
  const at = text.toLowerCase().indexOf(needle)
  if (at < 0) return undefined
  const from = Math.max(0, at - 60)
  const to = Math.min(text.length, at + needle.length + 60)
  return `${from > 0 ? "…" : ""}${text.slice(from, to)}${to < text.length ? "…" : ""}`
}

const meanOf = (heads: ReadonlyArray<Head>): number | null => {
  const rewards = heads.flatMap(({ reward }) => reward === null || !Number.isFinite(reward) ? [] : [reward])
  return rewards.length === 0 ? null : rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
}

const readBytes = (path: string, offset: number, bytes: number) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    fs.stream(path, { offset, bytesToRead: bytes }).pipe(
      Stream.runCollect,
      Effect.map((chunks) => {
        const whole = new Uint8Array(Chunk.reduce(chunks, 0, (sum, { length }) => sum + length))
        let at = 0
        for (const chunk of chunks) {
          whole.set(chunk, at)
          at += chunk.length
        }
        return decoder.decode(whole)
      })
    ))

/** How many bytes a search looks at before it gives up on the rest. */
const searchBytes = 512 * 1024 * 1024

// =============================================================================
// rollouts.jsonl
// =============================================================================

interface Indexed extends Head {
  readonly offset: number
  readonly bytes: number
}

/** Everything up to the turns, which make up nearly all of a line and are parsed only when the rollout is opened. */
const headOf = (text: string): Json.JsonObject => {
  const at = text.slice(0, 8192).indexOf("\"turns\":[")
  const short = at < 0 ? undefined : Json.parse(`${text.slice(0, at)}"turns":[]}}`)
  return Json.objectOf(Json.isObject(Json.objectOf(short)["rollout"]) ? short : Json.parse(text))
}

/**
 * The rollouts that `RunLog` records.
 *
 * @since 0.1.0
 * @category constructors
 */
export const journal = (
  path: string,
  run: () => { readonly config: unknown; readonly model: string }
): Rollouts => {
  const byStep = new Map<number, Array<Indexed>>()
  const interned = new Map<string, ReadonlyArray<string>>()
  let attempt = 0
  let unreadable = 0
  const clear = () => {
    byStep.clear()
    attempt = 0
    unreadable = 0
  }
  const tail = Tail.make(path, {
    restarted: clear,
    line: (text, offset, bytes) => {
      const line = headOf(text)
      const step = Json.numberOf(line["step"])
      if (step === undefined) {
        unreadable++
        return
      }
      const by = Json.numberOf(line["attempt"]) ?? 0
      if (by > attempt) {
        // The run was resumed: what had been sampled from here on is sampled again.
        for (const known of byStep.keys()) if (known >= step) byStep.delete(known)
        attempt = by
      }
      const rollout = Json.objectOf(line["rollout"])
      const tags = Json.arrayOf(rollout["tags"]).flatMap((tag) => typeof tag === "string" ? [tag] : [])
      const key = tags.join("\u0000")
      if (!interned.has(key)) interned.set(key, tags)
      const list = byStep.get(step) ?? []
      byStep.set(step, list)
      list.push({
        index: list.length,
        group: Json.numberOf(rollout["group"]) ?? 0,
        member: Json.numberOf(rollout["member"]) ?? list.length,
        reward: Json.numberOf(rollout["reward"]) ?? null,
        stop: Json.textOf(rollout["stop"]) ?? null,
        tags: interned.get(key) ?? tags,
        offset,
        bytes
      })
    },
    oversized: () => {
      unreadable++
    }
  })

  const publicHead = ({ bytes: _, offset: __, ...head }: Indexed): Head => head

  return {
    refresh: tail.read,
    steps: () =>
      Array.from(byStep, ([step, heads]) => ({ step, split: "train", count: heads.length, mean: meanOf(heads) }))
        .sort((a, b) => a.step - b.step),
    unreadable: () => unreadable,
    list: (step) => Effect.sync(() => (byStep.get(step) ?? []).map(publicHead)),
    read: Effect.fnUntraced(function*(step, split, index, tokenizer) {
      const heads = byStep.get(step) ?? []
      const head = heads[index]
      if (head === undefined) return yield* new RolloutNotFound({ step, index })
      const line = Json.parse(yield* readBytes(path, head.offset, head.bytes))
      const rollout = Json.objectOf(Json.objectOf(line)["rollout"])
      const raws: Array<Raw> = []
      for (const turn of Json.arrayOf(rollout["turns"]).map(Json.objectOf)) {
        const before = raws[raws.length - 1]
        // Of a prompt that continues the turn before, only what it adds is recorded.
        const offset = Json.numberOf(turn["offset"]) ?? 0
        const shared = before === undefined ? [] : [...before.prompt, ...before.tokens].slice(0, offset)
        raws.push({ prompt: [...shared, ...idsOf(turn["prompt"])], tokens: idsOf(turn["tokens"]), turn })
      }
      return {
        ...publicHead(head),
        step,
        split,
        advantage: Json.numberOf(rollout["advantage"]) ??
          advantageOf(Json.objectOf(run().config)["advantage"], heads, head),
        turns: raws.map((raw, i) => turnOf(raw, raws[i - 1], tokenizer)),
        metrics: Json.numbersOf(rollout["metrics"])
      }
    }),
    search: Effect.fnUntraced(function*(text, limit) {
      const needle = text.toLowerCase()
      // In JSON, some characters are written differently: then every line has to be parsed.
      const plain = JSON.stringify(needle) === `"${needle}"` && /^[\x20-\x7e]*$/.test(needle)
      const matches: Array<Match> = []
      let searched = 0
      let read = 0
      const steps = Array.from(byStep.keys()).sort((a, b) => b - a)
      for (const step of steps) {
        for (const head of byStep.get(step) ?? []) {
          if (matches.length >= limit || read > searchBytes) return { matches, searched, complete: false }
          const line = yield* readBytes(path, head.offset, head.bytes)
          searched++
          read += head.bytes
          if (plain && !line.toLowerCase().includes(needle)) continue
          const turns = Json.arrayOf(Json.objectOf(Json.objectOf(Json.parse(line))["rollout"])["turns"])
          const excerpt = turns.flatMap((turn) => {
            const message = messageOf(Json.objectOf(turn)["message"])
            return message === undefined ? [] : excerptOf(textOf(message), needle) ?? []
          })[0]
          if (excerpt !== undefined) matches.push({ step, split: "train", head: publicHead(head), excerpt })
        }
      }
      return { matches, searched, complete: true }
    })
  }
}

// =============================================================================
// iteration_*/..._rollout_summaries.jsonl
// =============================================================================

const summaries = /^(.+)_rollout_summaries\.jsonl$/

/** The conversations of a log tree, by the group and the trajectory they are logged for. */
const conversationsOf = (tree: unknown): ReadonlyArray<ReadonlyArray<Message>> => {
  const found: Array<ReadonlyArray<Message>> = []
  const visit = (node: unknown, depth: number) => {
    if (depth > 64 || !Json.isObject(node)) return
    const data = Json.objectOf(node["data"])
    if (data["type"] === "conversation") {
      found.push(Json.arrayOf(data["messages"]).flatMap((message) => messageOf(message) ?? []))
    }
    for (const child of Json.arrayOf(node["children"])) visit(child, depth + 1)
  }
  visit(Json.objectOf(tree)["root"], 0)
  return found
}

const printed = (value: unknown): string => typeof value === "string" ? value : JSON.stringify(value)

const pythonTurn = (u: unknown): Turn => {
  const raw = Json.objectOf(u)
  return {
    before: [],
    message: null,
    tokens: null,
    promptTokens: Json.numberOf(raw["ob_len"]) ?? 0,
    sampledTokens: Json.numberOf(raw["ac_len"]) ?? 0,
    reward: Json.numberOf(raw["reward"]) ?? null,
    masked: false,
    policyVersion: null,
    fork: null,
    metrics: Json.numbersOf(raw["metrics"]),
    logs: Object.entries(Json.objectOf(raw["logs"])).map(([name, value]) => [name, printed(value)] as const)
  }
}

const pythonHead = (record: Json.JsonObject, index: number): Head => ({
  index,
  group: Json.numberOf(record["group_idx"]) ?? 0,
  member: Json.numberOf(record["traj_idx"]) ?? index,
  reward: Json.numberOf(record["total_reward"]) ?? null,
  stop: Json.textOf(Json.objectOf(record["trajectory_metrics"])["stop_reason"]) ?? null,
  tags: Json.arrayOf(record["tags"]).flatMap((tag) => typeof tag === "string" ? [tag] : [])
})

/**
 * The rollouts that the Python cookbook exports, one file for each step and split. It records no tokens; where it wrote a
 * log tree beside them and every rollout of the file has its conversation in it, messages come from there.
 *
 * @since 0.1.0
 * @category constructors
 */
export const python = (directory: string): Rollouts => {
  /** Files by step and split. */
  const files = new Map<string, { readonly step: number; readonly split: string; readonly path: string }>()
  const key = (step: number, split: string) => `${step} ${split}`
  const read = new Map<
    string,
    { readonly mark: string; readonly records: ReadonlyArray<Json.JsonObject>; readonly unreadable: number }
  >()
  const listed = new Set<string>()

  const records = Effect.fnUntraced(function*(step: number, split: string) {
    const file = files.get(key(step, split))
    if (file === undefined) return []
    const fs = yield* FileSystem.FileSystem
    const stat = yield* fs.stat(file.path)
    const mark = `${stat.size} ${Option.getOrUndefined(stat.mtime)?.getTime()}`
    const known = read.get(file.path)
    if (known?.mark === mark) return known.records
    const text = yield* fs.readFileString(file.path)
    const written = text.split("\n").filter((line) => line.trim() !== "")
    const lines = written.map(Json.parse).filter(Json.isObject)
    // Only the steps that were opened last stay in memory.
    if (read.size >= 16) read.delete(read.keys().next().value ?? "")
    read.set(file.path, { mark, records: lines, unreadable: written.length - lines.length })
    return lines
  })

  return {
    refresh: Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const names = yield* Effect.orElseSucceed(fs.readDirectory(directory), () => [])
      let changed = false
      const iterations = names.filter((name) => /^iteration_\d+$/.test(name)).sort()
      const newest = iterations[iterations.length - 1]
      for (const name of iterations) {
        // An iteration that has been listed is over, but for the one that is being written.
        if (listed.has(name) && name !== newest) continue
        listed.add(name)
        const step = Number(name.slice("iteration_".length))
        for (const file of yield* Effect.orElseSucceed(fs.readDirectory(`${directory}/${name}`), () => [])) {
          const split = summaries.exec(file)?.[1]
          if (split === undefined || files.has(key(step, split))) continue
          files.set(key(step, split), { step, split, path: `${directory}/${name}/${file}` })
          changed = true
        }
      }
      return changed
    }),
    steps: () =>
      Array.from(files.values(), ({ path, split, step }) => {
        const known = read.get(path)?.records
        return {
          step,
          split,
          count: known?.length ?? null,
          mean: known === undefined ? null : meanOf(known.map(pythonHead))
        }
      }).sort((a, b) => a.step - b.step || (a.split < b.split ? -1 : 1)),
    unreadable: () => Array.from(read.values()).reduce((sum, { unreadable }) => sum + unreadable, 0),
    list: (step, split) => Effect.map(records(step, split), (found) => found.map(pythonHead)),
    read: Effect.fnUntraced(function*(step, split, index) {
      const found = yield* records(step, split)
      const record = found[index]
      const file = files.get(key(step, split))
      if (record === undefined || file === undefined) return yield* new RolloutNotFound({ step, index })
      const head = pythonHead(record, index)
      const fs = yield* FileSystem.FileSystem
      const tree = yield* fs.readFileString(file.path.replace(summaries, "$1_logtree.json")).pipe(
        Effect.map(Json.parse),
        Effect.orElseSucceed(() => undefined)
      )
      const turns = Json.arrayOf(record["steps"]).map(pythonTurn)
      // Of single-turn problems the tree has a prompt and a response for each rollout, in their order.
      const conversations = conversationsOf(tree)
      const spoken = conversations.length === 2 * found.length && turns.length === 1
        ? { before: conversations[2 * index] ?? [], message: conversations[2 * index + 1]?.[0] ?? null }
        : {}
      return {
        ...head,
        step,
        split,
        advantage: advantageOf("center", found.map(pythonHead), head),
        turns: turns.map((turn) => ({ ...turn, ...spoken })),
        metrics: Json.numbersOf(record["trajectory_metrics"])
      }
    }),
    search: Effect.fnUntraced(function*(text, limit) {
      const needle = text.toLowerCase()
      const matches: Array<Match> = []
      let searched = 0
      for (const { split, step } of Array.from(files.values()).sort((a, b) => b.step - a.step)) {
        const found = yield* records(step, split)
        for (const [index, record] of found.entries()) {
          if (matches.length >= limit) return { matches, searched, complete: false }
          searched++
          const logs = Json.arrayOf(record["steps"]).flatMap((raw) => pythonTurn(raw).logs.map(([, value]) => value))
          const excerpt = logs.flatMap((log) => excerptOf(log, needle) ?? [])[0]
          if (excerpt !== undefined) matches.push({ step, split, head: pythonHead(record, index), excerpt })
        }
      }
      return { matches, searched, complete: true }
    })
  }
}
