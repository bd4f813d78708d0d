/**
 * @since 0.1.0
 */
import * as OpenAiCompat from "effect-tinker/OpenAiCompat"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as live from "../internal/live.js"
import * as prompt from "../internal/prompt.js"
import * as text from "../internal/text.js"
import { Output } from "../Output.js"
import { Stdio } from "../Stdio.js"
import * as sampling from "./sample.js"

const help = "/reset begins anew, /system TEXT changes the instructions, /exit or Ctrl-D ends"

/** What is typed line by line at a terminal, or the lines of a pipe. */
const turns = Effect.map(Stdio, ({ stdin }): Stream.Stream<string> =>
  stdin.isTTY
    ? Stream.repeatEffectOption(
      Effect.flatMap(
        prompt.line("you> ", { hidden: false }),
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
    const { stderr, stdin } = yield* Stdio
    const model = yield* sampling.chooseModel(options)
    const oai = yield* OpenAiCompat.OpenAiCompat
    const opening = (system: Option.Option<string>): Array<OpenAiCompat.Message> =>
      Option.isSome(system) ? [{ role: "system", content: system.value }] : []
    let messages = opening(options.system)
    if (stdin.isTTY) yield* output.note(`Chatting with ${model}. ${help}.`)

    const reply = Effect.fnUntraced(function*() {
      let content = ""
      let thinking = false
      yield* Stream.runForEach(
        oai.chatStream({ model, messages, ...sampling.parameters(options) }),
        Effect.fnUntraced(function*({ choices }) {
          const delta = choices[0]?.delta
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
      if (thinking) yield* stderr.write("\n")
      if (output.format === "table") yield* output.write("\n")
      return content
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
        messages.push({ role: "user", content: said })
        if (output.format === "ndjson") yield* output.printItem({ role: "user", content: said })
        const content = yield* reply()
        messages.push({ role: "assistant", content })
        if (output.format === "ndjson") yield* output.printItem({ role: "assistant", content })
        return true
      })
    )
    if (output.format === "json") {
      yield* output.print({ columns: [], rows: [], json: { model, messages, total: messages.length } })
    }
  },
  Effect.provide(live.sampling)
)
