/**
 * What must hold of a chaos run, whatever went wrong in it: read from the journals of both sides.
 */
import type * as Plan from "./plan.js"

/** One broken promise, in a sentence. */
export type Broken = string

/** Calls end once, in success or in a typed failure. */
export const settledOnce = (settled: ReadonlyArray<Plan.Settled>, begun: number): ReadonlyArray<Broken> => {
  const counts = new Map<number, number>()
  for (const { op } of settled) counts.set(op, (counts.get(op) ?? 0) + 1)
  const broken: Array<Broken> = []
  for (let op = 1; op <= begun; op++) {
    const count = counts.get(op) ?? 0
    if (count !== 1) broken.push(`settled: operation ${op} settled ${count} times`)
  }
  for (const { exit, kind, note, op } of settled) {
    if (exit === "defect") broken.push(`typed failures: ${kind} ${op} died: ${note ?? ""}`)
  }
  return broken
}

/** What is acknowledged was done, and nothing is done twice. */
export const exactlyOnce = (
  settled: ReadonlyArray<Plan.Settled>,
  executed: ReadonlyArray<Plan.Executed>
): ReadonlyArray<Broken> => {
  const broken: Array<Broken> = []
  const runs = new Map<string, Array<Plan.Executed>>()
  for (const entry of executed) {
    const key = `${entry.op}/${entry.part}`
    const own = runs.get(key)
    if (own === undefined) runs.set(key, [entry])
    else own.push(entry)
  }
  for (const own of runs.values()) {
    const [first] = own
    if (first === undefined || own.length === 1) continue
    // Samples change nothing: one whose result died with the server may be drawn again by the next.
    const lives = new Set(own.map(({ life }) => life))
    if (first.kind === "sample" && lives.size === own.length) continue
    broken.push(`exactly once: ${first.kind} ${first.op} ran ${own.length} times`)
  }
  for (const { exit, kind, op, parts } of settled) {
    if (exit !== "ok" || (kind !== "pass" && kind !== "step" && kind !== "sample")) continue
    for (let part = 0; part < parts; part++) {
      if (!runs.has(`${op}/${part}`)) broken.push(`exactly once: ${kind} ${op} was acknowledged and never ran`)
    }
  }
  return broken
}

/** Each model ran its operations in the order in which they were started, under numbers that only grow. */
export const inOrder = (
  settled: ReadonlyArray<Plan.Settled>,
  executed: ReadonlyArray<Plan.Executed>
): ReadonlyArray<Broken> => {
  const broken: Array<Broken> = []
  const byOp = new Map(settled.map((entry) => [entry.op, entry]))
  const models = new Map<string, Array<Plan.Executed>>()
  for (const entry of executed) {
    if (entry.kind === "sample") continue
    const model = `${entry.life}/${entry.adapter}`
    const own = models.get(model)
    if (own === undefined) models.set(model, [entry])
    else own.push(entry)
  }
  for (const [model, own] of models) {
    let previous: Plan.Executed | undefined
    let lastNumber = 0
    let line: string | undefined
    for (const entry of own) {
      const { op, part } = entry
      if (previous !== undefined && (op < previous.op || (op === previous.op && part <= previous.part))) {
        broken.push(`order: model ${model} ran ${op}/${part} after ${previous.op}/${previous.part}`)
      }
      previous = entry
      const call = byOp.get(op)
      line ??= call?.line
      if (call?.line !== line) broken.push(`order: operation ${op} of ${call?.line} ran on ${line}`)
      const numbers = (call?.requests ?? []).map((id) => Number(id.slice(id.lastIndexOf(":") + 1)))
      for (const number of part === 0 ? numbers : []) {
        if (number <= lastNumber) broken.push(`order: model ${model} ran seq_id ${number} after ${lastNumber}`)
        lastNumber = number
      }
    }
  }
  return broken
}

/**
 * Nobody waits, so nothing is polled for. One poll may have been in flight when the last call settled, and its response
 * may have been lost once.
 */
export const quiet = (polls: { readonly quiet: number; readonly over: number }): ReadonlyArray<Broken> =>
  polls.over - polls.quiet <= 2
    ? []
    : [`waiters: ${polls.over - polls.quiet} polls for samples after the last one had settled`]

const median = (values: ReadonlyArray<number>): number => {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[sorted.length >> 1] ?? NaN
}

/** The heap in the first quarter of a run and in the last, in MiB. */
export const memory = (heap: ReadonlyArray<number>): { readonly first: number; readonly last: number } => {
  const quarter = Math.ceil(heap.length / 4)
  const mib = (values: ReadonlyArray<number>) => Math.round(median(values) / 1024 / 1024 * 100) / 100
  return { first: mib(heap.slice(0, quarter)), last: mib(heap.slice(-quarter)) }
}

/** What the runtime itself may add, compiled code and caches, however few the operations. */
const allowance = 4

export const flat = (heap: ReadonlyArray<number>): ReadonlyArray<Broken> => {
  const { first, last } = memory(heap)
  return last <= first * 1.1 + allowance ? [] : [`memory: ${first} MiB in the first quarter, ${last} MiB in the last`]
}
