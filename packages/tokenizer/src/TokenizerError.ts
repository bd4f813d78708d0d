/**
 * Failures of finding or loading a tokenizer, and of rendering a conversation.
 *
 * The classes are flat and their tags carry the subject (`TokenizerNotFound`, not `NotFound`), so that they can be caught
 * by tag in a program which also handles the errors of a client.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

const source = {
  /** The repository or directory that was asked. */
  repo: Schema.optional(Schema.String),
  /** The revision that was asked. */
  revision: Schema.optional(Schema.String),
  /** The file that was asked. */
  file: Schema.optional(Schema.String),
  /** Description of the failure, and what to do about it. */
  description: Schema.String,
  cause: Schema.optional(Schema.Defect)
}

const at = (error: {
  readonly repo?: string | undefined
  readonly revision?: string | undefined
  readonly file?: string | undefined
  readonly description: string
}): string => {
  const place = [
    error.repo === undefined ? "" : error.revision === undefined ? error.repo : `${error.repo}@${error.revision}`,
    error.file ?? ""
  ].filter((part) => part !== "").join("/")
  return place === "" ? error.description : `${place}: ${error.description}`
}

/**
 * No such repository, revision or file.
 *
 * @since 0.1.0
 * @category errors
 */
export class TokenizerNotFound extends Schema.TaggedError<TokenizerNotFound>(
  "@effect-tinker/tokenizer/TokenizerError/TokenizerNotFound"
)("TokenizerNotFound", source) {
  /** Asking again does not help. */
  get isRetryable(): boolean {
    return false
  }
  override get message(): string {
    return at(this)
  }
}

/**
 * The repository exists, but its owner wants its terms accepted first.
 *
 * @since 0.1.0
 * @category errors
 */
export class TokenizerGated extends Schema.TaggedError<TokenizerGated>(
  "@effect-tinker/tokenizer/TokenizerError/TokenizerGated"
)("TokenizerGated", source) {
  /** Asking again does not help. */
  get isRetryable(): boolean {
    return false
  }
  override get message(): string {
    return at(this)
  }
}

/**
 * The access token is missing, wrong, or not allowed to read the repository.
 *
 * @since 0.1.0
 * @category errors
 */
export class TokenizerUnauthorized extends Schema.TaggedError<TokenizerUnauthorized>(
  "@effect-tinker/tokenizer/TokenizerError/TokenizerUnauthorized"
)("TokenizerUnauthorized", source) {
  /** Asking again does not help. */
  get isRetryable(): boolean {
    return false
  }
  override get message(): string {
    return at(this)
  }
}

/**
 * The files are not in the cache and downloads are switched off.
 *
 * @since 0.1.0
 * @category errors
 */
export class TokenizerOffline extends Schema.TaggedError<TokenizerOffline>(
  "@effect-tinker/tokenizer/TokenizerError/TokenizerOffline"
)("TokenizerOffline", source) {
  /** Asking again does not help. */
  get isRetryable(): boolean {
    return false
  }
  override get message(): string {
    return at(this)
  }
}

/**
 * The files could not be read: the network, the server or the file system failed.
 *
 * @since 0.1.0
 * @category errors
 */
export class TokenizerUnavailable extends Schema.TaggedError<TokenizerUnavailable>(
  "@effect-tinker/tokenizer/TokenizerError/TokenizerUnavailable"
)("TokenizerUnavailable", {
  ...source,
  status: Schema.optional(Schema.Number),
  /** Whether asking again may help. */
  isRetryable: Schema.Boolean,
  /** How long the server asked to wait before the next attempt. */
  retryAfter: Schema.optional(Schema.DurationFromMillis)
}) {
  override get message(): string {
    return at(this)
  }
}

/**
 * A file was read, but is not what its name says.
 *
 * @since 0.1.0
 * @category errors
 */
export class TokenizerMalformed extends Schema.TaggedError<TokenizerMalformed>(
  "@effect-tinker/tokenizer/TokenizerError/TokenizerMalformed"
)("TokenizerMalformed", source) {
  /** Asking again does not help. */
  get isRetryable(): boolean {
    return false
  }
  override get message(): string {
    return at(this)
  }
}

/**
 * The tokenizer exists but cannot be had in this library; the description says what to do instead.
 *
 * @since 0.1.0
 * @category errors
 */
export class TokenizerUnsupported extends Schema.TaggedError<TokenizerUnsupported>(
  "@effect-tinker/tokenizer/TokenizerError/TokenizerUnsupported"
)("TokenizerUnsupported", source) {
  /** Asking again does not help. */
  get isRetryable(): boolean {
    return false
  }
  override get message(): string {
    return at(this)
  }
}

/**
 * A value handed to a tokenizer is not one it can take, for example a token id that is not an integer.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidTokens extends Schema.TaggedError<InvalidTokens>(
  "@effect-tinker/tokenizer/TokenizerError/InvalidTokens"
)("InvalidTokens", { description: Schema.String }) {
  /** Asking again does not help. */
  get isRetryable(): boolean {
    return false
  }
  override get message(): string {
    return this.description
  }
}

/**
 * A chat template does not compile, raised an exception, or used something that is not supported.
 *
 * @since 0.1.0
 * @category errors
 */
export class ChatTemplateFailed extends Schema.TaggedError<ChatTemplateFailed>(
  "@effect-tinker/tokenizer/TokenizerError/ChatTemplateFailed"
)("ChatTemplateFailed", {
  /** `compile` when the source is at fault, `render` when these messages are. */
  phase: Schema.Literal("compile", "render"),
  /** The template's own words when it raised the exception. */
  description: Schema.String,
  cause: Schema.optional(Schema.Defect)
}) {
  /** Asking again does not help. */
  get isRetryable(): boolean {
    return false
  }
  override get message(): string {
    return `chat template (${this.phase}): ${this.description}`
  }
}

/**
 * A conversation cannot be rendered, for example because it asks for something the format has no words for.
 *
 * @since 0.1.0
 * @category errors
 */
export class RenderFailed extends Schema.TaggedError<RenderFailed>(
  "@effect-tinker/tokenizer/TokenizerError/RenderFailed"
)("RenderFailed", {
  /** The renderer that refused. */
  renderer: Schema.String,
  description: Schema.String
}) {
  /** Asking again does not help. */
  get isRetryable(): boolean {
    return false
  }
  override get message(): string {
    return `${this.renderer}: ${this.description}`
  }
}

/**
 * The next prompt cannot begin with the ids of the turn before it. `reason` says why:
 *
 * - `HistoryRewritten`: the format writes an earlier answer differently once it is history, such as without its reasoning.
 * - `ToolsChanged`: other tools are declared than the turn was prompted with.
 * - `MessageEdited`: a message before the answer differs from what the turn was prompted with.
 * - `AnswerDiffers`: the conversation's answer does not mean what was sampled.
 * - `AnswerTruncated`: the answer has no end.
 * - `AnswerMalformed`: something follows the answer's end, or its end is not one the format keeps.
 * - `UnsampledAnswer`: a new message speaks for the assistant.
 * - `UnknownRole`: the format has no such role.
 * - `PromptMismatch`: the prompt does not end where this renderer asks for an answer.
 * - `NothingNew`: there is no message after the answer.
 * - `Unrenderable`: a new message has no form in this format.
 * - `Unsupported`: this renderer cannot prove what its template does to history.
 *
 * @since 0.1.0
 * @category errors
 */
export class CannotContinue extends Schema.TaggedError<CannotContinue>(
  "@effect-tinker/tokenizer/TokenizerError/CannotContinue"
)("CannotContinue", {
  /** The renderer that refused. */
  renderer: Schema.String,
  reason: Schema.Literal(
    "HistoryRewritten",
    "ToolsChanged",
    "MessageEdited",
    "AnswerDiffers",
    "AnswerTruncated",
    "AnswerMalformed",
    "UnsampledAnswer",
    "UnknownRole",
    "PromptMismatch",
    "NothingNew",
    "Unrenderable",
    "Unsupported"
  ),
  /** The message it is about, counted in the whole conversation. */
  index: Schema.optional(Schema.Number),
  description: Schema.String
}) {
  /** Asking again does not help. */
  get isRetryable(): boolean {
    return false
  }
  override get message(): string {
    const at = this.index === undefined ? "" : ` (message ${this.index})`
    return `${this.renderer}: ${this.reason}${at}: ${this.description}`
  }
}

/**
 * Every failure of loading a tokenizer.
 *
 * @since 0.1.0
 * @category errors
 */
export type TokenizerError =
  | TokenizerNotFound
  | TokenizerGated
  | TokenizerUnauthorized
  | TokenizerOffline
  | TokenizerUnavailable
  | TokenizerMalformed
  | TokenizerUnsupported

/**
 * The schema of {@link TokenizerError}, to send it over a wire or to match it.
 *
 * @since 0.1.0
 * @category errors
 */
export const TokenizerError: Schema.Union<[
  typeof TokenizerNotFound,
  typeof TokenizerGated,
  typeof TokenizerUnauthorized,
  typeof TokenizerOffline,
  typeof TokenizerUnavailable,
  typeof TokenizerMalformed,
  typeof TokenizerUnsupported
]> = Schema.Union(
  TokenizerNotFound,
  TokenizerGated,
  TokenizerUnauthorized,
  TokenizerOffline,
  TokenizerUnavailable,
  TokenizerMalformed,
  TokenizerUnsupported
)
