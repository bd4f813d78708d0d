/**
 * A model's own chat template: messages to the text the model was trained on.
 *
 * Templates are Jinja written against Python. They run on `@huggingface/jinja`, changed where its habits differ from
 * Python's: `strip(chars)`, `tojson(indent=…)` of empty objects, `None` and lists where text is expected, what `{{ }}` and
 * `~` print, and floats. What still differs: a float without a fraction reads as an integer (`1.0` prints `1`), integers
 * above 2⁵³ are rounded, an index out of range is undefined instead of an error, what a loop printed in the round that
 * ends in `{% break %}` is lost.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as jinja from "./internal/jinja.js"
import type { Tokenizer } from "./Tokenizer.js"
import { ChatTemplateFailed } from "./TokenizerError.js"

/**
 * Marks values of this module.
 *
 * @since 0.1.0
 * @category guards
 */
export const TypeId = "~@effect-tinker/tokenizer/ChatTemplate" as const

/**
 * The type of {@link TypeId}.
 *
 * @since 0.1.0
 * @category guards
 */
export type TypeId = typeof TypeId

/**
 * A message as templates read it: `role`, `content`, `tool_calls`, `reasoning_content` and so on.
 * `Message.toTemplate` makes one.
 *
 * @since 0.1.0
 * @category models
 */
export type TemplateMessage = Readonly<Record<string, unknown>>

/**
 * Inputs of a render besides the messages.
 *
 * @since 0.1.0
 * @category models
 */
export interface RenderOptions {
  /** Tools in the shape of the OpenAI API. Defaults to none. */
  readonly tools?: ReadonlyArray<unknown> | undefined
  /** Whether the text ends where the assistant's next answer begins. Defaults to `false`. */
  readonly addGenerationPrompt?: boolean | undefined
  /** Whether the text ends inside the last message, for the model to continue. Defaults to `false`. */
  readonly continueFinalMessage?: boolean | undefined
  /** How far the template may go before it is stopped: it is a program of others. */
  readonly budget?: Budget | undefined
  /** More variables for the template, such as `enable_thinking`. They win over everything else. */
  readonly variables?: Readonly<Record<string, unknown>> | undefined
}

/**
 * Limits of a render.
 *
 * @since 0.1.0
 * @category models
 */
export interface Budget {
  /** Evaluated nodes, rounds of loops included. Defaults to 2 million. */
  readonly steps?: number | undefined
  /** Characters of any text, the result included. Defaults to 16 Mi. */
  readonly length?: number | undefined
  /** Defaults to 2 seconds. */
  readonly time?: Duration.DurationInput | undefined
}

/**
 * A compiled template.
 *
 * @since 0.1.0
 * @category models
 */
export interface ChatTemplate {
  readonly [TypeId]: TypeId
  readonly source: string
  /** Whether the template marks the model's answers with `{% generation %}`. */
  readonly marksAnswers: boolean
  readonly render: (
    messages: ReadonlyArray<TemplateMessage>,
    options?: RenderOptions
  ) => Effect.Effect<string, ChatTemplateFailed>
  /** Renders as of a date, which templates may print, bounded by steps and length but not by time. */
  readonly renderAt: (
    now: Date,
    messages: ReadonlyArray<TemplateMessage>,
    options?: Omit<RenderOptions, "continueFinalMessage">
  ) => Either.Either<string, ChatTemplateFailed>
}

/**
 * Whether a value is a compiled template.
 *
 * @since 0.1.0
 * @category guards
 */
export const isChatTemplate = (u: unknown): u is ChatTemplate => Predicate.hasProperty(u, TypeId)

const failed = (phase: "compile" | "render", cause: unknown): ChatTemplateFailed =>
  new ChatTemplateFailed({ phase, description: jinja.describe(cause), cause })

/**
 * Turns the marks of answers into variables, which are empty unless a render sets them. A mark on a line of its own takes
 * the line with it, as other blocks do.
 */
const withMarks = (source: string): string =>
  source.replace(
    /([ \t]*)\{%(-?)\s*(end)?generation\s*(-?)%\}(\n?)/g,
    (_, lead: string, left: string, end: string | undefined, right: string, newline: string, at: number) => {
      const startsLine = at === 0 || source[at - 1] === "\n"
      const before = startsLine && left === "" ? "" : lead
      const after = right === "" ? "" : newline
      return `${before}{{${left} ${end === undefined ? "generation_begins" : "generation_ends"} ${right}}}${after}`
    }
  )

/**
 * Compiles a template. `variables` are what every render sees, such as the special tokens.
 *
 * @since 0.1.0
 * @category constructors
 */
export const compile = (
  source: string,
  variables: Readonly<Record<string, unknown>> = {}
): Either.Either<ChatTemplate, ChatTemplateFailed> => {
  const prepared = withMarks(source)
  return Either.map(
    Either.try({ try: () => jinja.compile(prepared), catch: (cause) => failed("compile", cause) }),
    (compiled): ChatTemplate => {
      const renderWith = (
        now: Date,
        isOver: () => boolean,
        messages: ReadonlyArray<TemplateMessage>,
        options: RenderOptions | undefined
      ): Either.Either<string, ChatTemplateFailed> =>
        Either.try({
          try: () =>
            compiled.render(
              {
                generation_begins: "",
                generation_ends: "",
                ...variables,
                messages,
                tools: options?.tools ?? null,
                documents: null,
                add_generation_prompt: options?.addGenerationPrompt ?? false,
                ...options?.variables
              },
              now,
              {
                steps: options?.budget?.steps ?? jinja.defaultBudget.steps,
                length: options?.budget?.length ?? jinja.defaultBudget.length,
                isOver
              }
            ),
          catch: (cause) => failed("render", cause)
        })
      return {
        [TypeId]: TypeId,
        source,
        marksAnswers: prepared !== source,
        render: Effect.fnUntraced(function*(messages, options) {
          const clock = yield* Effect.clock
          const now = clock.unsafeCurrentTimeMillis()
          const time = Duration.toMillis(options?.budget?.time ?? jinja.defaultBudget.time)
          const isOver = () => clock.unsafeCurrentTimeMillis() - now > time
          const text = yield* renderWith(new Date(now), isOver, messages, options)
          return options?.continueFinalMessage === true ? yield* cutAfterFinal(text, messages.at(-1)) : text
        }),
        renderAt: (now, messages, options) => renderWith(now, () => false, messages, options)
      }
    }
  )
}

/**
 * The named template of a tokenizer, with its special tokens as variables.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromTokenizer = (
  tokenizer: Tokenizer,
  name = "default"
): Either.Either<ChatTemplate, ChatTemplateFailed> => {
  const source = tokenizer.chatTemplates[name]
  const { bos, eos, pad, unk } = tokenizer.specialTokens
  return source === undefined
    ? Either.left(
      new ChatTemplateFailed({ phase: "compile", description: `${tokenizer.id} has no chat template called ${name}` })
    )
    : compile(source, {
      bos_token: Option.getOrUndefined(bos),
      eos_token: Option.getOrUndefined(eos),
      pad_token: Option.getOrUndefined(pad),
      unk_token: Option.getOrUndefined(unk)
    })
}

const finalText = (message: TemplateMessage | undefined): string | undefined => {
  const content = message?.["content"]
  if (typeof content === "string") return content
  const part: unknown = Array.isArray(content) ? content.at(-1) : undefined
  return Predicate.hasProperty(part, "text") && typeof part.text === "string" ? part.text : undefined
}

/** Cuts what the template wrote after the last message's text; a template may have trimmed that text. */
const cutAfterFinal = (
  rendered: string,
  message: TemplateMessage | undefined
): Effect.Effect<string, ChatTemplateFailed> => {
  const text = finalText(message)
  const at = text === undefined ? -1 : rendered.lastIndexOf(text.trim())
  if (text === undefined || at < 0) {
    return Effect.fail(
      new ChatTemplateFailed({
        phase: "render",
        description: "the last message cannot be continued: the template does not write its text"
      })
    )
  }
  const whole = text.trimStart()
  return Effect.succeed(rendered.slice(0, at + (rendered.startsWith(whole, at) ? whole : text.trim()).length))
}
