/**
 * The `tinker` command: how a command line becomes output and an exit code.
 *
 * @since 0.1.0
 */
import type * as CliApp from "@effect/cli/CliApp"
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as CliFailure from "./internal/CliFailure.js"
import * as CommandLine from "./internal/commandLine.js"
import * as completions from "./internal/completions.js"
import { Connection, misunderstoodSettings } from "./internal/connection.js"
import * as Grammar from "./internal/grammar.js"
import * as help from "./internal/help.js"
import { root } from "./internal/options.js"
import { RecordedWords } from "./internal/recordedWords.js"
import { version, versionDescription } from "./internal/version.js"
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
  Command.withDescription(versionDescription)
)

/** Each brings in modules of its own, so a line loads the one that it names. */
const commands = [
  { name: "init", load: () => import("./commands/init.js").then(({ command }) => command) },
  { name: "auth", load: () => import("./commands/account.js").then(({ auth }) => auth) },
  { name: "whoami", load: () => import("./commands/account.js").then(({ whoami }) => whoami) },
  { name: "models", load: () => import("./commands/models.js").then(({ models }) => models) },
  { name: "model", load: () => import("./commands/models.js").then(({ model }) => model) },
  { name: "run", load: () => import("./commands/run.js").then(({ command }) => command) },
  { name: "checkpoint", load: () => import("./commands/checkpoint.js").then(({ command }) => command) },
  { name: "export", load: () => import("./commands/export.js").then(({ command }) => command) },
  { name: "session", load: () => import("./commands/session.js").then(({ command }) => command) },
  { name: "train", load: () => import("./commands/train.js").then(({ command }) => command) },
  { name: "worker", load: () => import("./commands/worker.js").then(({ command }) => command) },
  { name: "workers", load: () => import("./commands/workers.js").then(({ command }) => command) },
  { name: "data", load: () => import("./commands/data.js").then(({ command }) => command) },
  { name: "improve", load: () => import("./commands/improve.js").then(({ command }) => command) },
  { name: "eval", load: () => import("./commands/eval.js").then(({ command }) => command) },
  { name: "runs", load: () => import("./commands/runs.js").then(({ command }) => command) },
  { name: "sampler", load: () => import("./commands/models.js").then(({ sampler }) => sampler) },
  { name: "sample", load: () => import("./commands/sample.js").then(({ sample }) => sample) },
  { name: "chat", load: () => import("./commands/sample.js").then(({ chat }) => chat) },
  { name: "gateway", load: () => import("./commands/gateway.js").then(({ command }) => command) },
  { name: "billing", load: () => import("./commands/billing.js").then(({ command }) => command) },
  { name: "audit", load: () => import("./commands/account.js").then(({ audit }) => audit) },
  { name: "watch", load: () => import("./commands/watch.js").then(({ command }) => command) },
  { name: "report", load: () => import("./commands/report.js").then(({ command }) => command) },
  { name: "studio", load: () => import("./commands/studio.js").then(({ command }) => command) },
  { name: "doctor", load: () => import("./commands/doctor.js").then(({ command }) => command) },
  { name: "conformance", load: () => import("./commands/conformance.js").then(({ command }) => command) },
  { name: "local", load: () => import("./commands/local.js").then(({ command }) => command) },
  { name: "version", load: () => Promise.resolve(versionCommand) }
] as const

/** The command of a name; where there is none of that name, as for help and for what is misspelled, all of them. */
const load = (name?: string) => {
  const wanted = commands.filter((command) => command.name === name)
  const chosen = Arr.isNonEmptyArray(wanted) ? wanted : commands
  return Effect.promise(() => Promise.all(Arr.map(chosen, ({ load }) => load())))
}

type Commands = Effect.Effect.Success<ReturnType<typeof load>>

const readGrammar = (loaded: Commands): Grammar.CommandSpec =>
  Grammar.readTree(
    root.descriptor,
    "Fine-tune language models with Tinker: runs, checkpoints, sampling and a local backend.",
    loaded.map(({ descriptor }) => descriptor),
    { runs: "list", export: "weights", eval: "run" }
  )

/**
 * Description of the tree of all commands.
 *
 * @internal
 */
export const grammar: Effect.Effect<Grammar.CommandSpec> = Effect.map(load(), readGrammar)

/** The part of the grammar that a reading needs next. */
const answer = (question: CommandLine.Question): Effect.Effect<Grammar.CommandSpec> => {
  switch (question._tag) {
    case "Options":
      return Effect.succeed(Grammar.read(root.descriptor, []))
    case "Command":
      return Effect.map(load(question.name), readGrammar)
    case "Commands":
      return grammar
  }
}

/** Reads on to the meaning of the line. */
const finish = Effect.fnUntraced(function*(
  reading: CommandLine.Reading,
  from: IteratorResult<CommandLine.Question, CommandLine.CommandLine>
) {
  let step = from
  while (step.done !== true) step = reading.next(yield* answer(step.value))
  return step.value
})

const warnOfSettings = Layer.effectDiscard(
  Effect.flatMap(
    Output.Output,
    ({ warn }) => Effect.flatMap(misunderstoodSettings, (settings) => Effect.forEach(settings, warn, { discard: true }))
  )
)

const execute = (loaded: Commands) =>
  Command.run(
    root.pipe(
      Command.withSubcommands(loaded),
      Command.provide((flags) =>
        Layer.merge(
          Layer.provideMerge(warnOfSettings, Output.layer(flags.format)),
          Layer.succeed(Connection, { ...flags, baseUrl: flags.local ? Option.some("local") : flags.baseUrl })
        )
      )
    ),
    { name: "tinker", version, executable: "tinker" }
  )

/** Errors of the parser are printed by us, once. */
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
 * Exit code of the process: 0 done, 1 failed, 2 wrong command line, 130 interrupted.
 *
 * @since 0.1.0
 * @category models
 */
export type ExitCode = 0 | 1 | 2 | 130

const logLevels: Readonly<Record<CommandLine.LogLevel, LogLevel.LogLevel>> = {
  all: LogLevel.All,
  trace: LogLevel.Trace,
  debug: LogLevel.Debug,
  info: LogLevel.Info,
  warning: LogLevel.Warning,
  error: LogLevel.Error,
  fatal: LogLevel.Fatal,
  none: LogLevel.None
}

const runLine = Effect.fnUntraced(function*(line: CommandLine.CommandLine & { readonly _tag: "Run" }) {
  const { stderr } = yield* Stdio.Stdio
  // The clients log them too.
  const settings = yield* misunderstoodSettings
  return yield* execute(yield* load(line.command.path[0]))(["node", "tinker", ...line.words]).pipe(
    Effect.withConsole(yield* quietConsole),
    Effect.mapError((error) =>
      ValidationError.isValidationError(error)
        ? CliFailure.usage(Grammar.plainText(error.error), `See \`${CommandLine.nameOf(line.command)} --help\`.`)
        : error
    ),
    Effect.provide(Layer.mergeAll(
      CliConfig.layer({ showBuiltIns: false }),
      Logger.replace(Logger.defaultLogger, stderrLogger((text) => Effect.runFork(stderr.write(text)), settings)),
      Logger.minimumLogLevel(logLevels[line.logLevel])
    ))
  )
})

/** On stderr: what happened, what to do, and where it is explained. */
const printFailure = Effect.fnUntraced(function*(failure: unknown) {
  const { stderr } = yield* Stdio.Stdio
  const report = CliFailure.report(failure)
  const label = stderr.colour ? "\u001b[31;1merror:\u001b[0m" : "error:"
  const what = text.wrap(`error: ${text.safe(report.what)}`, stderr.columns - 2, "  ")
  const advice = text.wrap(text.safe(report.advice), stderr.columns - 2, "  ")
  // An address is not wrapped, so that it can be clicked.
  const page = report.page === undefined ? "" : `  See ${report.page}\n`
  yield* stderr.write(`${what.replace("error:", label)}\n  ${advice}\n${page}`)
  return report.exitCode
})

/**
 * Runs a command line whose reading has begun, with the streams in the context.
 *
 * @internal
 */
export const runReading: (
  reading: CommandLine.Reading,
  from: IteratorResult<CommandLine.Question, CommandLine.CommandLine>
) => Effect.Effect<ExitCode, never, CliApp.CliApp.Environment | Stdio.Stdio> = Effect.fnUntraced(
  function*(reading, from) {
    const { stderr, stdout } = yield* Stdio.Stdio
    const line = yield* finish(reading, from)
    switch (line._tag) {
      case "Wrong":
        return yield* printFailure(CliFailure.usage(line.what, line.advice))
      case "Completions":
        yield* stdout.write(completions.script(line.shell, yield* grammar))
        return 0
      case "Version":
        yield* stdout.write(`tinker ${version}\n`)
        return 0
      case "Help": {
        const bold = (value: string) => stdout.colour ? `\u001b[1m${value}\u001b[0m` : value
        yield* stdout.write(help.render(line.command, line.program, { columns: stdout.columns, bold }))
        return 0
      }
      case "Run": {
        const exit = yield* Effect.exit(Effect.provideService(runLine(line), RecordedWords, line.recorded))
        if (Exit.isSuccess(exit)) return 0
        if (Cause.isInterruptedOnly(exit.cause)) {
          yield* stderr.write("Interrupted\n")
          return 130
        }
        const code = yield* printFailure(
          Option.getOrElse(Cause.failureOption(exit.cause), () => Cause.squash(exit.cause))
        )
        if (LogLevel.lessThanEqual(logLevels[line.logLevel], LogLevel.Debug)) {
          // Indented: a line of a server's message must not pass for one of ours.
          yield* stderr.write(`${text.safeLines(Cause.pretty(exit.cause)).replace(/^/gm, "  | ")}\n`)
        }
        return code
      }
    }
  }
)

/**
 * Runs a command line with the streams in the context.
 *
 * @internal
 */
export const runWith = (
  argv: ReadonlyArray<string>
): Effect.Effect<ExitCode, never, CliApp.CliApp.Environment | Stdio.Stdio> =>
  Effect.suspend(() => {
    const reading = CommandLine.read(argv.slice(2))
    return runReading(reading, reading.next())
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
    /** Content of stdin. */
    readonly stdin?: string | undefined
    readonly stdout?: ((text: string) => Effect.Effect<void>) | undefined
    readonly stderr?: ((text: string) => Effect.Effect<void>) | undefined
  }
): Effect.Effect<ExitCode, never, CliApp.CliApp.Environment> => Effect.provide(runWith(argv), Stdio.layer(streams))
