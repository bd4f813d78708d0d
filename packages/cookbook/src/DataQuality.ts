/**
 * Problems of training data: rows that are there twice or nearly twice, rows of the held-out data, answers that are empty or cut
 * short, personal data and secrets, answers that are nearly all the same.
 *
 * Rows are of any shape that `RowShape` recognizes. They are read once and not kept.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Stream from "effect/Stream"
import * as Dataset from "./Dataset.js"
import * as Duplicates from "./Duplicates.js"
import type * as Language from "./Language.js"
import * as RowShape from "./RowShape.js"
import * as Sensitive from "./Sensitive.js"

/**
 * The texts of a row: what is asked, and what is answered. A preference has two answers, the chosen one first.
 *
 * @since 0.2.0
 * @category models
 */
export interface Texts {
  readonly prompt: string
  readonly answers: ReadonlyArray<string>
}

const contentOf = (content: unknown): string => {
  if (typeof content === "string") return content
  if (Array.isArray(content)) return content.map(contentOf).join("")
  if (!Predicate.isRecord(content)) return ""
  return contentOf(content["text"] ?? content["content"] ?? content["value"])
}

const roleOf = (message: unknown): string => {
  const role = Predicate.isRecord(message) ? message["role"] ?? message["from"] : ""
  return role === "gpt" || role === "model" ? "assistant" : role === "human" ? "user" : String(role)
}

/** Messages, or a text. */
const said = (of: unknown): string =>
  Array.isArray(of) ? of.map((message) => `${roleOf(message)}: ${contentOf(message)}`).join("\n") : contentOf(of)

/**
 * The texts of a row whose shape was recognized.
 *
 * @since 0.2.0
 * @category combinators
 */
export const textsOf = ({ kind, row }: RowShape.Recognized): Texts => {
  if (kind === "completions") return { prompt: said(row["prompt"]), answers: [said(row["completion"])] }
  if (kind === "preferences") {
    return { prompt: said(row["prompt"]), answers: [said(row["chosen"]), said(row["rejected"])] }
  }
  const messages = row["messages"] ?? row["conversations"]
  const list: ReadonlyArray<unknown> = Array.isArray(messages) ? messages : []
  const last = list.at(-1)
  return roleOf(last) === "assistant"
    // a call of a tool is an answer, too
    ? {
      prompt: said(list.slice(0, -1)),
      answers: [
        Predicate.hasProperty(last, "tool_calls") && contentOf(last) === ""
          ? JSON.stringify(last.tool_calls)
          : contentOf(last)
      ]
    }
    : { prompt: said(list), answers: [] }
}

/**
 * A row that something is wrong with. Rows count from 0.
 *
 * @since 0.2.0
 * @category models
 */
export interface Finding {
  readonly kind: "exact" | "near" | "leaked" | "empty" | "truncated" | "sensitive"
  readonly row: number
  /** The row that it is like, of the same data, or of the held-out data where it leaked. */
  readonly like?: number | undefined
  readonly detail?: string | undefined
}

/**
 * Problems found.
 *
 * @since 0.2.0
 * @category models
 */
export interface Report {
  readonly rows: number
  /** Rows of no shape that is known, or that could not be read. */
  readonly unread: number
  readonly counts: Readonly<Record<Finding["kind"], number>>
  /** The first of each kind. */
  readonly findings: ReadonlyArray<Finding>
  /** Places with personal data and secrets. */
  readonly sensitive: Readonly<Record<Sensitive.Kind, number>>
  /** Codes of languages and in how many of the rows that were looked at, which are long enough to tell; empty where none is. */
  readonly languages: Readonly<Record<string, number>>
  /** Characters of the answers. */
  readonly answers: { readonly p50: number; readonly p90: number; readonly max: number }
  /** The most frequent answers that are there more than once, and their share of the rows. */
  readonly frequent: ReadonlyArray<{ readonly answer: string; readonly share: number }>
  /** Of preferences: the share whose chosen answer is the longer one. */
  readonly chosenLonger: number | undefined
}

/** Characters from which an answer that ends in the middle of a sentence counts as cut short. */
const longAnswer = 200

/** Whether an answer looks as if it was cut short: a block of code left open, or a long text that ends without an end. */
const isTruncated = (answer: string): boolean => {
  const text = answer.trimEnd()
  if ((text.match(/^```/gm)?.length ?? 0) % 2 === 1) return true
  return text.length >= longAnswer && /[\p{L},]$/u.test(text) && !/[\n|}][^\n]{0,60}$/.test(text)
}

const quantile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0

/** Findings of a kind that are kept. */
const kept = 100

/** Different short answers that are counted; with more of them none is frequent. */
const maxAnswers = 10_000

/** Number of rows whose language is determined, taken at even distances. */
const languageRows = 2000

/** Characters of a row below which its language would be guessed. */
const languageLength = 120

/**
 * Reads data once and says what hurts.
 *
 * @since 0.2.0
 * @category constructors
 */
export const inspect: <E, R, E2 = never, R2 = never>(
  data: Dataset.Dataset<unknown, E, R>,
  options?: {
    /** Data that a model is to be evaluated with: none of it may be trained on. */
    readonly heldOut?: Dataset.Dataset<unknown, E2, R2> | undefined
    readonly columns?: RowShape.Columns | undefined
    /** How like rows are that count as near duplicates, from 0.5 to 1. Defaults to 0.8. */
    readonly likeness?: number | undefined
    /** Defaults to telling no languages. */
    readonly detect?: Language.Detect | undefined
  }
) => Effect.Effect<Report, E | E2, R | R2> = Effect.fnUntraced(function*<E, R, E2 = never, R2 = never>(
  data: Dataset.Dataset<unknown, E, R>,
  options: {
    readonly heldOut?: Dataset.Dataset<unknown, E2, R2> | undefined
    readonly columns?: RowShape.Columns | undefined
    readonly likeness?: number | undefined
    readonly detect?: Language.Detect | undefined
  } = {}
) {
  const read = (row: unknown) => Option.map(RowShape.recognize(row, options.columns), textsOf)
  const whole = ({ answers, prompt }: Texts) => [prompt, ...answers].join("\n")
  const [heldPrompts, heldNear] = [Duplicates.exact(), Duplicates.near(options)]
  if (options.heldOut !== undefined) {
    yield* Stream.runForEach(Dataset.rows(options.heldOut), (row) =>
      Effect.sync(() => {
        const texts = row._tag === "Kept" ? Option.getOrUndefined(read(row.value)) : undefined
        if (texts === undefined) return
        if (texts.prompt.trim() !== "") heldPrompts.add(texts.prompt, row.origin.row)
        heldNear.add(whole(texts), row.origin.row)
      }))
  }
  const [same, alike] = [Duplicates.exact(), Duplicates.near(options)]
  const counts: Record<Finding["kind"], number> = { exact: 0, near: 0, leaked: 0, empty: 0, truncated: 0, sensitive: 0 }
  const sensitive: Record<Sensitive.Kind, number> = { email: 0, key: 0, card: 0, iban: 0 }
  const findings: Array<Finding> = []
  const languages: Record<string, number> = {}
  const lengths: Array<number> = []
  const frequent = new Map<string, number>()
  let [rows, unread, pairs, longer] = [0, 0, 0, 0]
  const note = (finding: Finding) => {
    if (++counts[finding.kind] <= kept) findings.push(finding)
  }
  yield* Stream.runForEach(Dataset.rows(data), (found) =>
    Effect.sync(() => {
      rows++
      const { row } = found.origin
      const texts = found._tag === "Kept" ? Option.getOrUndefined(read(found.value)) : undefined
      if (texts === undefined) {
        unread++
        return
      }
      const text = whole(texts)
      const twin = same.add(text, row)
      if (twin !== undefined) note({ kind: "exact", row, like: twin })
      else {
        const like = alike.add(text, row)
        if (like !== undefined) {
          note({ kind: "near", row, like: like.number, detail: `likeness ${like.likeness.toFixed(2)}` })
        }
      }
      if (options.heldOut !== undefined) {
        const asked = texts.prompt.trim() === "" ? undefined : heldPrompts.find(texts.prompt)
        const like = asked === undefined ? heldNear.find(text) : undefined
        if (asked !== undefined) {
          note({ kind: "leaked", row, like: asked, detail: "the same prompt" })
        } else if (like !== undefined) {
          note({ kind: "leaked", row, like: like.number, detail: `likeness ${like.likeness.toFixed(2)}` })
        }
      }
      if (
        texts.answers.length === 0 || texts.answers.some((answer) => answer.trim() === "")
      ) {
        note({ kind: "empty", row })
      } else if (texts.answers.some(isTruncated)) {
        note({ kind: "truncated", row, detail: `…${(texts.answers.find(isTruncated) ?? "").trimEnd().slice(-60)}` })
      }
      const places = Sensitive.find(text)
      for (const { kind } of places) sensitive[kind]++
      if (places.length > 0) {
        // what was found is not repeated: reports are shown, logged and sent
        note({ kind: "sensitive", row, detail: Array.from(new Set(places.map(({ kind }) => kind))).join(", ") })
      }
      const [first = "", second] = texts.answers
      lengths.push(first.length)
      if (second !== undefined) {
        pairs++
        if (first.length > second.length) longer++
      } else if (first.length <= 100 && (frequent.size < maxAnswers || frequent.has(first))) {
        frequent.set(first, (frequent.get(first) ?? 0) + 1)
      }
      const prose = options.detect === undefined ? "" : `${texts.prompt.replace(/^\w+: /gm, "")}\n${first}`
      if (
        options.detect !== undefined && prose.length >= languageLength && (rows <= languageRows || rows % 500 === 0)
      ) {
        const language = options.detect(prose) ?? "unknown"
        languages[language] = (languages[language] ?? 0) + 1
      }
    }))
  const sorted = lengths.sort((a, b) => a - b)
  const report: Report = {
    rows,
    unread,
    counts,
    findings,
    sensitive,
    languages: Object.fromEntries(Object.entries(languages).sort(([, a], [, b]) => b - a)),
    answers: { p50: quantile(sorted, 0.5), p90: quantile(sorted, 0.9), max: sorted.at(-1) ?? 0 },
    frequent: Array.from(frequent)
      .filter(([, count]) => count > 1)
      .sort(([, a], [, b]) => b - a)
      .slice(0, 10)
      .map(([answer, count]) => ({ answer, share: count / rows })),
    chosenLonger: pairs === 0 ? undefined : longer / pairs
  }
  return report
})

/**
 * The rows without those that are there already, exactly or nearly.
 *
 * Reading it again starts from the beginning: it is for writing files, not for a run that is resumed.
 *
 * @since 0.2.0
 * @category combinators
 */
export const withoutDuplicates = <E, R>(
  data: Dataset.Dataset<unknown, E, R>,
  options?: {
    readonly columns?: RowShape.Columns | undefined
    readonly likeness?: number | undefined
    /** Leave out only rows that are the same. Defaults to false. */
    readonly exactOnly?: boolean | undefined
  }
): Stream.Stream<unknown, E, R> =>
  Stream.suspend(() => {
    const [same, alike] = [Duplicates.exact(), Duplicates.near(options)]
    return Stream.filter(Dataset.values(data), (row) => {
      const text = Option.match(RowShape.recognize(row, options?.columns), {
        onNone: () => JSON.stringify(row),
        onSome: (found) => {
          const { answers, prompt } = textsOf(found)
          return [prompt, ...answers].join("\n")
        }
      })
      return same.add(text, 0) === undefined && (options?.exactOnly === true || alike.add(text, 0) === undefined)
    })
  })
