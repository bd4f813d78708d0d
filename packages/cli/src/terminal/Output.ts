/**
 * Output of the commands: data on stdout as a table, JSON or one JSON value per line; everything else on stderr.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Stdio } from "./Stdio.js"
import * as table from "./table.js"
import * as text from "./text.js"

/**
 * How data is printed.
 *
 * @since 0.1.0
 * @category models
 */
export type Format = "table" | "json" | "ndjson"

/**
 * A column of a table.
 *
 * @since 0.1.0
 * @category models
 */
export interface Column {
  readonly header: string
  readonly align?: "left" | "right" | undefined
  /** Never cut, even when the terminal is too narrow. */
  readonly keep?: boolean | undefined
  /** Broken between words where it does not fit, instead of cut. */
  readonly wrap?: boolean | undefined
  /** How a value is meant, where a terminal has colours. */
  readonly tone?: ((value: string) => Tone | undefined) | undefined
}

/**
 * Short form of a value.
 *
 * @since 0.1.0
 * @category models
 */
export type Tone = "good" | "bad" | "doubtful" | "idle"

/**
 * One result in every form it can be printed in.
 *
 * @since 0.1.0
 * @category models
 */
export interface Result {
  /** Shown above the table, on stderr, so that stdout has the rows alone. */
  readonly title?: string | undefined
  readonly columns: ReadonlyArray<Column>
  readonly rows: ReadonlyArray<ReadonlyArray<string>>
  readonly json: unknown
  /** The values of `--format ndjson`; the JSON value itself unless given. */
  readonly items?: ReadonlyArray<unknown> | undefined
}

/**
 * Where data and notes go.
 *
 * @since 0.1.0
 * @category services
 */
export class Output extends Context.Tag("@effect-tinker/cli/Output")<Output, {
  readonly format: Format
  /** Prints a result. */
  readonly print: (result: Result) => Effect.Effect<void>
  /** Prints properties of one thing. */
  readonly printRecord: (record: {
    readonly title?: string | undefined
    readonly properties: ReadonlyArray<readonly [name: string, value: string]>
    readonly json: unknown
  }) => Effect.Effect<void>
  /** One value of a list that is printed while it is still being read. */
  readonly printItem: (item: unknown) => Effect.Effect<void>
  /** Text for stdout exactly as it is. */
  readonly write: (text: string) => Effect.Effect<void>
  /** A line for people, on stderr; not part of the data. */
  readonly note: (line: string) => Effect.Effect<void>
  /** A line on stderr that must not be missed. */
  readonly warn: (line: string) => Effect.Effect<void>
}>() {}

const paint = (code: string, colour: boolean) => (value: string): string =>
  colour && value !== "" ? `\u001b[${code}m${value}\u001b[0m` : value

const codes: Readonly<Record<Tone, string>> = { good: "32", bad: "31", doubtful: "33", idle: "2" }

/**
 * Output in the format the command line asks for.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (format: Format): Layer.Layer<Output, never, Stdio> =>
  Layer.effect(
    Output,
    Effect.map(Stdio, ({ stderr, stdout }) => {
      const line = (value: string) => stdout.write(`${value}\n`)
      const style: table.Style = {
        header: paint("1", stdout.colour),
        key: paint("36", stdout.colour),
        tone: (tone, value) => paint(codes[tone], stdout.colour)(value)
      }
      const dim = paint("2", stderr.colour)
      const json = (value: unknown) => line(text.json(value, 2))
      const ndjson = (values: ReadonlyArray<unknown>) =>
        stdout.write(values.map((value) => `${text.json(value)}\n`).join(""))
      const wrapped = (value: string) => text.wrap(text.printable(value), stderr.columns, "")
      const note = (value: string) => stderr.write(`${dim(wrapped(value))}\n`)
      const output: Context.Tag.Service<typeof Output> = {
        format,
        print: (result) => {
          if (format === "json") return json(result.json)
          if (format === "ndjson") return ndjson(result.items ?? [result.json])
          return Effect.zipRight(
            result.title === undefined ? Effect.void : note(result.title),
            result.rows.length === 0
              ? Effect.void
              : line(table.render(result.columns, result.rows, stdout.columns, style).join("\n"))
          )
        },
        printRecord: (record) => {
          if (format !== "table") return format === "json" ? json(record.json) : ndjson([record.json])
          const label = Math.max(...record.properties.map(([name]) => text.width(name)))
          return Effect.zipRight(
            record.title === undefined ? Effect.void : note(record.title),
            line(
              record.properties.map(([name, value]) =>
                `${style.header(text.pad(name, label))}  ${text.printable(value)}`
              ).join("\n")
            )
          )
        },
        printItem: (item) => ndjson([item]),
        write: stdout.write,
        note,
        warn: (value) =>
          stderr.write(
            `${
              text.wrap(text.safe(`warning: ${value}`), stderr.columns, "").replace(
                "warning:",
                paint("33", stderr.colour)("warning:")
              )
            }\n`
          )
      }
      return output
    })
  )
