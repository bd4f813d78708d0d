/**
 * `tinker conformance`: checks whether a server is Tinker-compatible.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Credentials from "effect-tinker/Credentials"
import * as TinkerConfig from "effect-tinker/TinkerConfig"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Conformance from "../conformance/Conformance.js"
import { CliFailure } from "../internal/CliFailure.js"
import { Connection } from "../internal/connection.js"
import * as live from "../internal/connection.js"
import type { Tone } from "../terminal/Output.js"
import { Output } from "../terminal/Output.js"
import * as text from "../terminal/text.js"

const tones: Readonly<Record<string, Tone>> = { yes: "good", no: "bad", unsupported: "idle" }

interface Settings {
  readonly urls: ReadonlyArray<string>
  readonly model: Option.Option<string>
  readonly markdown: boolean
}

const checked = Effect.fnUntraced(function*(url: Option.Option<string>, model: Option.Option<string>) {
  const flags = yield* Connection
  return yield* Effect.gen(function*() {
    const { baseUrl } = yield* TinkerConfig.TinkerConfig
    const credential = yield* Effect.flatMap(Credentials.Credentials, ({ current }) => current)
    return yield* Conformance.run({
      baseUrl,
      credential: Option.getOrElse(credential, () => Redacted.make("")),
      model: Option.getOrUndefined(model),
      patience: Option.getOrUndefined(flags.timeout)
    })
  }).pipe(
    Effect.provide(live.base),
    Effect.provideService(Connection, { ...flags, baseUrl: Option.orElse(url, () => flags.baseUrl) })
  )
})

const printed = Effect.fnUntraced(function*(report: Conformance.Report) {
  const output = yield* Output
  const { baseUrl, checks, conforms } = report
  const count = (verdict: Conformance.Verdict) => checks.filter((check) => check.verdict === verdict).length
  yield* output.print({
    title: baseUrl,
    columns: [
      { header: "Check", keep: true },
      { header: "Required" },
      {
        header: "Answer",
        tone: (answer) => tones[answer]
      },
      { header: "Reason", wrap: true },
      { header: "Without it", wrap: true }
    ],
    rows: checks.map(({ check, reason, required, verdict, without }) => [
      check,
      required ? "yes" : "",
      verdict,
      reason ?? "",
      without ?? ""
    ]),
    json: { ...report, total: checks.length },
    items: checks
  })
  yield* output.note(
    `${text.count(checks.length, "check")}: ${count("yes")} yes, ${count("no")} no, ${count("unsupported")} unsupported`
  )
  const gaps = checks.length - count("yes")
  if (conforms) {
    yield* output.note(
      gaps === 0
        ? "Clients of Tinker work with this server."
        : `Clients of Tinker work with this server, with ${text.count(gaps, "gap")}: the last column says for whom.`
    )
  }
})

/** Fails for the first server that clients cannot work with. */
const judged = ({ baseUrl, checks, conforms }: Conformance.Report): Effect.Effect<void, CliFailure> => {
  if (conforms) return Effect.void
  const missing = checks.filter(({ required, verdict }) => required && verdict !== "yes")
  return new CliFailure({
    what: `${baseUrl} fails ${text.count(missing.length, "required check")}: ${
      missing.map(({ check }) => check).join(", ")
    }`,
    advice: "Clients of Tinker will not work with this server; the table has the reasons."
  })
}

const conformance = Effect.fnUntraced(function*({ markdown, model, urls }: Settings) {
  const output = yield* Output
  const chosen = urls.length === 0 ? [Option.none<string>()] : urls.map(Option.some)
  const reports = yield* Effect.forEach(chosen, (url) => checked(url, model))
  if (markdown) {
    const names = reports.map((report, i) => ({ name: urls[i] ?? report.baseUrl, report }))
    yield* output.write(`${Conformance.markdown(names)}\n`)
  } else yield* Effect.forEach(reports, printed)
  yield* Effect.forEach(reports, judged)
})

const urls = Args.text({ name: "url" }).pipe(
  Args.withDescription("The servers, or `local` for the embedded backend. Default: --base-url."),
  Args.repeated
)

const markdown = Options.boolean("markdown").pipe(
  Options.withDescription("One table in Markdown for all servers, side by side.")
)

const model = Options.text("model").pipe(
  Options.withDescription("The model to train and sample. Default: the first one the server offers."),
  Options.optional
)

/** @internal */
export const command = Command.make(
  "conformance",
  { urls, model, markdown },
  conformance
).pipe(
  Command.withDescription(
    "Check whether a server is Tinker-compatible by training, saving, sampling and listing on it."
  )
)
