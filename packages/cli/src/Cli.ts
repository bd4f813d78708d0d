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
import * as Either from "effect/Either"
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

/** Each brings in modules of its own, so a line loads the one that it names. */
const commands = [
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

const program = Grammar.read(root.descriptor, [])

/** The command that a line names; for help and for what is misspelled, all of them. */
const load = (words: ReadonlyArray<string>) => {
  const named = CommandLine.commandOf(program.options, words)
  const wanted = commands.filter(({ name }) => name === named)
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
export const grammar: Effect.Effect<Grammar.CommandSpec> = Effect.map(load([]), readGrammar)

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

const runLine = Effect.fnUntraced(function*(
  loaded: Commands,
  line: CommandLine.CommandLine & { readonly _tag: "Run" }
) {
  const { stderr } = yield* Stdio.Stdio
  // The clients log them too.
  const settings = yield* misunderstoodSettings
  return yield* execute(loaded)(["node", "tinker", ...line.words]).pipe(
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
  const loaded = yield* load(argv.slice(2))
  const tree = readGrammar(loaded)
  const line = CommandLine.read(tree, argv.slice(2))
  if (Either.isLeft(line)) return yield* printFailure(line.left)
  switch (line.right._tag) {
    case "Completions":
      yield* stdout.write(completions.script(line.right.shell, yield* grammar))
      return 0
    case "Version":
      yield* stdout.write(`tinker ${version}\n`)
      return 0
    case "Help": {
      const bold = (value: string) => stdout.colour ? `\u001b[1m${value}\u001b[0m` : value
      yield* stdout.write(help.render(line.right.command, tree, { columns: stdout.columns, bold }))
      return 0
    }
    case "Run": {
      const exit = yield* Effect.exit(
        Effect.provideService(runLine(loaded, line.right), CommandLine.Words, line.right.recorded)
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
    /** Content of stdin. */
    readonly stdin?: string | undefined
    readonly stdout?: ((text: string) => Effect.Effect<void>) | undefined
    readonly stderr?: ((text: string) => Effect.Effect<void>) | undefined
  }
): Effect.Effect<ExitCode, never, CliApp.CliApp.Environment> => Effect.provide(runWith(argv), Stdio.layer(streams))
