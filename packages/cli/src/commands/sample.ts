/**
 * `tinker sample` and `tinker chat`: text from a model, streamed where the server can.
 *
 * @since 0.1.0
 */
import * as Chat from "@effect-tinker/tokenizer/Chat"
import type { ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as OpenAiCompat from "effect-tinker/OpenAiCompat"
import * as RestClient from "effect-tinker/RestClient"
import * as SamplingClient from "effect-tinker/SamplingClient"
import * as TinkerConfig from "effect-tinker/TinkerConfig"
import * as TinkerError from "effect-tinker/TinkerError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { CliFailure, report, usage } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import { texts } from "../internal/options.js"
import { Output } from "../terminal/Output.js"
import * as prompt from "../terminal/prompt.js"
import { Stdio } from "../terminal/Stdio.js"
import * as text from "../terminal/text.js"
import * as modelSettings from "../training/modelSettings.js"
import { rendering } from "../training/options.js"

interface Sampling {
  readonly model: Option.Option<string>
  readonly checkpoint: Option.Option<string>
  readonly maxTokens: Option.Option<number>
  readonly temperature: Option.Option<number>
  readonly topP: Option.Option<number>
  readonly seed: Option.Option<number>
  readonly stop: ReadonlyArray<string>
}

/** The fields of a request, only those that were asked for. */
const parameters = (options: Sampling) => ({
  ...(Option.isSome(options.maxTokens) ? { max_tokens: options.maxTokens.value } : {}),
  ...(Option.isSome(options.temperature) ? { temperature: options.temperature.value } : {}),
  ...(Option.isSome(options.topP) ? { top_p: options.topP.value } : {}),
  ...(Option.isSome(options.seed) ? { seed: options.seed.value } : {}),
  ...(options.stop.length === 0 ? {} : { stop: options.stop })
})

/** The model asked for, or the first the server can sample from. */
const chooseModel = Effect.fnUntraced(function*(options: Sampling) {
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

const refusals: ReadonlyArray<unknown> = [400, 404, 405, 422, 501]

/** Answers of servers that will not stream. */
const refusesStreams = (error: TinkerError.TinkerError): boolean =>
  error._tag === "MalformedResponse" || refusals.includes(error.status)

/** A stream of pieces, or another from a server that does not give it. */
const piecesOr = <A, E>(
  pieces: Stream.Stream<A, TinkerError.TinkerError>,
  otherwise: Stream.Stream<A, E>
): Stream.Stream<A, TinkerError.TinkerError | E> =>
  Stream.suspend(() => {
    let some = false
    return Stream.tap(pieces, () => Effect.sync(() => some = true)).pipe(
      Stream.catchAll((error) => some || !refusesStreams(error) ? Stream.fail(error) : Stream.empty),
      Stream.concat(Stream.suspend(() => some ? Stream.empty : otherwise))
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

const runSample = Effect.fnUntraced(function*(
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
    yield* Stream.runForEach(
      piecesOr(oai.completeStream(request), Stream.fromEffect(oai.complete(request))),
      ({ choices }) => {
        const piece = choices[0]?.text ?? ""
        if (piece !== "") ended = piece.endsWith("\n")
        return output.write(text.printableLines(piece))
      }
    )
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

const help =
  "/reset starts over, /system TEXT changes the instructions, Ctrl-C stops a reply, /exit or Ctrl-D ends the chat"

/** Lines typed at a terminal, or those of a pipe. */
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

/** Next piece of a reply, and of the thoughts before it. */
interface Piece {
  readonly content?: string | null | undefined
  readonly reasoning_content?: string | null | undefined
}

/** Replies to a conversation that ends with a question. */
type Replies = (
  conversation: ReadonlyArray<OpenAiCompat.Message>
) => Stream.Stream<Piece | undefined, TinkerError.TinkerError | RenderFailed | ChatTemplateFailed>

/** The server writes the prompt. */
const overServer = (oai: OpenAiCompat.Service, model: string, options: Sampling): Replies => (conversation) => {
  const request = { model, messages: conversation, ...parameters(options) }
  return piecesOr(
    Stream.map(oai.chatStream(request), ({ choices }) => choices[0]?.delta),
    Stream.map(Stream.fromEffect(oai.chat(request)), ({ choices }) => choices[0]?.message)
  )
}

/** The longest answer where no limit is given: completions of OpenAI's API would end after 16 tokens. */
const longest = 16_384

/**
 * An answer's tokens as the server draws them, in one request: from servers that stream ids with the text when asked to,
 * as the embedded backend and vLLM do. After the first answer without ids, from `otherwise`.
 */
const tokensOr = <E>(
  oai: OpenAiCompat.Service,
  model: string,
  otherwise: Chat.SampleStream<E>
): Chat.SampleStream<E | TinkerError.TinkerError> => {
  let givesIds = true
  return (prompt, params, chunks) => {
    const fallback = Stream.suspend(() => {
      givesIds = false
      return otherwise(prompt, params, chunks)
    })
    const { maxTokens = longest, seed, stop, temperature, topP } = params
    const texts = stop.filter((one) => typeof one === "string")
    const pieces = oai.completeStream({
      model,
      prompt: Array.from(prompt),
      max_tokens: maxTokens,
      temperature,
      top_p: topP,
      seed,
      ...(texts.length > 0 ? { stop: texts } : { stop_token_ids: stop }),
      return_token_ids: true
    }).pipe(
      Stream.mapConcat(({ choices }) => choices),
      // text alone is of no use here
      Stream.takeWhile(({ text, token_ids: ids }) => text === "" || ids !== undefined),
      Stream.map(({ finish_reason: stopReason, token_ids: tokens = [] }): Chat.Sequence => ({ tokens, stopReason })),
      Stream.filter(({ stopReason, tokens }) => tokens.length > 0 || stopReason !== undefined)
    )
    return Stream.suspend(() => givesIds ? piecesOr(pieces, fallback) : fallback)
  }
}

/** We write the prompt, as training does, and continue from the exact tokens of the reply before. */
const overTokens = (
  chat: Chat.Chat,
  stream: Chat.SampleStream<TinkerError.TinkerError | RenderFailed>,
  options: Sampling
): Replies => {
  const params = {
    maxTokens: Option.getOrUndefined(options.maxTokens),
    temperature: Option.getOrUndefined(options.temperature),
    topP: Option.getOrUndefined(options.topP),
    seed: Option.getOrUndefined(options.seed)
  }
  let last: { readonly answer: Chat.Answer; readonly of: unknown; readonly length: number } | undefined
  return (conversation) => {
    const { length } = conversation
    const question = conversation.at(-1)
    // a reply that was cut short is in the conversation, but not as tokens
    const parts = question !== undefined && last?.of === conversation && last.length === length - 2
      ? chat.replyStream(stream, last.answer, question.content, { ...params, closeTruncated: true })
      : chat.askStream(stream, conversation.map(({ content, role }) => ({ role, content })), params)
    return Stream.map(parts, (part): Piece => {
      if (part._tag === "Answer") last = { answer: part.answer, of: conversation, length }
      return part._tag === "Text"
        ? { content: part.text }
        : part._tag === "Thinking"
        ? { reasoning_content: part.thinking }
        : {}
    })
  }
}

interface Chatting extends Sampling {
  readonly system: Option.Option<string>
  readonly renderer: Option.Option<string>
  readonly tokenizer: Option.Option<string>
}

/** How to get replies: by tokens where the model's tokenizer and format are known here, by the server elsewhere. */
const repliesOf = Effect.fnUntraced(function*(model: string, options: Chatting) {
  const output = yield* Output
  const { stdin } = yield* Stdio
  const overOpenAi = Effect.map(OpenAiCompat.OpenAiCompat, (oai) => overServer(oai, model, options))
  // the format has its own stops
  if (options.stop.length > 0) return yield* overOpenAi
  const isCheckpoint = model.startsWith("tinker://")
  const open = isCheckpoint ? SamplingClient.make({ modelPath: model }) : SamplingClient.make({ baseModel: model })
  const checkpoint = isCheckpoint ? yield* open : undefined
  const name = checkpoint === undefined ? model : yield* checkpoint.baseModel
  const renderer = yield* Effect.either(modelSettings.rendererFor(name, options))
  if (Either.isLeft(renderer)) {
    if (Option.isSome(options.renderer) || Option.isSome(options.tokenizer)) return yield* renderer.left
    yield* output.note(`The server writes the prompts: ${text.printable(renderer.left.message)}`)
    return yield* overOpenAi
  }
  const chat = yield* Chat.make(renderer.right)
  const sampler = checkpoint ?? (yield* open)
  // a pipe shows no pieces
  if (!stdin.isTTY) return overTokens(chat, Chat.inPieces(sampler, { first: Infinity }), options)
  const { baseUrl } = yield* TinkerConfig.TinkerConfig
  const inPieces = Chat.inPieces(sampler)
  // the hosted service streams text alone, and its completions are reported to leave out a checkpoint's adapter
  if (baseUrl === TinkerConfig.defaultBaseUrl) return overTokens(chat, inPieces, options)
  return overTokens(chat, tokensOr(yield* OpenAiCompat.OpenAiCompat, model, inPieces), options)
})

const runChat = Effect.fnUntraced(
  function*(options: Chatting) {
    const output = yield* Output
    const { breakable, stderr, stdin } = yield* Stdio
    const model = yield* chooseModel(options)
    const replies = yield* repliesOf(model, options)
    const opening = (system: Option.Option<string>): Array<OpenAiCompat.Message> =>
      Option.isSome(system) ? [{ role: "system", content: system.value }] : []
    let messages = opening(options.system)
    if (stdin.isTTY) yield* output.note(`Chatting with ${model}. ${help}.`)

    /** The reply so far. It stays when the rest is cut off. */
    let content = ""
    let thinking = false
    const reply = Effect.suspend(() =>
      Stream.runForEach(
        replies(messages),
        Effect.fnUntraced(function*(delta) {
          const thought = delta?.reasoning_content ?? ""
          const piece = delta?.content ?? ""
          // Reasoning is not part of the reply: it goes to stderr, and only for people.
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
    )

    /** At a terminal, the conversation survives a reply that is interrupted or fails with a retryable error. */
    const listen = stdin.isTTY
      ? Effect.catchIf(
        breakable(reply),
        (error) => TinkerError.isTinkerError(error) && TinkerError.isRetryable(error),
        (error) => {
          const { advice, what } = report(error)
          return Effect.as(output.warn(`${what}. ${advice}`), Option.none())
        }
      )
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
          yield* output.note("The conversation starts over")
          return true
        }
        const asked: OpenAiCompat.Message = { role: "user", content: said }
        messages.push(asked)
        if (output.format === "ndjson") yield* output.printItem(asked)
        yield* answer
        // A question without a reply is removed: roles must alternate.
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
  Effect.scoped,
  Effect.provide(Layer.mergeAll(live.conversation, modelSettings.tokenizers))
)

const sampling = {
  model: Options.text("model").pipe(
    Options.withAlias("m"),
    Options.withDescription("A base model; see `tinker models`. Default: the first the server can sample from."),
    Options.optional
  ),
  checkpoint: Options.text("checkpoint").pipe(
    Options.withDescription("A sampler checkpoint: tinker://RUN/sampler_weights/NAME."),
    Options.optional
  ),
  maxTokens: Options.integer("max-tokens").pipe(
    Options.withDescription("Maximum number of tokens to generate."),
    Options.optional
  ),
  temperature: Options.float("temperature").pipe(
    Options.withDescription("Sampling temperature; 0 is greedy."),
    Options.optional
  ),
  topP: Options.float("top-p").pipe(
    Options.withDescription("Nucleus sampling: keep the most likely tokens up to this total probability."),
    Options.optional
  ),
  seed: Options.integer("seed").pipe(
    Options.withDescription("Seed for sampling; the same seed gives the same sample."),
    Options.optional
  ),
  stop: texts("stop", "Stop at this text")
}

/** @internal */
export const sample = Command.make("sample", {
  ...sampling,
  count: Options.integer("count").pipe(
    Options.withAlias("n"),
    Options.withDefault(1),
    Options.withDescription("Number of samples. Default: 1.")
  ),
  prompt: Args.text({ name: "prompt" }).pipe(
    Args.withDescription("The text to continue: itself, @FILE, or - for stdin."),
    Args.optional
  )
}, runSample).pipe(
  Command.withDescription("Continue a prompt with a model.")
)

/** @internal */
export const chat = Command.make("chat", {
  ...sampling,
  system: Options.text("system").pipe(Options.withDescription("System message for the model."), Options.optional),
  ...rendering
}, runChat).pipe(
  Command.withDescription("Chat with a model; piped input is one user turn per line.")
)
