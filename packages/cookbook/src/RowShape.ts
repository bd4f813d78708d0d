/**
 * Shapes of training data as people have it, each read as one of three kinds: chats, prompts with completions, preferences.
 *
 * A shape is recognized by the columns of a row. Where columns have other names, a mapping says which is which.
 *
 * @since 0.2.0
 */
import * as Arr from "effect/Array"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"

/**
 * Kind of row: read by `Example.ConversationFromJson`, `CompletionFromJson` or `PreferenceFromJson`.
 *
 * @since 0.2.0
 * @category models
 */
export type Kind = "chats" | "completions" | "preferences"

/**
 * A row whose shape was recognized, in the columns that the schemas of `Example` read.
 *
 * @since 0.2.0
 * @category models
 */
export interface Recognized {
  /** Name of the shape, as people know it. */
  readonly shape: string
  readonly kind: Kind
  readonly row: Row
}

type Row = Readonly<Record<string, unknown>>

interface Shape {
  readonly shape: string
  readonly kind: Kind
  /** Columns that every row of this shape has. */
  readonly columns: ReadonlyArray<string>
  readonly read: (row: Row) => Row | undefined
}

const text = (value: unknown): string | undefined => typeof value === "string" ? value : undefined

/** A question with an answer as a chat; what is empty is left out. */
const chat = (parts: {
  readonly system?: unknown
  readonly history?: unknown
  readonly user: unknown
  readonly context?: unknown
  readonly assistant: unknown
}): Row | undefined => {
  const user = text(parts.user)
  const assistant = text(parts.assistant)
  if (user === undefined || assistant === undefined) return undefined
  const system = text(parts.system)?.trim() ?? ""
  const context = text(parts.context)?.trim() ?? ""
  const turns = Array.isArray(parts.history) ? parts.history : []
  const earlier: Array<Row> = []
  for (const turn of turns) {
    const [asked, answered] = Array.isArray(turn) ? turn.map(text) : []
    if (asked === undefined || answered === undefined) return undefined
    earlier.push({ role: "user", content: asked }, { role: "assistant", content: answered, trainable: false })
  }
  const hasEarlier = earlier.length > 0
  return {
    messages: [
      ...system === "" ? [] : [{ role: "system", content: system }],
      ...earlier,
      { role: "user", content: context === "" ? user : `${user}\n\n${context}` },
      { role: "assistant", content: assistant, ...hasEarlier ? { trainable: true } : {} }
    ]
  }
}

const asItIs = (row: Row): Row => row

const questions = (question: string, answer: string): Shape => ({
  shape: `${question} and ${answer}`,
  kind: "chats",
  columns: [question, answer],
  read: (row) => chat({ system: row["system"], user: row[question], assistant: row[answer] })
})

/** The first that fits counts. */
const shapes: ReadonlyArray<Shape> = [
  {
    shape: "OpenAI preferences",
    kind: "preferences",
    columns: ["input", "preferred_output", "non_preferred_output"],
    read: (row) => {
      const { input } = row
      if (!Predicate.isRecord(input)) return undefined
      return {
        prompt: input["messages"],
        chosen: row["preferred_output"],
        rejected: row["non_preferred_output"]
      }
    }
  },
  {
    shape: "preferences",
    kind: "preferences",
    columns: ["chosen", "rejected"],
    read: (row) => {
      const prompt = row["prompt"] ?? row["question"] ?? row["instruction"]
      return { ...prompt === undefined ? {} : { prompt }, chosen: row["chosen"], rejected: row["rejected"] }
    }
  },
  { shape: "messages", kind: "chats", columns: ["messages"], read: asItIs },
  { shape: "ShareGPT", kind: "chats", columns: ["conversations"], read: asItIs },
  {
    shape: "ShareGPT",
    kind: "chats",
    columns: ["conversation"],
    read: ({ conversation, ...rest }) => ({ ...rest, conversations: conversation })
  },
  { shape: "prompt and completion", kind: "completions", columns: ["prompt", "completion"], read: asItIs },
  {
    shape: "Alpaca",
    kind: "chats",
    columns: ["instruction", "output"],
    read: ({ history, input, instruction, output, system }) =>
      chat({ system, history, user: instruction, context: input, assistant: output })
  },
  {
    shape: "Dolly",
    kind: "chats",
    columns: ["instruction", "response"],
    read: ({ context, instruction, response, system }) =>
      chat({ system, user: instruction, context, assistant: response })
  },
  questions("question", "answer"),
  questions("question", "response"),
  questions("query", "response"),
  questions("query", "answer"),
  questions("problem", "solution"),
  questions("input", "output"),
  questions("prompt", "response")
]

/**
 * Names of the columns that make up each shape, for people.
 *
 * @since 0.2.0
 * @category constants
 */
export const known: ReadonlyArray<string> = Arr.dedupe(
  shapes.map(({ columns, shape }) => shape.includes(" and ") ? shape : `${shape} (${columns.join(", ")})`)
)

/** Roles that a mapping may name, and the shape they make. */
const mappedShapes: ReadonlyArray<Shape> = [
  {
    shape: "mapped preferences",
    kind: "preferences",
    columns: ["chosen", "rejected"],
    read: ({ chosen, prompt, rejected }) => ({ ...prompt === undefined ? {} : { prompt }, chosen, rejected })
  },
  { shape: "mapped messages", kind: "chats", columns: ["messages"], read: asItIs },
  {
    shape: "mapped chat",
    kind: "chats",
    columns: ["user", "assistant"],
    read: ({ assistant, context, system, user }) => chat({ system, user, context, assistant })
  },
  { shape: "mapped completion", kind: "completions", columns: ["prompt", "completion"], read: asItIs }
]

const roles = ["messages", "system", "user", "context", "assistant", "prompt", "completion", "chosen", "rejected"]

/**
 * Which column has which role: `user`, `assistant`, `system` and `context`; `messages`; `prompt` and `completion`; `prompt`,
 * `chosen` and `rejected`.
 *
 * @since 0.2.0
 * @category models
 */
export type Columns = Readonly<Record<string, string>>

/**
 * Reads a mapping such as `user=question,assistant=answer`.
 *
 * @since 0.2.0
 * @category constructors
 */
export const parseColumns = (mapping: string): Either.Either<Columns, string> => {
  const pairs = mapping.split(",").map((part) => part.split("=").map((side) => side.trim()))
  for (const [role = "", column = ""] of pairs) {
    if (!roles.includes(role) || column === "") {
      return Either.left(`expected ROLE=COLUMN with a role of ${roles.join(", ")}; got ${role}=${column}`)
    }
  }
  const columns = Object.fromEntries(pairs.map(([role = "", column = ""]) => [role, column]))
  return mappedShapes.some((shape) => shape.columns.every((role) => Object.hasOwn(columns, role)))
    ? Either.right(columns)
    : Either.left("expected messages; user and assistant; prompt and completion; or chosen and rejected")
}

const first = (candidates: ReadonlyArray<Shape>, row: Row): Option.Option<Recognized> => {
  for (const { columns, kind, read, shape } of candidates) {
    if (!columns.every((column) => row[column] !== undefined && row[column] !== null)) continue
    const found = read(row)
    if (found !== undefined) return Option.some({ shape, kind, row: found })
  }
  return Option.none()
}

/**
 * The shape of a row, by its columns or by a mapping of them.
 *
 * @since 0.2.0
 * @category combinators
 */
export const recognize = (row: unknown, columns?: Columns): Option.Option<Recognized> => {
  if (!Predicate.isRecord(row)) return Option.none()
  if (columns === undefined) return first(shapes, row)
  const tools = row["tools"]
  const renamed = Object.fromEntries(Object.entries(columns).map(([role, column]) => [role, row[column]]))
  return first(mappedShapes, tools === undefined ? renamed : { ...renamed, tools })
}

/**
 * A schema of `Example` for rows of any shape of its kind. A row that is not recognized is refused by the schema.
 *
 * @since 0.2.0
 * @category schemas
 */
export const reading = <A, I>(schema: Schema.Schema<A, I>, columns?: Columns): Schema.Schema<A, unknown> =>
  Schema.transform(Schema.Unknown, Schema.Unknown, {
    strict: true,
    decode: (row) => Option.match(recognize(row, columns), { onNone: () => row, onSome: (found) => found.row }),
    encode: (row) => row
  }).pipe(Schema.compose(schema, { strict: false }))
