/**
 * Two recordings of one scenario: where they differ.
 */
import type { Exchange, Step } from "./Normal.js"

export interface Difference {
  /** `METHOD /path`, and where in it. */
  readonly at: string
  readonly theirs: unknown
  readonly ours: unknown
}

const show = (value: unknown): string => (JSON.stringify(value) ?? "nothing").slice(0, 160)

export const format = ({ at, ours, theirs }: Difference): string => `${at}: ${show(theirs)} there, ${show(ours)} here`

const isObject = (u: unknown): u is object => typeof u === "object" && u !== null

/** Every leaf that differs; a key on one side only is one difference. */
const values = (at: string, theirs: unknown, ours: unknown): ReadonlyArray<Difference> => {
  if (isObject(theirs) && isObject(ours) && Array.isArray(theirs) === Array.isArray(ours)) {
    return Array.from(new Set([...Object.keys(theirs), ...Object.keys(ours)])).flatMap((key) =>
      values(`${at}.${key}`, Reflect.get(theirs, key), Reflect.get(ours, key))
    )
  }
  return Object.is(theirs, ours) ? [] : [{ at, theirs, ours }]
}

const exchanges = (
  at: string,
  theirs: ReadonlyArray<Exchange>,
  ours: ReadonlyArray<Exchange>
): ReadonlyArray<Difference> => [
  ...(theirs.length === ours.length ? [] : [{ at: `${at}.length`, theirs: theirs.length, ours: ours.length }]),
  ...theirs.flatMap((exchange, i) => ours[i] === undefined ? [] : values(`${at}.${i}`, exchange, ours[i]))
]

/** Longest common subsequence by name: what both sent, and what only one did. */
const pairs = (
  theirs: ReadonlyArray<Step>,
  ours: ReadonlyArray<Step>
): ReadonlyArray<readonly [Step | undefined, Step | undefined]> => {
  const same = (i: number, j: number) => theirs[i]?.name === ours[j]?.name
  const best = Array.from({ length: theirs.length + 1 }, () => new Array<number>(ours.length + 1).fill(0))
  const at = (i: number, j: number): number => best[i]?.[j] ?? 0
  for (let i = theirs.length - 1; i >= 0; i--) {
    const row = best[i] ?? []
    for (let j = ours.length - 1; j >= 0; j--) {
      row[j] = same(i, j) ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const out: Array<readonly [Step | undefined, Step | undefined]> = []
  let [i, j] = [0, 0]
  while (i < theirs.length || j < ours.length) {
    if (i < theirs.length && j < ours.length && same(i, j)) out.push([theirs[i++], ours[j++]])
    else if (j >= ours.length || (i < theirs.length && at(i + 1, j) >= at(i, j + 1))) out.push([theirs[i++], undefined])
    else out.push([undefined, ours[j++]])
  }
  return out
}

/** All differences, in the order of the requests. */
export const compare = (theirs: ReadonlyArray<Step>, ours: ReadonlyArray<Step>): ReadonlyArray<Difference> =>
  pairs(theirs, ours).flatMap(([left, right]) => {
    const at = left?.name ?? right?.name ?? ""
    if (left === undefined || right === undefined) {
      return [{ at, theirs: left === undefined ? "not sent" : "sent", ours: right === undefined ? "not sent" : "sent" }]
    }
    return [
      ...values(`${at} query`, left.query, right.query),
      ...exchanges(`${at} attempts`, left.attempts, right.attempts),
      ...exchanges(`${at} polls`, left.polls, right.polls)
    ]
  })
