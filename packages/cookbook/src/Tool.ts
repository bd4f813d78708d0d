/**
 * Tools a model may call: their arguments are checked by a Schema, which also declares them to the model. Arguments that do
 * not fit, and failures of the tool, are the tool's answer: the model may try again.
 *
 * @since 0.1.0
 */
import type * as Message from "@effect-tinker/tokenizer/Message"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as JSONSchema from "effect/JSONSchema"
import { TreeFormatter } from "effect/ParseResult"
import * as Schema from "effect/Schema"

/**
 * Answer of a tool.
 *
 * @since 0.1.0
 * @category models
 */
export interface Answer {
  readonly text: string
  /** End the episode after this turn. */
  readonly stop: boolean
  /** Whether the call could not be carried out. */
  readonly failed: boolean
}

/**
 * A tool.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tool<out R = never> {
  readonly spec: Message.ToolSpec
  /** Whether several calls of one turn may run at once. */
  readonly parallel: boolean
  /** Answers a call by its arguments as the model wrote them. */
  readonly call: (json: string) => Effect.Effect<Answer, never, R>
}

const answer = (text: string, rest?: Partial<Answer>): Answer => ({ text, stop: false, failed: false, ...rest })

const describe = (error: unknown): string =>
  error instanceof Error ? error.message : typeof error === "string" ? error : JSON.stringify(error)

/** A failure is the tool's answer; interruptions and defects are not. */
const asAnswer = (cause: Cause.Cause<unknown>): Effect.Effect<Answer> =>
  Cause.isFailure(cause)
    ? Effect.succeed(answer(`Error: ${describe(Cause.squash(cause))}`, { failed: true }))
    : Effect.failCause(cause as Cause.Cause<never>)

/**
 * A tool by its name.
 *
 * @example
 * ```ts
 * import { Tool } from "@effect-tinker/cookbook"
 * import { Effect, Schema } from "effect"
 *
 * const add = Tool.make("add", {
 *   description: "Adds two numbers",
 *   input: Schema.Struct({ a: Schema.Number, b: Schema.Number }),
 *   run: ({ a, b }) => Effect.succeed(String(a + b))
 * })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <A, I, E, R>(name: string, options: {
  readonly description: string
  readonly input: Schema.Schema<A, I>
  /** The answer; an answer with `stop` ends the episode. */
  readonly run: (input: A) => Effect.Effect<string | { readonly text: string; readonly stop: boolean }, E, R>
  /** Defaults to true. */
  readonly parallel?: boolean | undefined
}): Tool<R> => {
  const decode = Schema.decodeUnknownEither(Schema.parseJson(options.input))
  const { $schema: _, ...parameters } = JSONSchema.make(options.input)
  return {
    spec: { name, description: options.description, parameters: { ...parameters } },
    parallel: options.parallel ?? true,
    call: (json) =>
      Either.match(decode(json), {
        onLeft: (error) =>
          Effect.succeed(
            answer(`Error: the arguments do not fit. ${TreeFormatter.formatErrorSync(error)}`, { failed: true })
          ),
        onRight: (input) =>
          options.run(input).pipe(
            Effect.map((result) =>
              typeof result === "string" ? answer(result) : answer(result.text, { stop: result.stop })
            ),
            Effect.catchAllCause(asAnswer)
          )
      })
  }
}

/**
 * A toolkit with its handlers, as `yield* toolkit` gives it for a `Toolkit` of `@effect/ai`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Toolkit<E, R> {
  readonly tools: Readonly<
    Record<string, {
      readonly name: string
      readonly description?: string | undefined
      readonly parametersSchema: Schema.Schema.Any
    }>
  >
  readonly handle: (name: never, params: never) => Effect.Effect<
    { readonly isFailure: boolean; readonly encodedResult: unknown },
    E,
    R
  >
}

/**
 * The tools of a toolkit of `@effect/ai`: its schemas check and declare the arguments, its handlers answer, and what they
 * answer is written as JSON unless it is text. Failures are answers, as with {@link make}.
 *
 * @example
 * ```ts
 * import { Tool } from "@effect-tinker/cookbook"
 * import { Tool as AiTool, Toolkit } from "@effect/ai"
 * import { Effect, Schema } from "effect"
 *
 * const toolkit = Toolkit.make(
 *   AiTool.make("add", { parameters: { a: Schema.Number, b: Schema.Number }, success: Schema.Number })
 * )
 *
 * const tools = Effect.map(toolkit, Tool.fromToolkit).pipe(
 *   Effect.provide(toolkit.toLayer({ add: ({ a, b }) => Effect.succeed(a + b) }))
 * )
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromToolkit = <E, R>(toolkit: Toolkit<E, R>): ReadonlyArray<Tool<R>> =>
  Object.values(toolkit.tools).map(({ description, name, parametersSchema }) => {
    const { $schema: _, ...parameters } = JSONSchema.make(parametersSchema as Schema.Schema<unknown, unknown>)
    return {
      spec: { name, description: description ?? "", parameters: { ...parameters } },
      parallel: true,
      call: (json) =>
        Effect.gen(function*() {
          const params = yield* Effect.try((): unknown => JSON.parse(json))
          const { encodedResult, isFailure } = yield* toolkit.handle(name as never, params as never)
          const text = typeof encodedResult === "string" ? encodedResult : JSON.stringify(encodedResult)
          return isFailure ? answer(`Error: ${text}`, { failed: true }) : answer(text)
        }).pipe(Effect.catchAllCause(asAnswer))
    }
  })

/**
 * The answers to the calls of one message, in their order: at once where all tools allow it, one after the other
 * otherwise.
 *
 * @since 0.1.0
 * @category combinators
 */
export const answerAll = <R>(
  tools: ReadonlyArray<Tool<R>>,
  calls: ReadonlyArray<Message.ToolCall>
): Effect.Effect<ReadonlyArray<{ readonly message: Message.Message; readonly answer: Answer }>, never, R> => {
  const find = (name: string) => tools.find((tool) => tool.spec.name === name)
  const parallel = calls.every(({ name }) => find(name)?.parallel ?? true)
  return Effect.forEach(calls, (call) =>
    Effect.map(
      find(call.name)?.call(call.arguments) ??
        Effect.succeed(
          answer(`Error: there is no tool ${call.name}. Tools: ${tools.map(({ spec }) => spec.name).join(", ")}`, {
            failed: true
          })
        ),
      (given) => ({
        answer: given,
        message: {
          role: "tool",
          content: given.text,
          name: call.name,
          ...(call.id === undefined ? {} : { toolCallId: call.id })
        }
      })
    ), { concurrency: parallel ? "unbounded" : 1 })
}
