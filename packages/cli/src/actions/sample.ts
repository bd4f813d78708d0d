/**
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as OpenAiCompat from "effect-tinker/OpenAiCompat"
import * as RestClient from "effect-tinker/RestClient"
import type * as TinkerError from "effect-tinker/TinkerError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { CliFailure, usage } from "../CliFailure.js"
import * as live from "../internal/live.js"
import * as text from "../internal/text.js"
import { Output } from "../Output.js"
import { Stdio } from "../Stdio.js"

/** @internal */
export interface Sampling {
  readonly model: Option.Option<string>
  readonly checkpoint: Option.Option<string>
  readonly maxTokens: Option.Option<number>
  readonly temperature: Option.Option<number>
  readonly topP: Option.Option<number>
  readonly seed: Option.Option<number>
  readonly stop: ReadonlyArray<string>
}

/**
 * The fields of a request, only those that were asked for.
 *
 * @internal
 */
export const parameters = (options: Sampling) => ({
  ...(Option.isSome(options.maxTokens) ? { max_tokens: options.maxTokens.value } : {}),
  ...(Option.isSome(options.temperature) ? { temperature: options.temperature.value } : {}),
  ...(Option.isSome(options.topP) ? { top_p: options.topP.value } : {}),
  ...(Option.isSome(options.seed) ? { seed: options.seed.value } : {}),
  ...(options.stop.length === 0 ? {} : { stop: options.stop })
})

/**
 * The model asked for, or the first the server can sample from.
 *
 * @internal
 */
export const chooseModel = Effect.fnUntraced(function*(options: Sampling) {
  const output = yield* Output
  if (Option.isSome(options.model) && Option.isSome(options.checkpoint)) {
    return yield* usage("Give either --model or --checkpoint", "A checkpoint knows its model.")
  }
  const given = Option.orElse(options.checkpoint, () => options.model)
  if (Option.isSome(given)) return given.value
  const rest = yield* RestClient.RestClient
  const { supportedModels } = yield* live.bounded(rest.getServerCapabilities)
  const first = supportedModels.find(({ modelName, sampleable }) => modelName !== undefined && sampleable !== false)
  if (first?.modelName === undefined) {
    return yield* new CliFailure({
      what: "The server offers no model to sample from",
      advice: "Give one with --checkpoint."
    })
  }
  yield* output.note(`Sampling from ${first.modelName}; choose another with --model or --checkpoint`)
  return first.modelName
})

/** Answers of servers that will not stream. */
const refusesStreams = (error: TinkerError.TinkerError): boolean =>
  error._tag === "MalformedResponse" || error.status === 400 || error.status === 422 || error.status === 501

/**
 * A stream of pieces, or all in one piece from a server that cannot stream.
 *
 * @internal
 */
export const piecesOr = <A>(
  pieces: Stream.Stream<A, TinkerError.TinkerError>,
  whole: Effect.Effect<A, TinkerError.TinkerError>
): Stream.Stream<A, TinkerError.TinkerError> =>
  Stream.suspend(() => {
    let some = false
    return Stream.tap(pieces, () => Effect.sync(() => some = true)).pipe(
      Stream.catchAll((error) => some || !refusesStreams(error) ? Stream.fail(error) : Stream.empty),
      Stream.concat(Stream.suspend(() => some ? Stream.empty : Stream.fromEffect(whole)))
    )
  })

const noPrompt = (what: string) => usage(what, "Write tinker sample \"Once upon a time\", or pipe a prompt in.")

const readPrompt = Effect.fnUntraced(function*(given: Option.Option<string>) {
  const fs = yield* FileSystem.FileSystem
  const { stdin } = yield* Stdio
  if (Option.isSome(given) && given.value !== "-") {
    return given.value.startsWith("@") ? yield* fs.readFileString(given.value.slice(1)) : given.value
  }
  if (Option.isNone(given) && stdin.isTTY) {
    return yield* noPrompt("There is no prompt")
  }
  return yield* stdin.text
})

/** @internal */
export const sample = Effect.fnUntraced(function*(
  options: Sampling & { readonly prompt: Option.Option<string>; readonly count: number }
) {
  if (options.count < 1) return yield* usage("-n must be at least 1", "It is the number of samples.")
  const output = yield* Output
  const prompt = yield* readPrompt(options.prompt)
  if (prompt === "") return yield* noPrompt("The prompt is empty")
  const model = yield* chooseModel(options)
  const oai = yield* OpenAiCompat.OpenAiCompat
  const request = { model, prompt, ...parameters(options) }
  if (output.format === "table" && options.count === 1) {
    let ended = true
    yield* Stream.runForEach(piecesOr(oai.completeStream(request), oai.complete(request)), ({ choices }) => {
      const piece = choices[0]?.text ?? ""
      if (piece !== "") ended = piece.endsWith("\n")
      return output.write(text.printableLines(piece))
    })
    return ended ? undefined : yield* output.write("\n")
  }
  const answer = yield* oai.complete({ ...request, n: options.count })
  const items = answer.choices.map((choice, index) => ({
    index: choice.index ?? index,
    text: choice.text,
    finish_reason: choice.finish_reason ?? null
  }))
  yield* output.print({
    columns: [{ header: "#", align: "right" }, { header: "Text", keep: true }, { header: "Finish" }],
    rows: items.map((item) => [String(item.index), item.text, item.finish_reason ?? "-"]),
    json: { model, samples: items, total: items.length, usage: answer.usage ?? null },
    items
  })
}, Effect.provide(live.sampling))
