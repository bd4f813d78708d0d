/**
 * The `tinker` command: how a command line becomes output and an exit code.
 *
 * @since 0.1.0
 */
import type * as CliApp from "@effect/cli/CliApp"
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Cause from "effect/Cause"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as account from "./commands/account.js"
import * as billing from "./commands/billing.js"
import * as checkpoint from "./commands/checkpoint.js"
import * as conformance from "./commands/conformance.js"
import * as data from "./commands/data.js"
import * as doctor from "./commands/doctor.js"
import * as evaluation from "./commands/eval.js"
import * as exporting from "./commands/export.js"
import * as gateway from "./commands/gateway.js"
import * as local from "./commands/local.js"
import * as models from "./commands/models.js"
import * as report from "./commands/report.js"
import * as runs from "./commands/run.js"
import * as records from "./commands/runs.js"
import * as sampling from "./commands/sample.js"
import * as session from "./commands/session.js"
import * as studio from "./commands/studio.js"
import * as train from "./commands/train.js"
import * as watch from "./commands/watch.js"
import * as worker from "./commands/worker.js"
import * as CliFailure from "./internal/CliFailure.js"
import * as CommandLine from "./internal/commandLine.js"
import * as completions from "./internal/completions.js"
import { Connection, misunderstoodSettings } from "./internal/connection.js"
import * as Grammar from "./internal/grammar.js"
import * as help from "./internal/help.js"
import { root } from "./internal/options.js"
import { version } from "./internal/version.js"
import * as Output from "./terminal/Output.js"
import * as Stdio from "./terminal/Stdio.js"
import * as text from "./terminal/text.js"

const versionCommand = Command.make(
  "version",
  {},
  () =>
    Effect.flatMap(Output.Output, (output) =>
      output.format === "table"
        ? output.write(`tinker ${version}\n`)
        : output.print({ columns: [], rows: [], json: { version, node: process.version } }))
).pipe(
  Command.withDescription("Show the version.")
)

const exportCommand = Command.make("export").pipe(
  Command.withSubcommands([exporting.command, studio.tensorBoardCommand, studio.mlflowCommand]),
  Command.withDescription("Write a checkpoint for an inference server, or the curves of runs for other tools.")
)

const commands = [
  account.auth,
  account.whoami,
  models.models,
  models.model,
  runs.command,
  checkpoint.command,
  exportCommand,
  session.command,
  train.command,
  worker.command,
  data.command,
  evaluation.command,
  records.command,
  models.sampler,
  sampling.sample,
  sampling.chat,
  gateway.command,
  billing.command,
  account.audit,
  watch.command,
  report.command,
  studio.command,
  doctor.command,
  conformance.command,
  local.command,
  versionCommand
] as const

/**
 * What the tree of commands says about itself.
 *
 * @internal
 */
export const grammar: Grammar.CommandSpec = Grammar.readTree(
  root.descriptor,
  "Fine-tune language models with Tinker: runs, checkpoints, sampling and a local backend.",
  commands.map(({ descriptor }) => descriptor),
  { runs: "list", export: "weights" }
)

const warnOfSettings = Layer.effectDiscard(
  Effect.flatMap(
    Output.Output,
    ({ warn }) => Effect.flatMap(misunderstoodSettings, (settings) => Effect.forEach(settings, warn, { discard: true }))
  )
)

const execute = Command.run(
  root.pipe(
    Command.withSubcommands(commands),
    Command.provide((flags) =>
      Layer.merge(Layer.provideMerge(warnOfSettings, Output.layer(flags.format)), Layer.succeed(Connection, flags))
    )
  ),
  { name: "tinker", version, executable: "tinker" }
)

/** What the parser prints of an error is printed by us, once. */
const quietConsole = Effect.map(Console.consoleWith(Effect.succeed), (console) => ({
  ...console,
  error: () => Effect.void
}))

/** That are remembered. */
const mostWarnings = 1000

/** A warning is said once, however often it is logged: a row that is skipped is skipped in every epoch. */
const stderrLogger = (write: (line: string) => void, said: ReadonlyArray<string>) => {
  const warned = new Set(said)
  return Logger.make(({ logLevel, message }) => {
    const parts = Array.isArray(message) ? message : [message]
    const line = parts.map((part) => typeof part === "string" ? part : JSON.stringify(part)).join(" ")
    const isWarning = logLevel._tag === "Warning"
    if (isWarning && warned.has(line)) return
    if (isWarning && warned.size < mostWarnings) warned.add(line)
    write(`${isWarning ? "warning" : logLevel.label.toLowerCase()}: ${text.safe(line)}\n`)
  })
}

/**
 * What the process should end with: 0 done, 1 failed, 2 wrong command line, 130 interrupted.
 *
 * @since 0.1.0
 * @category models
 */
export type ExitCode = 0 | 1 | 2 | 130

const runLine = Effect.fnUntraced(function*(line: CommandLine.CommandLine & { readonly _tag: "Run" }) {
  const { stderr } = yield* Stdio.Stdio
  // The clients log them too.
  const settings = yield* misunderstoodSettings
  return yield* execute(["node", "tinker", ...line.words]).pipe(
    Effect.withConsole(yield* quietConsole),
    Effect.mapError((error) =>
      ValidationError.isValidationError(error)
        ? CliFailure.usage(Grammar.plainText(error.error), `See \`${CommandLine.nameOf(line.command)} --help\`.`)
        : error
    ),
    Effect.provide(Layer.mergeAll(
      CliConfig.layer({ showBuiltIns: false }),
      Logger.replace(Logger.defaultLogger, stderrLogger((text) => Effect.runFork(stderr.write(text)), settings)),
      Logger.minimumLogLevel(line.logLevel)
    ))
  )
})

/** Two lines on stderr: what happened, and what to do. */
const printFailure = Effect.fnUntraced(function*(failure: unknown) {
  const { stderr } = yield* Stdio.Stdio
  const report = CliFailure.report(failure)
  const label = stderr.colour ? "\u001b[31;1merror:\u001b[0m" : "error:"
  const what = text.wrap(`error: ${text.safe(report.what)}`, stderr.columns - 2, "  ")
  const advice = text.wrap(text.safe(report.advice), stderr.columns - 2, "  ")
  yield* stderr.write(`${what.replace("error:", label)}\n  ${advice}\n`)
  return report.exitCode
})

/**
 * Runs a command line with the streams in the context.
 *
 * @internal
 */
export const runWith: (
  argv: ReadonlyArray<string>
) => Effect.Effect<ExitCode, never, CliApp.CliApp.Environment | Stdio.Stdio> = Effect.fnUntraced(function*(argv) {
  const { stderr, stdout } = yield* Stdio.Stdio
  const line = CommandLine.read(grammar, argv.slice(2))
  if (Either.isLeft(line)) return yield* printFailure(line.left)
  switch (line.right._tag) {
    case "Completions":
      yield* stdout.write(completions.script(line.right.shell, grammar))
      return 0
    case "Version":
      yield* stdout.write(`tinker ${version}\n`)
      return 0
    case "Help": {
      const bold = (value: string) => stdout.colour ? `\u001b[1m${value}\u001b[0m` : value
      yield* stdout.write(help.render(line.right.command, grammar, { columns: stdout.columns, bold }))
      return 0
    }
    case "Run": {
      const exit = yield* Effect.exit(
        Effect.provideService(runLine(line.right), CommandLine.Words, argv.slice(2))
      )
      if (Exit.isSuccess(exit)) return 0
      if (Cause.isInterruptedOnly(exit.cause)) {
        yield* stderr.write("Interrupted\n")
        return 130
      }
      const code = yield* printFailure(
        Option.getOrElse(Cause.failureOption(exit.cause), () => Cause.squash(exit.cause))
      )
      if (LogLevel.lessThanEqual(line.right.logLevel, LogLevel.Debug)) {
        // Indented: a line of a server's message must not pass for one of ours.
        yield* stderr.write(`${text.safeLines(Cause.pretty(exit.cause)).replace(/^/gm, "  | ")}\n`)
      }
      return code
    }
  }
})

/**
 * Runs one command line (`process.argv`) and yields its exit code; failures have been printed by then. It uses the
 * streams of the process, but for those given.
 *
 * @since 0.1.0
 * @category constructors
 */
export const run = (
  argv: ReadonlyArray<string>,
  streams?: {
    /** What there is to read on stdin. */
    readonly stdin?: string | undefined
    readonly stdout?: ((text: string) => Effect.Effect<void>) | undefined
    readonly stderr?: ((text: string) => Effect.Effect<void>) | undefined
  }
): Effect.Effect<ExitCode, never, CliApp.CliApp.Environment> => Effect.provide(runWith(argv), Stdio.layer(streams))
