/**
 * Errors as users read them: what happened, what to do, and the exit code.
 *
 * @since 0.1.0
 */
import type { PlatformError, SystemError } from "@effect/platform/Error"
import type * as MetricsLog from "effect-tinker/MetricsLog"
import * as TinkerError from "effect-tinker/TinkerError"
import * as Data from "effect/Data"
import * as Predicate from "effect/Predicate"
import * as text from "../terminal/text.js"
import { explainedErrors } from "./explainedErrors.js"

/**
 * A failure of a command, in two lines.
 *
 * @since 0.1.0
 * @category errors
 */
export class CliFailure extends Data.TaggedError("CliFailure")<{
  readonly what: string
  readonly advice?: string | undefined
  /** 1 for a failure, 2 for a wrong command line. Defaults to 1. */
  readonly exitCode?: 1 | 2 | undefined
  readonly cause?: unknown
}> {
  override get message(): string {
    return this.advice === undefined ? this.what : `${this.what}\n${this.advice}`
  }
}

/**
 * A wrong command line.
 *
 * @since 0.1.0
 * @category constructors
 */
export const usage = (what: string, advice: string): CliFailure => new CliFailure({ what, advice, exitCode: 2 })

/**
 * Message of a failure for the user.
 *
 * @since 0.1.0
 * @category models
 */
export interface Report {
  readonly what: string
  readonly advice: string
  readonly exitCode: 1 | 2
  /** Address that explains the error, where there is one. */
  readonly page?: string | undefined
}

const facts = (error: TinkerError.TinkerError): string => {
  const known = [
    ...(error.status === undefined ? [] : [`status ${error.status}`]),
    ...(error.requestId === undefined ? [] : [`request ${error.requestId}`])
  ]
  return known.length === 0 ? "" : ` (${known.join(", ")})`
}

const sentences: {
  readonly [Tag in TinkerError.TinkerError["_tag"]]: readonly [what: string, advice: string]
} = {
  Authentication: ["The server rejected the API key", "Run `tinker auth login`, or correct TINKER_API_KEY."],
  PermissionDenied: ["Permission denied", "Ask the owner of the resource or an admin of your organization for access."],
  NotFound: ["Not found", "Check the id: `tinker run list` and `tinker checkpoint list` show what there is."],
  Unsupported: ["This server does not offer that", "`tinker conformance` shows what it offers."],
  Conflict: [
    "The request conflicts with the current state",
    "Look at it with the matching `info` command, then decide."
  ],
  BadRequest: ["The server refused the request", "Check the arguments against `--help`."],
  RateLimited: ["Too many requests", "Wait a moment, then run the command again."],
  BillingBlocked: ["Blocked by billing", "Add credit or a payment method in the console, then run the command again."],
  Unavailable: ["The server is not available", "Run the command again later; `tinker doctor` shows what is reachable."],
  TimedOut: ["No answer in time", "Run the command again, with a larger --timeout if the server is slow."],
  TransportFailed: [
    "The connection failed",
    "Check --base-url and the network; `tinker doctor` shows what is reachable."
  ],
  MalformedResponse: ["The answer was not understood", "Is --base-url that of a Tinker-compatible server?"],
  RequestFailed: [
    "The operation failed on the server",
    "Correct the request if it is at fault, otherwise run it again."
  ],
  FutureExpired: ["The result has expired on the server", "Run the command again."],
  UnobservedFailure: [
    "An earlier operation of the model failed",
    "Correct the request if it is at fault, otherwise run the command again."
  ],
  Stuck: ["Nothing has moved for a long time", "Run the command again later."],
  InvalidInput: ["Invalid input", "Check the arguments against `--help`."],
  BudgetExceeded: ["It could cost more than the budget has left", "Raise the budget, or ask for less."],
  Closed: ["The client was closed", "Run the command again."],
  MissingCredential: ["There is no API key", "Run `tinker auth login`, or set TINKER_API_KEY."],
  MalformedCredential: [
    "The API key cannot be one",
    "A key starts with `tml-`: run `tinker auth login` or set TINKER_API_KEY."
  ],
  CredentialCommandFailed: ["The credential command failed", "Run the command of TINKER_CREDENTIAL_CMD by hand."]
}

const sessions = "Check the id: `tinker session list` and `tinker session info` show what there is."

const reasons: Readonly<Record<string, string>> = {
  NotFound: "No such file or directory",
  PermissionDenied: "Permission denied",
  AlreadyExists: "It exists already",
  Busy: "It is in use"
}

/** Message of the system, in words where there are some. */
const systemWords = (error: object): string | undefined => {
  if (!Predicate.hasProperty(error, "reason") || !Predicate.hasProperty(error, "pathOrDescriptor")) return undefined
  const words = reasons[String(error.reason)]
  return words === undefined || typeof error.pathOrDescriptor !== "string"
    ? undefined
    : `${words}: ${error.pathOrDescriptor}`
}

const oneLine = (value: string): string => value.replace(/\s+/g, " ").trim()

/**
 * The two lines and the exit code of any failure of a command.
 *
 * @since 0.1.0
 * @category constructors
 */
export const report = (error: unknown): Report => {
  const { advice, exitCode, what } = describe(error)
  return { what: text.withoutSecrets(what), advice, exitCode, page: pageOf(error) }
}

const guide = "https://github.com/effect-tinker/effect-tinker/blob/main/docs/errors.md"

/** Unwraps a failure that a command explains itself: its cause decides. */
const pageOf = (error: unknown): string | undefined => {
  const known = error instanceof CliFailure ? error.cause : error
  return Predicate.hasProperty(known, "_tag") && typeof known._tag === "string" && explained.has(known._tag)
    ? `${guide}#${known._tag.toLowerCase()}`
    : undefined
}

const describe = (error: unknown): Report => {
  if (error instanceof CliFailure) {
    return { what: error.what, advice: error.advice ?? "See `tinker --help`.", exitCode: error.exitCode ?? 1 }
  }
  if (TinkerError.isTinkerError(error)) {
    const [what, general] = sentences[error._tag]
    const advice = error._tag === "NotFound" && /session|sampler/i.test(error.method)
      ? sessions
      : error._tag === "Unsupported" && error.method === "listUserCheckpoints"
      ? "Name a run: `tinker checkpoint list --run-id RUN`; `tinker run list` shows them."
      : general
    const description = error.description === undefined ? "" : `: ${oneLine(error.description)}`
    return { what: `${what}${facts(error)}${description}`, advice, exitCode: error._tag === "InvalidInput" ? 2 : 1 }
  }
  if (Predicate.isTagged(error, "ArchiveRefused") && error instanceof Error) {
    return { what: oneLine(error.message), advice: "Nothing was written. Do not trust this checkpoint.", exitCode: 1 }
  }
  if (Predicate.isTagged(error, "DownloadInProgress") && error instanceof Error) {
    return { what: oneLine(error.message), advice: "Wait for it, or choose another place with --output.", exitCode: 1 }
  }
  if (
    (Predicate.isTagged(error, "SystemError") || Predicate.isTagged(error, "BadArgument")) && error instanceof Error
  ) {
    return {
      what: systemWords(error) ?? oneLine(error.message),
      advice: "Check the path, its permissions and the space on the disk.",
      exitCode: 1
    }
  }
  const advice = adviceFor(error)
  if (advice !== undefined && error instanceof Error) {
    // The rest of its message is for programs.
    const [what = ""] = oneLine(error.message).split("; use another directory, or open it")
    return { what, advice, exitCode: 1 }
  }
  return {
    what: error instanceof Error ? oneLine(error.message) || error.name : oneLine(String(error)),
    advice: "This is unexpected: run it again with `--log-level debug` and report what it prints.",
    exitCode: 1
  }
}

/** Advice about failures of training runs and their data, by tag. */
const advices: Readonly<Record<string, string>> = {
  ChatTemplateFailed: "Choose another format with --renderer.",
  CheckpointsExpired: "Remove the directory to begin again, or use another with --run-dir.",
  ConfigChanged: "Use another directory with --run-dir, or the options the run began with: see config.json in it.",
  GroupFailed: "The environment failed: see the message, correct it and run the same command again.",
  InvalidRun: "`tinker data check FILE` says what would be trained on.",
  MalformedEntry: "The journal was changed by hand or by a failing disk: restore it, or use another --run-dir.",
  ParseError: "A .json file holds one array; a file with one object a line ends in .jsonl.",
  RenderFailed: "Choose another format with --renderer."
}

/**
 * Tags of the errors that have a section in docs/errors.md.
 *
 * @since 0.2.0
 * @category models
 */
export const explained: ReadonlySet<string> = new Set([
  ...Object.keys(sentences),
  ...explainedErrors
])

const adviceFor = (error: unknown): string | undefined => {
  if (!Predicate.hasProperty(error, "_tag") || typeof error._tag !== "string") return undefined
  return error._tag.startsWith("Tokenizer")
    ? "Check the name of the model (`tinker models`), or name its tokenizer with --tokenizer DIRECTORY."
    : advices[error._tag]
}

const isDirectory = (error: SystemError): boolean => /\bEISDIR\b/.test(`${error.description} ${error.message}`)

/** @internal */
export const explain =
  (log: string, ifMissing: string) => (cause: MetricsLog.MalformedLine | PlatformError): CliFailure | PlatformError => {
    if (cause._tag === "MalformedLine") {
      return new CliFailure({ what: cause.message, advice: "A metrics log has one JSON object a line.", cause })
    }
    if (cause._tag === "SystemError" && isDirectory(cause)) {
      return new CliFailure({
        what: `${log} is a directory`,
        advice: "Name the log in it: a file of JSON lines.",
        cause
      })
    }
    if (cause._tag === "SystemError" && cause.reason === "NotFound" && cause.pathOrDescriptor === log) {
      return new CliFailure({ what: `There is no file ${log}`, advice: ifMissing, cause })
    }
    return cause
  }
