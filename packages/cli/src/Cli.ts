/**
 * The command tree of `tinker`, and how a command line becomes output and an exit code.
 *
 * @since 0.1.0
 */
import type * as CliApp from "@effect/cli/CliApp"
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as CommandDescriptor from "@effect/cli/CommandDescriptor"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Span from "@effect/cli/HelpDoc/Span"
import * as Usage from "@effect/cli/Usage"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Cause from "effect/Cause"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HashMap from "effect/HashMap"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as CliFailure from "./CliFailure.js"
import * as auth from "./commands/auth.js"
import * as billing from "./commands/billing.js"
import * as checkpoint from "./commands/checkpoint.js"
import * as conformance from "./commands/conformance.js"
import * as doctor from "./commands/doctor.js"
import * as local from "./commands/local.js"
import * as lookup from "./commands/lookup.js"
import * as report from "./commands/report.js"
import * as runs from "./commands/run.js"
import * as sampling from "./commands/sample.js"
import * as session from "./commands/session.js"
import * as versionCommand from "./commands/version.js"
import * as watch from "./commands/watch.js"
import { Connection } from "./Connection.js"
import * as completions from "./internal/completions.js"
import * as help from "./internal/help.js"
import * as text from "./internal/text.js"
import * as usage from "./internal/usage.js"
import { version } from "./internal/version.js"
import * as Output from "./Output.js"
import { root } from "./Root.js"
import { Stdio } from "./Stdio.js"

const commands = [
  auth.command,
  lookup.whoami,
  lookup.models,
  lookup.model,
  runs.command,
  checkpoint.command,
  session.command,
  lookup.sampler,
  sampling.sample,
  sampling.chat,
  billing.command,
  lookup.audit,
  watch.command,
  report.command,
  doctor.command,
  conformance.command,
  local.command,
  versionCommand.command
] as const

const tree = root.pipe(
  Command.withDescription("Fine-tune language models with Tinker: runs, checkpoints, sampling and a local backend."),
  Command.withSubcommands(commands),
  Command.provide((flags) => Layer.merge(Output.layer(flags.format), Layer.succeed(Connection, flags)))
)

const application = Command.run(tree, {
  name: "tinker",
  version,
  executable: "tinker",
  summary: Span.text("fine-tuning from the terminal"),
  footer: HelpDoc.p(help.footer)
})

/** The parser prints in colour and says things twice; what it has to say goes out through our streams, once. */
const quietConsole = Effect.fnUntraced(function*(argv: ReadonlyArray<string>) {
  const { stdout } = yield* Stdio
  const current = yield* Console.consoleWith(Effect.succeed)
  return {
    ...current,
    log: (...args: ReadonlyArray<unknown>) => {
      const bold = (value: string) => stdout.colour ? `\u001b[1m${value}\u001b[0m` : value
      const value = help.compact(args.join(" "), { columns: stdout.columns, bold, words: usage.words(argv) })
      return stdout.write(`${(stdout.colour ? value : help.strip(value)).trimEnd()}\n`)
    },
    error: () => Effect.void
  }
})

const stderrLogger = (write: (line: string) => void) =>
  Logger.make(({ logLevel, message }) => {
    const parts = Array.isArray(message) ? message : [message]
    const line = parts.map((part) => typeof part === "string" ? part : JSON.stringify(part)).join(" ")
    write(`${logLevel.label.toLowerCase()}: ${text.printable(line)}\n`)
  })

/** The names of the tree: groups and what is in them. */
const names: ReadonlyMap<string, ReadonlyArray<string>> = new Map(
  commands.flatMap(({ descriptor }: { readonly descriptor: CommandDescriptor.Command<unknown> }) => {
    const inside = Array.from(HashMap.keys(CommandDescriptor.getSubcommands(descriptor)))
    return Array.from(
      CommandDescriptor.getNames(descriptor),
      (name) => [name, inside.filter((other) => other !== name)] as const
    )
  })
)

/**
 * Every command that does something, in full.
 *
 * @internal
 */
export const leaves: ReadonlyArray<string> = Array.from(
  names,
  ([name, inside]) => inside.length === 0 ? [name] : inside.map((inner) => `${name} ${inner}`)
).flat()

const usageOf = (descriptor: CommandDescriptor.Command<unknown>): string =>
  help.strip(HelpDoc.toAnsiText(Usage.getHelp(CommandDescriptor.getUsage(descriptor)))).replace(/\s+/g, " ")

/** Everything there is to complete. */
const entries = (): ReadonlyArray<completions.Entry> => [
  { path: "", inside: Array.from(names.keys()).sort(), usage: usageOf(tree.descriptor) },
  ...commands.flatMap(({ descriptor }: { readonly descriptor: CommandDescriptor.Command<unknown> }) =>
    Array.from(CommandDescriptor.getNames(descriptor)).flatMap((name) => {
      const inside = Array.from(CommandDescriptor.getSubcommands(descriptor)).filter(([other]) => other !== name)
      return [
        { path: name, inside: inside.map(([inner]) => inner).sort(), usage: usageOf(descriptor) },
        ...inside.map(([inner, command]) => ({ path: `${name} ${inner}`, inside: [], usage: usageOf(command) }))
      ]
    })
  )
]

const describeUsage = (error: ValidationError.ValidationError, argv: ReadonlyArray<string>): CliFailure.CliFailure =>
  usage.describe(help.strip(HelpDoc.toAnsiText(error.error)).replace(/\s+/g, " ").trim(), argv, names)

/**
 * What the process should end with.
 *
 * @since 0.1.0
 * @category models
 */
export type ExitCode = 0 | 1 | 2 | 130

/**
 * Runs one command line (`process.argv`) and yields its exit code; failures have been printed by then.
 *
 * @since 0.1.0
 * @category constructors
 */
export const run: (
  argv: ReadonlyArray<string>
) => Effect.Effect<ExitCode, never, CliApp.CliApp.Environment | Stdio> = Effect.fnUntraced(function*(given) {
  const argv = usage.meant(given)
  const { stderr, stdout } = yield* Stdio
  if (usage.wantsBash(argv)) {
    yield* stdout.write(completions.bash(entries()))
    return 0
  }
  const console = yield* quietConsole(argv)
  const exit = yield* application(usage.hoist(argv)).pipe(
    Effect.withConsole(console),
    Effect.provide(Layer.mergeAll(
      CliConfig.layer({ showBuiltIns: false }),
      Logger.replace(Logger.defaultLogger, stderrLogger((line) => Effect.runFork(stderr.write(line)))),
      Logger.minimumLogLevel(LogLevel.Info)
    )),
    Effect.exit
  )
  if (Exit.isSuccess(exit)) return 0
  if (Cause.isInterruptedOnly(exit.cause)) {
    yield* stderr.write("Interrupted\n")
    return 130
  }
  const failure = Option.getOrElse(Cause.failureOption(exit.cause), () => Cause.squash(exit.cause))
  const report = CliFailure.report(
    ValidationError.isValidationError(failure) ? describeUsage(failure, argv) : failure
  )
  const label = stderr.colour ? "\u001b[31;1merror:\u001b[0m" : "error:"
  const what = text.wrap(`error: ${text.printable(report.what)}`, stderr.columns - 2, "  ")
  const advice = text.wrap(text.printable(report.advice), stderr.columns - 2, "  ")
  yield* stderr.write(`${what.replace("error:", label)}\n  ${advice}\n`)
  if (usage.isVerbose(argv)) yield* stderr.write(`${text.printableLines(Cause.pretty(exit.cause))}\n`)
  return report.exitCode
})
