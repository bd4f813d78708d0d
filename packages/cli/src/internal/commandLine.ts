/**
 * Reads a command line against the grammar of the tree and writes it in the one form that the parser of `@effect/cli`
 * cannot misread: options of the program, the command, its options, `--`, its arguments.
 *
 * The parser alone splits a line at the first word that is the name of a command, takes any word that starts with a dash
 * for an option, and refuses an option that occurs twice.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Either from "effect/Either"
import * as LogLevel from "effect/LogLevel"
import type { CliFailure } from "./CliFailure.js"
import { usage } from "./CliFailure.js"
import type { CommandSpec, OptionSpec } from "./grammar.js"
import { nearest } from "./nearest.js"

/** @internal */
export type Shell = "bash" | "zsh" | "fish"

/** @internal */
export type CommandLine =
  | {
    readonly _tag: "Run"
    readonly command: CommandSpec
    /** The line as the parser takes it. */
    readonly words: ReadonlyArray<string>
    /** The words as they were given, but for secrets: what may be kept of the line. */
    readonly recorded: ReadonlyArray<string>
    readonly logLevel: LogLevel.LogLevel
  }
  | { readonly _tag: "Help"; readonly command: CommandSpec }
  | { readonly _tag: "Version" }
  | { readonly _tag: "Completions"; readonly shell: Shell }

const builtIn = (name: string, names: ReadonlyArray<string>, description: string, choices?: ReadonlyArray<string>) => ({
  name,
  names,
  takes: choices?.join(" | "),
  choices: choices ?? [],
  repeated: false,
  description
})

const help = builtIn("--help", ["-h", "--help"], "Show what a command does and takes.")
const version = builtIn("--version", ["-V", "--version"], "Show the version.")
const logLevels = {
  all: LogLevel.All,
  trace: LogLevel.Trace,
  debug: LogLevel.Debug,
  info: LogLevel.Info,
  warning: LogLevel.Warning,
  error: LogLevel.Error,
  fatal: LogLevel.Fatal,
  none: LogLevel.None
} as const
const logLevel = builtIn("--log-level", ["--log-level"], "What to log on stderr.", Object.keys(logLevels))
const shells = ["bash", "zsh", "fish"] as const
const completions = builtIn("--completions", ["--completions"], "Print a completion script.", shells)

/**
 * The words after the program's name, as they were given, but for secrets.
 *
 * @internal
 */
export class Words extends Context.Reference<Words>()("@effect-tinker/cli/commandLine/Words", {
  defaultValue: (): ReadonlyArray<string> => []
}) {}

/**
 * Options that every line may have in addition to those of the tree.
 *
 * @internal
 */
export const builtIns: ReadonlyArray<OptionSpec> = [help, version, logLevel, completions]

/** Names as a sentence has them: `a, b or c`. */
const oneOf = (words: ReadonlyArray<string>): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`

/** @internal */
export const nameOf = (command: CommandSpec): string => ["tinker", ...command.path].join(" ")

const seeHelp = (command: CommandSpec): string => `See \`${nameOf(command)} --help\`.`

const taken = ({ choices, takes }: OptionSpec): string =>
  choices.length > 0 ? oneOf(choices) : takes === "integer" ? "an integer" : takes === "float" ? "a number" : "a value"

/** Whether the type of an option is a secret's: `Options.redacted`. */
const isSecret = ({ takes }: OptionSpec): boolean => takes === "redacted"

/** Where a secret is to be read, and so not the secret: `@FILE`, `-`, `prompt`. */
const namesPlace = (value: string): boolean => value.startsWith("@") || value === "-" || value === "prompt"

const isValid = ({ choices, takes }: OptionSpec, value: string): boolean => {
  if (choices.length > 0) return choices.includes(value)
  if (takes === "integer") return /^[+-]?\d+$/.test(value)
  if (takes === "float") return value.trim() !== "" && !Number.isNaN(Number(value))
  return true
}

const truths: ReadonlyMap<string, boolean> = new Map([
  ...["true", "yes", "y", "1", "on"].map((word) => [word, true] as const),
  ...["false", "no", "n", "0", "off"].map((word) => [word, false] as const)
])

/** Form of an option. Anything else that begins with a dash is text: `-`, `-5 degrees`, `---`, `--> there`. */
const looksLikeOption = /^--?[a-z][\w-]*(?:=|$)/i

/**
 * The parser trims the values of a repeated option and drops those that are empty then: a line break is a good `--stop`.
 * So they pass it encoded.
 */
const encodeRepeated = (value: string): string => `=${encodeURIComponent(value)}`

/**
 * The value of a repeated option.
 *
 * @internal
 */
export const decodeRepeated = (value: string): string => decodeURIComponent(value.slice(1))

/** As other programs have it: `help COMMAND`. */
const withoutHelp = (given: ReadonlyArray<string>): ReadonlyArray<string> =>
  given[0] === "help" ? [...given.slice(1), "--help"] : given

/**
 * The word that stands where the command does: the first that is neither an option of the program nor its value.
 *
 * @internal
 */
export const commandOf = (
  options: ReadonlyArray<OptionSpec>,
  given: ReadonlyArray<string>
): string | undefined => {
  const valued = [...options, ...builtIns].flatMap(({ names, takes }) => takes === undefined ? [] : names)
  const words = withoutHelp(given)
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? ""
    if (word === "--") return undefined
    if (!word.startsWith("-") || word === "-") return word
    if (valued.includes(word)) at++
  }
  return undefined
}

/**
 * Meaning of the words after the program's name.
 *
 * @internal
 */
export const read = (root: CommandSpec, given: ReadonlyArray<string>): Either.Either<CommandLine, CliFailure> => {
  const words = withoutHelp(given)
  const values = new Map<OptionSpec, ReadonlyArray<string>>()
  const positionals: Array<string> = []
  const secrets = new Set<number>()
  let command = root

  const inScope = () => [...command.options, ...command.usual?.options ?? [], ...root.options, ...builtIns]
  const find = (name: string) => inScope().find(({ names }) => names.includes(name))

  const set = (option: OptionSpec, value: string): CliFailure | undefined => {
    if (!isValid(option, value)) {
      return usage(`${option.name} must be ${taken(option)}, not ${JSON.stringify(value)}`, seeHelp(command))
    }
    // The last value counts, unless all of them do.
    values.set(option, option.repeated ? [...values.get(option) ?? [], value] : [value])
    return undefined
  }

  const setSwitch = (option: OptionSpec, value: string): CliFailure | undefined => {
    const on = truths.get(value.toLowerCase())
    if (on === undefined) return usage(`${option.name} takes no value`, seeHelp(command))
    if (on) values.set(option, [])
    else values.delete(option)
    return undefined
  }

  const unknownOption = (word: string): CliFailure => {
    const [name = ""] = word.split("=", 1)
    const guess = name.startsWith("--") ? nearest(name, inScope().flatMap(({ names }) => names)) : undefined
    return usage(
      `There is no option ${name}${command.path.length === 0 ? "" : ` of \`${nameOf(command)}\``}`,
      guess !== undefined
        ? `Did you mean ${guess}?`
        : command.arguments.length > 0
        ? `Write -- before text that begins with a dash. ${seeHelp(command)}`
        : seeHelp(command)
    )
  }

  const unknownCommand = (word: string): CliFailure => {
    const names = Array.from(command.commands.keys())
    const guess = nearest(word, names)
    const prefix = nameOf(command)
    return usage(
      `There is no command \`${prefix} ${word}\``,
      guess === undefined
        ? `There is: ${names.join(", ")}. ${seeHelp(command)}`
        : `Did you mean \`${prefix} ${guess}\`?`
    )
  }

  const readPlain = (word: string): CliFailure | undefined => {
    if (command.commands.size === 0) {
      positionals.push(word)
      return undefined
    }
    const inner = command.commands.get(word)
    if (inner !== undefined) {
      command = inner
      return undefined
    }
    // The usual command of a group may be left out before what it takes: `export PATH` is `export weights PATH`.
    if (command.usual === undefined || command.usual.arguments.length === 0) return unknownCommand(word)
    command = command.usual
    positionals.push(word)
    return undefined
  }

  /** `-yf` or `-n3`: switches in one word, or an option and its value. */
  const readShort = (word: string): CliFailure | undefined => {
    for (let i = 1; i < word.length; i++) {
      const option = find(`-${word[i]}`)
      if (option === undefined) return unknownOption(word)
      if (option.takes !== undefined) {
        return i + 1 === word.length
          ? unknownOption(word)
          : set(option, word.slice(i + 1))
      }
      values.set(option, [])
    }
    return undefined
  }

  /** Reads the word at an index; answers the index of the next, or what is wrong. */
  const readWord = (at: number): number | CliFailure => {
    const word = words[at] ?? ""
    if (!word.startsWith("-") || word === "-") return readPlain(word) ?? at + 1
    const equals = word.indexOf("=")
    const inline = equals === -1 ? undefined : word.slice(equals + 1)
    const option = find(equals === -1 ? word : word.slice(0, equals))
    if (option === undefined) {
      if (command.commands.size === 0 && !looksLikeOption.test(word)) return readPlain(word) ?? at + 1
      return (word.startsWith("--") ? unknownOption(word) : readShort(word)) ?? at + 1
    }
    if (option.takes === undefined) return setSwitch(option, inline ?? "true") ?? at + 1
    const value = inline ?? words[at + 1]
    if (value === undefined) return usage(`${option.name} requires a value`, `It takes ${taken(option)}.`)
    const next = inline === undefined ? at + 2 : at + 1
    if (isSecret(option) && !namesPlace(value)) { for (let i = at; i < next; i++) secrets.add(i) }
    return set(option, value) ?? next
  }

  const missingOrExtra = (): CliFailure | undefined => {
    const specs = command.arguments
    const missing = specs.filter(({ optional }) => !optional)[positionals.length]
    if (missing !== undefined) return usage(`${missing.name} is missing`, seeHelp(command))
    const extra = specs.some(({ repeated }) => repeated) ? undefined : positionals[specs.length]
    return extra === undefined ? undefined : usage(`Unexpected argument ${JSON.stringify(extra)}`, seeHelp(command))
  }

  const written = (options: ReadonlyArray<OptionSpec>): ReadonlyArray<string> =>
    options.flatMap((option) => {
      if (option.takes === undefined) return values.has(option) ? [option.name] : []
      return (values.get(option) ?? []).flatMap((value) => {
        if (option.repeated) return [option.name, encodeRepeated(value)]
        // In one word where the parser would take a value for a command, or for the end of the options.
        return value === "--" || root.commands.has(value) ? [`${option.name}=${value}`] : [option.name, value]
      })
    })

  for (let at = 0; at < words.length;) {
    if (words[at] === "--") {
      positionals.push(...words.slice(at + 1))
      break
    }
    const next = readWord(at)
    if (typeof next !== "number") return Either.left(next)
    at = next
  }
  const shell = shells.find((name) => name === values.get(completions)?.[0])
  if (shell !== undefined) return Either.right({ _tag: "Completions", shell })
  if (values.has(version)) return Either.right({ _tag: "Version" })
  // A group alone does nothing but say what is in it.
  if (!values.has(help)) command = command.usual ?? command
  if (values.has(help) || command.commands.size > 0) return Either.right({ _tag: "Help", command })
  const wrong = missingOrExtra()
  if (wrong !== undefined) return Either.left(wrong)
  const level = values.get(logLevel)?.[0]
  return Either.right({
    _tag: "Run",
    command,
    recorded: words.filter((_, i) => !secrets.has(i)),
    logLevel: Object.entries(logLevels).find(([name]) => name === level)?.[1] ?? LogLevel.Info,
    words: [
      ...written(root.options),
      ...command.path,
      ...written(command.options),
      ...(positionals.length === 0 ? [] : ["--", ...positionals])
    ]
  })
}
