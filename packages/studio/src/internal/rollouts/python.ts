/**
 * Rollouts that the Python cookbook exports: a file of summaries for each step and split, and a log tree with messages.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Head, Match, Message, Turn } from "../../Rollouts.js"
import * as Json from "../json.js"
import { advantageOf, meanOf } from "./groups.js"
import { excerptOf, messageOf } from "./messages.js"
import type { Source } from "./source.js"

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

/** The rollouts that the Python cookbook exports. @internal */
export const python = (directory: string): Source => {
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
      if (record === undefined || file === undefined) return Option.none()
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
      return Option.some({
        ...head,
        step,
        split,
        advantage: advantageOf("center", found.map(pythonHead), head),
        turns: turns.map((turn) => ({ ...turn, ...spoken })),
        metrics: Json.numbersOf(record["trajectory_metrics"])
      })
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
