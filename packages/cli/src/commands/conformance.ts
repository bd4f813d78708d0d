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

const conformance = Effect.fnUntraced(function*(
  options: { readonly url: Option.Option<string>; readonly model: Option.Option<string> }
) {
  const flags = yield* Connection
  const output = yield* Output
  const report = yield* Effect.gen(function*() {
    const { baseUrl } = yield* TinkerConfig.TinkerConfig
    const credential = yield* Effect.flatMap(Credentials.Credentials, ({ current }) => current)
    return yield* Conformance.run({
      baseUrl,
      credential: Option.getOrElse(credential, () => Redacted.make("")),
      model: Option.getOrUndefined(options.model),
      patience: Option.getOrUndefined(flags.timeout)
    })
  }).pipe(
    Effect.provide(live.base),
    Effect.provideService(Connection, { ...flags, baseUrl: Option.orElse(options.url, () => flags.baseUrl) })
  )
  const { baseUrl, checks, conforms } = report
  const count = (verdict: Conformance.Verdict) => checks.filter((check) => check.verdict === verdict).length
  yield* output.print({
    title: baseUrl,
    columns: [{ header: "Check", keep: true }, { header: "Required" }, {
      header: "Answer",
      tone: (answer) => tones[answer]
    }, { header: "Reason", wrap: true }],
    rows: checks.map(({ check, reason, required, verdict }) => [check, required ? "yes" : "", verdict, reason ?? ""]),
    json: { ...report, total: checks.length },
    items: checks
  })
  yield* output.note(
    `${text.count(checks.length, "check")}: ${count("yes")} yes, ${count("no")} no, ${count("unsupported")} unsupported`
  )
  if (!conforms) {
    const missing = checks.filter(({ required, verdict }) => required && verdict !== "yes")
    return yield* new CliFailure({
      what: `${baseUrl} fails ${text.count(missing.length, "required check")}: ${
        missing.map(({ check }) => check).join(", ")
      }`,
      advice: "Clients of Tinker will not work with this server; the table has the reasons."
    })
  }
})

const url = Args.text({ name: "url" }).pipe(
  Args.withDescription("The server, or `local` for the embedded backend. Default: --base-url."),
  Args.optional
)

const model = Options.text("model").pipe(
  Options.withDescription("The model to train and sample. Default: the first one the server offers."),
  Options.optional
)

/** @internal */
export const command = Command.make(
  "conformance",
  { url, model },
  conformance
).pipe(
  Command.withDescription("Check whether a server is Tinker-compatible: it trains, saves, samples and lists there.")
)
