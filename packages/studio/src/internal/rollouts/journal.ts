/**
 * Rollouts of `RunLog`, in one file of lines: kept is where each one lies, and its reward.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { Head, Match } from "../../Rollouts.js"
import * as Json from "../json.js"
import * as Tail from "../tail.js"
import { advantageOf, meanOf } from "./groups.js"
import { excerptOf, messageOf, textOf } from "./messages.js"
import type { Source } from "./source.js"
import type { Raw } from "./turns.js"
import { idsOf, turnOf } from "./turns.js"

const decoder = new TextDecoder()

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

/** The rollouts that `RunLog` records. @internal */
export const journal = (
  path: string,
  run: () => { readonly config: unknown; readonly model: string }
): Source => {
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
      if (head === undefined) return Option.none()
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
      return Option.some({
        ...publicHead(head),
        step,
        split,
        advantage: Json.numberOf(rollout["advantage"]) ??
          advantageOf(Json.objectOf(run().config)["advantage"], heads, head),
        turns: raws.map((raw, i) => turnOf(raw, raws[i - 1], tokenizer)),
        metrics: Json.numbersOf(rollout["metrics"])
      })
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
