/**
 * @since 0.1.0
 */
import * as OpenAiCompat from "effect-tinker/OpenAiCompat"
import * as TinkerError from "effect-tinker/TinkerError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { report } from "../CliFailure.js"
import * as live from "../internal/live.js"
import * as prompt from "../internal/prompt.js"
import * as text from "../internal/text.js"
import { Output } from "../Output.js"
import { Stdio } from "../Stdio.js"
import * as sampling from "./sample.js"

const help = "/reset begins anew, /system TEXT changes the instructions, Ctrl-C ends a reply, /exit or Ctrl-D the chat"

/** What is typed line by line at a terminal, or the lines of a pipe. */
const turns = Effect.map(Stdio, ({ stdin }): Stream.Stream<string> =>
  stdin.isTTY
    ? Stream.repeatEffectOption(
      Effect.flatMap(
        prompt.line("you> ", { hidden: false, discards: true }),
        Option.match({
          onNone: () => Effect.fail(Option.none()),
          onSome: Effect.succeed
        })
      )
    )
    : Stream.unwrap(Effect.map(stdin.text, (all) => Stream.fromIterable(all.split("\n")))))

/** @internal */
export const chat = Effect.fnUntraced(
  function*(options: sampling.Sampling & { readonly system: Option.Option<string> }) {
    const output = yield* Output
    const { breakable, stderr, stdin } = yield* Stdio
    const model = yield* sampling.chooseModel(options)
    const oai = yield* OpenAiCompat.OpenAiCompat
    const opening = (system: Option.Option<string>): Array<OpenAiCompat.Message> =>
      Option.isSome(system) ? [{ role: "system", content: system.value }] : []
    let messages = opening(options.system)
    if (stdin.isTTY) yield* output.note(`Chatting with ${model}. ${help}.`)

    /** The reply so far. It stays when the rest is cut off. */
    let content = ""
    let thinking = false
    const reply = Effect.gen(function*() {
      const request = { model, messages, ...sampling.parameters(options) }
      const pieces = Stream.map(oai.chatStream(request), ({ choices }) => choices[0]?.delta)
      const whole = Effect.map(oai.chat(request), ({ choices }) => choices[0]?.message)
      yield* Stream.runForEach(
        sampling.piecesOr(pieces, whole),
        Effect.fnUntraced(function*(delta) {
          const thought = delta?.reasoning_content ?? ""
          const piece = delta?.content ?? ""
          // Thoughts are not the answer: they are for people, beside it.
          if (thought !== "" && stderr.isTTY) {
            thinking = true
            yield* stderr.write(
              stderr.colour ? `\u001b[2m${text.printableLines(thought)}\u001b[0m` : text.printableLines(thought)
            )
          }
          if (piece === "") return
          if (thinking) yield* stderr.write("\n")
          thinking = false
          content += piece
          if (output.format === "table") yield* output.write(text.printableLines(piece))
        })
      )
    })

    /** At a terminal the conversation outlives a reply that is cut short or fails for the time being. */
    const listen = stdin.isTTY
      ? Effect.catchIf(breakable(reply), TinkerError.isRetryable, (error) => {
        const { advice, what } = report(error)
        return Effect.as(output.warn(`${what}. ${advice}`), Option.none())
      })
      : Effect.asSome(reply)

    const answer = Effect.gen(function*() {
      content = ""
      thinking = false
      const ended = yield* listen
      if (thinking) yield* stderr.write("\n")
      if (output.format === "table") yield* output.write("\n")
      if (Option.isNone(ended)) yield* output.note("The reply was cut short")
    })

    yield* Stream.runForEachWhile(
      yield* turns,
      Effect.fnUntraced(function*(line) {
        const said = line.trim()
        if (said === "") return true
        if (said === "/exit" || said === "/quit") return false
        if (said === "/help") {
          yield* output.note(help)
          return true
        }
        if (said === "/reset" || said.startsWith("/system ")) {
          messages = opening(said === "/reset" ? options.system : Option.some(said.slice("/system ".length)))
          yield* output.note("The conversation begins anew")
          return true
        }
        const asked: OpenAiCompat.Message = { role: "user", content: said }
        messages.push(asked)
        if (output.format === "ndjson") yield* output.printItem(asked)
        yield* answer
        // A question nothing was said to is taken back: a conversation alternates.
        if (content === "" && stdin.isTTY) {
          messages.pop()
          return true
        }
        const answered: OpenAiCompat.Message = { role: "assistant", content }
        messages.push(answered)
        if (output.format === "ndjson") yield* output.printItem(answered)
        return true
      })
    )
    if (output.format === "json") {
      yield* output.print({ columns: [], rows: [], json: { model, messages, total: messages.length } })
    }
  },
  Effect.provide(live.sampling)
)
