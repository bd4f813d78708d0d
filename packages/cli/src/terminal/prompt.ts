/**
 * Questions to the person at the terminal. They are asked on stderr: stdout is for data.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { createInterface } from "node:readline"
import { Writable } from "node:stream"
import { CliFailure, usage } from "../internal/CliFailure.js"
import { Stdio } from "./Stdio.js"

/**
 * One line from stdin; `None` at its end. With `hidden`, what is typed is not shown. With `discards`, Ctrl-C throws
 * away what has been typed, if anything has, and the line is empty.
 *
 * @internal
 */
export const line = (
  question: string,
  options: { readonly hidden: boolean; readonly discards?: boolean | undefined }
): Effect.Effect<Option.Option<string>> =>
  Effect.async((resume) => {
    let muted = false
    const output = new Writable({
      // Written immediately: in a buffer it would be subject to a later `muted`.
      write: (chunk, encoding, done) => {
        if (!muted) process.stderr.write(chunk, encoding)
        done()
      }
    })
    const terminal = process.stdin.isTTY === true
    const reader = createInterface({ input: process.stdin, output, terminal })
    let answered = false
    const settle = (value: Option.Option<string>) => {
      if (answered) return
      answered = true
      muted = false
      reader.close()
      // Hidden input, and the end of input, leave the cursor on the same line.
      if (terminal && (options.hidden || Option.isNone(value))) process.stderr.write("\n")
      resume(Effect.succeed(value))
    }
    reader.on("close", () => settle(Option.none()))
    // In raw mode Ctrl-C arrives as a key: it is passed on as the signal it stands for.
    reader.on("SIGINT", () => {
      if (options.discards !== true || reader.line === "") return void process.kill(process.pid, "SIGINT")
      process.stderr.write("^C\n")
      settle(Option.some(""))
    })
    reader.question(question, (answer) => settle(Option.some(answer)))
    muted = options.hidden
    return Effect.sync(() => {
      answered = true
      reader.close()
    })
  })

/**
 * A secret: typed unseen at a terminal, or the first line of a pipe.
 *
 * @internal
 */
export const secret: (question: string) => Effect.Effect<string, CliFailure, Stdio> = Effect.fnUntraced(
  function*(question) {
    const { stdin } = yield* Stdio
    const answer = stdin.isTTY
      ? Option.getOrElse(yield* line(question, { hidden: true }), () => "")
      : (yield* stdin.text).split("\n")[0] ?? ""
    const trimmed = answer.trim()
    return trimmed === ""
      ? yield* new CliFailure({ what: "No API key was given", advice: "Paste the key and press Enter, or pipe it in." })
      : trimmed
  }
)

/**
 * Yes or no; no unless yes is typed. Without a terminal it cannot be asked, and `--yes` has to say it.
 *
 * @internal
 */
export const confirm: (question: string) => Effect.Effect<boolean, CliFailure, Stdio> = Effect.fnUntraced(
  function*(question) {
    const { stdin } = yield* Stdio
    if (!stdin.isTTY) return yield* usage("This needs a confirmation, and there is no terminal to ask on", "Add --yes.")
    const answer = Option.getOrElse(yield* line(`${question} [y/N] `, { hidden: false }), () => "")
    return /^y(es)?$/i.test(answer.trim())
  }
)
