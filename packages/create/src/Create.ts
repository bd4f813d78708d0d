/**
 * The command: takes its choices from options or asks for them, writes the project, installs its packages and says what to
 * type next.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Prompt from "@effect/cli/Prompt"
import * as Process from "@effect/platform/Command"
import type * as CommandExecutor from "@effect/platform/CommandExecutor"
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import type * as Terminal from "@effect/platform/Terminal"
import * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Console from "effect/Console"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as ParseResult from "effect/ParseResult"
import * as Record from "effect/Record"
import * as Schema from "effect/Schema"
import * as Project from "./Project.js"

/**
 * The package manager could not install the packages; the project itself is complete.
 *
 * @since 0.1.0
 * @category errors
 */
export class InstallFailed extends Data.TaggedError("InstallFailed")<
  { readonly packageManager: Project.PackageManager; readonly directory: string }
> {
  override get message(): string {
    return `${this.packageManager} install failed. The project is in ${this.directory}; install its packages by hand`
  }
}

const directory = Args.text({ name: "directory" }).pipe(
  Args.withDescription("Directory to write the project into; new or empty."),
  Args.optional
)
const start = Options.choice("start", Record.keys(Project.starts)).pipe(
  Options.withDescription("Starting point of the project: chats in a file, a reward, an agent, or a bare loop."),
  Options.optional
)
const framework = Options.choice("agent", Record.keys(Project.frameworks)).pipe(
  Options.withDescription("Framework of the agent; implies --start agent."),
  Options.optional
)
const style = Options.choice("style", Record.keys(Project.styles)).pipe(
  Options.withDescription("Effect, or plain async functions. An agent is written as its framework is."),
  Options.optional
)
const packageManager = Options.choice("pm", Project.packageManagers).pipe(
  Options.withDescription("Package manager. Defaults to the one that runs the command."),
  Options.optional
)
const yes = Options.boolean("yes", { aliases: ["y"] }).pipe(
  Options.withDescription("Take the defaults instead of asking: chats, Effect.")
)
const noInstall = Options.boolean("no-install").pipe(
  Options.withDescription("Only write the project; install its packages yourself.")
)

const select = <K extends string>(message: string, choices: Readonly<Record<K, string>>) =>
  Prompt.select({ message, choices: Record.keys(choices).map((value) => ({ title: choices[value], value })) })

/** The package manager that runs this command, which names itself first. */
const current = Config.string("npm_config_user_agent").pipe(
  Config.withDefault(""),
  Effect.map((agent) => Project.packageManagers.find((name) => agent.startsWith(`${name}/`)) ?? "npm")
)

/**
 * Choices named on the command line.
 *
 * @since 0.1.0
 * @category models
 */
export interface Given {
  readonly directory: Option.Option<string>
  readonly start: Option.Option<Project.Start>
  readonly framework: Option.Option<Project.Framework>
  readonly style: Option.Option<Project.Style>
  readonly packageManager: Option.Option<Project.PackageManager>
  readonly yes: boolean
  readonly noInstall: boolean
}

/**
 * The package the command comes in.
 *
 * @since 0.1.0
 * @category models
 */
export interface Settings {
  /** Version of the packages that projects depend on. */
  readonly version: string
  /** Directory of the templates. */
  readonly templates: string
  /** Whether somebody is there to be asked. */
  readonly interactive: boolean
  /** Name of the command. Defaults to `create-effect-tinker`. */
  readonly name?: string | undefined
}

/**
 * Failures of the command.
 *
 * @since 0.1.0
 * @category errors
 */
export type Failure =
  | ConfigError.ConfigError
  | InstallFailed
  | ParseResult.ParseError
  | PlatformError.PlatformError
  | Project.DirectoryNotEmpty
  | Terminal.QuitException

/**
 * The project that was asked for: what is not named is asked, or takes its default where nobody is there to be asked.
 *
 * @since 0.1.0
 * @category combinators
 */
export const decide = (
  given: Given,
  { interactive, version }: Settings
): Effect.Effect<
  readonly [directory: string, project: Project.Project],
  Failure,
  FileSystem.FileSystem | Path.Path | Terminal.Terminal
> =>
  Effect.gen(function*() {
    const path = yield* Path.Path
    const choose = <A, E, R>(option: Option.Option<A>, prompt: Effect.Effect<A, E, R>, otherwise: A) =>
      Option.isSome(option)
        ? Effect.succeed(option.value)
        : interactive && !given.yes
        ? prompt
        : Effect.succeed(otherwise)

    const directory = yield* choose(
      given.directory,
      Prompt.text({ message: "Where should the project be?", default: "my-model" }),
      "my-model"
    )
    const start = Option.isSome(given.framework)
      ? "agent"
      : yield* choose(given.start, select("What do you have?", Project.starts), "chats")
    const framework = start === "agent"
      ? yield* choose(given.framework, select("What is the agent written with?", Project.frameworks), "ai-sdk")
      : "ai-sdk"
    const style = start === "agent"
      ? "promise"
      : yield* choose(given.style, select("How do you write programs?", Project.styles), "effect")
    const name = yield* Schema.decode(Project.Name)(path.basename(path.resolve(directory)).toLowerCase())
    const packageManager = Option.isSome(given.packageManager) ? given.packageManager.value : yield* current
    return [directory, { name, start, framework, style, packageManager, version }]
  })

/** Installs the packages of a project, showing what the package manager says. */
const installIn = (packageManager: Project.PackageManager, directory: string) =>
  Process.make(packageManager, "install").pipe(
    Process.workingDirectory(directory),
    Process.stdout("inherit"),
    Process.stderr("inherit"),
    Process.exitCode,
    Effect.orElseSucceed(() => 1),
    Effect.flatMap((code) => code === 0 ? Effect.void : new InstallFailed({ packageManager, directory }))
  )

/**
 * The command.
 *
 * @since 0.1.0
 * @category constructors
 */
export const command = (
  settings: Settings
): Command.Command<
  string,
  CommandExecutor.CommandExecutor | FileSystem.FileSystem | Path.Path | Terminal.Terminal,
  Failure,
  Given
> =>
  Command.make(
    settings.name ?? "create-effect-tinker",
    { directory, start, framework, style, packageManager, yes, noInstall },
    (given) =>
      Effect.gen(function*() {
        const [target, project] = yield* decide(given, settings)
        yield* Project.write(target, yield* Project.files(project, settings.templates))
        if (!given.noInstall) {
          yield* Console.log(`Installing packages with ${project.packageManager} ...`)
          yield* installIn(project.packageManager, target)
        }
        const manager = project.packageManager
        const next = [
          ...target === "." ? [] : [`cd ${target}`],
          ...given.noInstall ? [`${manager} install`] : [],
          `${manager} run train`
        ]
        yield* Console.log(`\nThe project is in ${target}. Train a model on this machine:\n`)
        yield* Console.log(next.map((line) => `  ${line}`).join("\n"))
      })
  ).pipe(
    Command.withDescription(
      "Write a project that fine-tunes a language model, on this machine or at the hosted service."
    )
  )
