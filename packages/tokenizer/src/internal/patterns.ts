/**
 * Regular expressions from tokenizer files, looked at before they run.
 *
 * JavaScript's engine backtracks and cannot be interrupted, so a pattern that can take exponential time, or a power of the
 * text's length, is refused. Patterns of real tokenizers do neither: they repeat single characters and classes, at most two
 * of them after each other can match the same character, and then nothing follows that could fail.
 */

interface Atom {
  readonly _tag: "atom"
  /** A class, an escape or a character; none where it is a whole group, which may match anything. */
  readonly source: string | undefined
  readonly least: number
  readonly most: number
}

/** An anchor or something looked at: it matches no text, and it may fail. */
interface Assertion {
  readonly _tag: "assertion"
}

interface Group {
  readonly _tag: "group"
  readonly branches: ReadonlyArray<Sequence>
  readonly least: number
  readonly most: number
  readonly at: number
}

type Sequence = ReadonlyArray<Atom | Assertion | Group>

class Complaint {
  constructor(readonly description: string) {}
}

const longest = 20_000
const deepest = 64

/** Up to how often a repetition is not a matter of time. */
const fewTimes = 64

const quantifier = /(?:[*+?]|\{(\d+)(,?)(\d*)\})[?+]?/y
const escape = /\\(?:[pPxuk]\{[^}]*\}|[^])/y
const opening = /\((\?(?:[:>]|[a-z-]*:|<?[=!]|<[^>]*>))?/y

const parse = (pattern: string): ReadonlyArray<Sequence> | Complaint => {
  let at = 0

  const matched = (sticky: RegExp): RegExpExecArray | null => {
    sticky.lastIndex = at
    const match = sticky.exec(pattern)
    if (match !== null) at = sticky.lastIndex
    return match
  }

  const times = (): { readonly least: number; readonly most: number } => {
    const match = matched(quantifier)
    if (match === null) return { least: 1, most: 1 }
    const [written, lower, comma, upper] = match
    if (lower !== undefined) {
      const least = Number(lower)
      return { least, most: comma === "" ? least : upper === "" || upper === undefined ? Infinity : Number(upper) }
    }
    return {
      least: written.startsWith("+") ? 1 : 0,
      most: written.startsWith("?") ? 1 : Infinity
    }
  }

  /** Up to the bracket that closes it; classes nest. */
  const bracketed = (): string => {
    const start = at
    let depth = 0
    do {
      const char = pattern.charAt(at)
      if (char === "\\") at++
      else if (char === "[") depth++
      else if (char === "]") depth--
      at++
    } while (depth > 0 && at < pattern.length)
    return pattern.slice(start, at)
  }

  const branches = (depth: number): ReadonlyArray<Sequence> | Complaint => {
    if (depth > deepest) return new Complaint(`the pattern nests groups more than ${deepest} deep`)
    const found: Array<Sequence> = []
    let sequence: Array<Atom | Assertion | Group> = []
    while (at < pattern.length && pattern.charAt(at) !== ")") {
      const char = pattern.charAt(at)
      if (char === "|") {
        at++
        found.push(sequence)
        sequence = []
      } else if (char === "(") {
        const start = at
        const [, kind = ""] = matched(opening) ?? []
        if (kind === "") at = start + 1
        const inner = branches(depth + 1)
        if (inner instanceof Complaint) return inner
        if (pattern.charAt(at) !== ")") return new Complaint("the pattern does not close a group")
        at++
        const isAssertion = /^\?<?[=!]$/.test(kind)
        const count = times()
        // what is looked at runs too
        sequence.push({ _tag: "group", branches: inner, at: start, ...(isAssertion ? { least: 1, most: 1 } : count) })
        if (isAssertion) sequence.push({ _tag: "assertion" })
      } else if (char === "^" || char === "$") {
        at++
        sequence.push({ _tag: "assertion" })
      } else {
        const source = char === "["
          ? bracketed()
          : char === "\\"
          ? matched(escape)?.[0] ?? pattern.slice(at++)
          : String.fromCodePoint(pattern.codePointAt(at) ?? 0)
        if (char !== "[" && char !== "\\") at += source.length
        if (/^\\[bB]$/.test(source)) sequence.push({ _tag: "assertion" })
        else sequence.push({ _tag: "atom", source, ...times() })
      }
    }
    return [...found, sequence]
  }

  const whole = branches(0)
  return whole instanceof Complaint || at === pattern.length
    ? whole
    : new Complaint("the pattern closes a group that it did not open")
}

/** Whether something in it can match the same text in several ways. */
const chooses = ({ branches }: Group): boolean =>
  branches.length > 1 ||
  branches.some((sequence) =>
    sequence.some((item) => item._tag !== "assertion" && (item.most > 1 || (item._tag === "group" && chooses(item))))
  )

const repeatsChoice = (branches: ReadonlyArray<Sequence>): Group | undefined => {
  for (const item of branches.flat()) {
    if (item._tag !== "group") continue
    const found = item.most > 1 && chooses(item) ? item : repeatsChoice(item.branches)
    if (found !== undefined) return found
  }
  return undefined
}

/** In how many ways things that occur a few times at most may occur in one way through a pattern. */
const mostChoices = 4_096

/** How much there may be to look at: all ways through a pattern, written out. */
const mostItems = 5_000

/** Each way through the groups, as a sequence without groups. */
const flatten = (sequence: Sequence): ReadonlyArray<ReadonlyArray<Atom | Assertion>> | undefined => {
  let ways: ReadonlyArray<ReadonlyArray<Atom | Assertion>> = [[]]
  for (const item of sequence) {
    const next: Array<ReadonlyArray<Atom | Assertion>> = []
    if (item._tag !== "group") next.push([item])
    else if (item.most > 1) next.push([{ _tag: "atom", source: undefined, least: item.least, most: item.most }])
    else {
      for (const branch of item.branches) {
        const inner = flatten(branch)
        if (inner === undefined) return undefined
        // what may be left out altogether fails nothing
        next.push(
          ...(item.least > 0 ?
            inner :
            inner.map((way) => way.flatMap((one) => one._tag === "atom" ? [{ ...one, least: 0 }] : [])))
        )
      }
    }
    ways = ways.flatMap((way) => next.map((rest) => [...way, ...rest]))
    if (ways.reduce((sum, way) => sum + 1 + way.length, 0) > mostItems) return undefined
  }
  return ways
}

/** Characters of every kind that classes tell apart. */
const samples: ReadonlyArray<string> = [
  ...Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)),
  ..."éßΩжǅʰªñ中あ한א٣½²\u0301\u00a0\u2003\u3000\u200d–“€←�🙂𝒜"
]

const matches = (source: string): ReadonlySet<string> | undefined => {
  for (const flags of ["u", "v"]) {
    try {
      const expression = new RegExp(`^(?:${source})$`, flags)
      return new Set(samples.filter((sample) => expression.test(sample)))
    } catch {
      continue
    }
  }
  return undefined
}

/**
 * Why matching a pattern could take longer than anybody waits.
 *
 * @internal
 */
export const patternProblem = (pattern: string): string | undefined => {
  if (pattern.length > longest) return `the pattern has more than ${longest} characters`
  const branches = parse(pattern)
  if (branches instanceof Complaint) return branches.description
  const repeated = repeatsChoice(branches)
  if (repeated !== undefined) {
    return `the pattern repeats a group that repeats or chooses, at ${repeated.at}: it can take forever on a text it does not match`
  }
  const known = new Map<string, ReadonlySet<string> | undefined>()
  const charactersOf = ({ source }: Atom): ReadonlySet<string> | undefined => {
    if (source === undefined) return undefined
    if (!known.has(source)) known.set(source, matches(source))
    return known.get(source)
  }
  const overlaps = new Map<string, boolean>()
  const overlap = (left: Atom, right: Atom): boolean => {
    const [a, b] = [charactersOf(left), charactersOf(right)]
    if (a === undefined || b === undefined) return true
    const key = `${left.source} ${right.source}`
    const found = overlaps.get(key) ?? Array.from(a).some((char) => b.has(char))
    overlaps.set(key, found)
    return found
  }
  for (const branch of branches) {
    const ways = flatten(branch)
    if (ways === undefined) return `the pattern has too many ways through its groups`
    for (const way of ways) {
      const choices = way.reduce(
        (product, item) =>
          item._tag === "atom" && item.most <= fewTimes ? product * (item.most - item.least + 1) : product,
        1
      )
      if (choices > mostChoices) {
        return `the pattern leaves open how often too many things occur: ${pattern.slice(0, 80)}`
      }
      for (const [start, first] of way.entries()) {
        if (first._tag !== "atom" || first.most <= fewTimes) continue
        let last = first
        let chain = 1
        for (const item of way.slice(start + 1)) {
          const isLong = item._tag === "atom" && item.most > fewTimes
          if (isLong && overlap(last, item)) {
            chain++
            last = item
            if (chain > 2) {
              return `the pattern repeats the same characters ${chain} times in a row: ${pattern.slice(0, 80)}`
            }
            continue
          }
          const mayFail = item._tag === "assertion" || item.least > 0
          if (mayFail && chain > 1) {
            return `the pattern repeats the same characters twice before something that may fail: ${
              pattern.slice(0, 80)
            }`
          }
          // a character that ends the run: the next repetition is about another text
          if (item._tag === "atom" && item.least > 0 && !overlap(last, item)) break
        }
      }
    }
  }
  return undefined
}
