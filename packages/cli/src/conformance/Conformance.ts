/**
 * Checks whether Tinker clients can work with a server, by calling every part of the service.
 *
 * @since 0.1.0
 */
import type * as HttpClient from "@effect/platform/HttpClient"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as text from "../terminal/text.js"
import { checks } from "./checks.js"
import { consequences } from "./consequences.js"
import * as Probe from "./probe.js"
import type { Known } from "./support.js"

/**
 * The server does it, does it wrongly or not at all, or does not know the endpoint.
 *
 * @since 0.1.0
 * @category models
 */
export type Verdict = "yes" | "no" | "unsupported"

/**
 * One question to a server, and what it came to.
 *
 * @since 0.1.0
 * @category models
 */
export interface Check {
  readonly check: string
  /** Whether clients cannot do without it. */
  readonly required: boolean
  readonly verdict: Verdict
  /** Why it is not `yes`, or what is worth knowing about it. */
  readonly reason?: string | undefined
  /** Where it is not `yes`: what will not work, and for whom. */
  readonly without?: string | undefined
}

/**
 * The checks of a server, and the verdict.
 *
 * @since 0.1.0
 * @category models
 */
export interface Report {
  readonly baseUrl: string
  /** Every required check is `yes`. */
  readonly conforms: boolean
  readonly checks: ReadonlyArray<Check>
}

/**
 * Which server, which model, and how long to wait.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  readonly baseUrl: string
  readonly credential: Redacted.Redacted
  /** The model to train and sample. Defaults to the first one the server offers. */
  readonly model?: string | undefined
  /** How long one answer or result may take. Defaults to 2 minutes. */
  readonly patience?: Duration.DurationInput | undefined
  /** Told after each check. */
  readonly onCheck?: ((check: Check) => Effect.Effect<void>) | undefined
}

/**
 * Checks a server. It trains a small model there, samples from it, and removes what it saved.
 *
 * @since 0.1.0
 * @category constructors
 */
export const run: (options: Options) => Effect.Effect<Report, never, HttpClient.HttpClient> = Effect.fnUntraced(
  function*(options) {
    const probe = yield* Probe.make({
      baseUrl: options.baseUrl,
      credential: options.credential,
      patience: Duration.decode(options.patience ?? "2 minutes")
    })
    const known: Known = {
      model: options.model,
      sessionId: undefined,
      modelId: undefined,
      seqId: 0,
      models: 0,
      samplers: 0,
      statePath: undefined,
      samplerPath: undefined,
      samplingSessionId: undefined,
      loss: undefined,
      form: "protobuf"
    }
    const done: Array<Check> = []
    for (const { name, required, run } of checks) {
      const check = yield* run(probe, known).pipe(
        Effect.match({
          onSuccess: (said): Check => ({
            check: name,
            required,
            verdict: "yes",
            reason: typeof said === "string" ? text.safe(said) : undefined
          }),
          onFailure: ({ _tag, reason }): Check => ({
            check: name,
            required,
            verdict: _tag === "No" ? "no" : "unsupported",
            // It may quote the server.
            reason: text.safe(reason),
            without: consequences[name]
          })
        })
      )
      done.push(check)
      if (options.onCheck !== undefined) yield* options.onCheck(check)
    }
    return {
      baseUrl: options.baseUrl,
      conforms: done.every(({ required, verdict }) => !required || verdict === "yes"),
      checks: done
    }
  }
)

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ")

/**
 * The checks of several servers side by side, as a table in Markdown. The last column says what will not work where a
 * check fails.
 *
 * @since 0.1.0
 * @category combinators
 */
export const markdown = (servers: ReadonlyArray<{ readonly name: string; readonly report: Report }>): string => {
  const header = ["check", ...servers.map(({ name }) => name), "where it is missing"]
  const rows = (servers[0]?.report.checks ?? []).map(({ check, required }) => {
    const found = servers.map(({ report }) => report.checks.find((other) => other.check === check))
    const without = found.find((one) => one?.without !== undefined)?.without ?? ""
    return [required ? `**${check}**` : check, ...found.map((one) => one?.verdict ?? ""), without]
  })
  const verdict = [
    "",
    ...servers.map(({ report: { checks, conforms } }) => {
      const gaps = checks.filter(({ verdict }) => verdict !== "yes").length
      return !conforms ? "does not work" : gaps === 0 ? "works" : `works, ${gaps} gaps`
    }),
    ""
  ]
  return [header, header.map(() => "---"), ...rows, verdict]
    .map((row) => `| ${row.map(cell).join(" | ")} |`)
    .join("\n")
}
