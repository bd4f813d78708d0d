/**
 * Reads a command line once, and writes it in the one form that the parser of `@effect/cli` cannot misread: options of
 * the program, the command, its options, `--`, its arguments. That parser then only decodes values: alone it splits a
 * line at the first word that is the name of a command, takes any word that starts with a dash for an option, and refuses
 * an option that occurs twice.
 *
 * The reading asks for the parts of the grammar when a word needs them, so that a line loads the one command it names and
 * `tinker --version` loads nothing. Nothing is imported here that has to be loaded for that.
 *
 * @since 0.1.0
 */
import type { CommandSpec, OptionSpec } from "./grammar.js"
import { nearest } from "./nearest.js"

/** @internal */
export type LogLevel = typeof logLevels[number]

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
    readonly logLevel: LogLevel
  }
  | { readonly _tag: "Help"; readonly command: CommandSpec; readonly program: CommandSpec }
  | { readonly _tag: "Version" }
  | { readonly _tag: "Completions"; readonly shell: Shell }
  | { readonly _tag: "Wrong"; readonly what: string; readonly advice: string }

/**
 * The part of the grammar that the next word needs: the options of the program, the command of a name (all commands where
 * there is none of that name), or all commands.
 *
 * @internal
 */
export type Question =
  | { readonly _tag: "Options" }
  | { readonly _tag: "Command"; readonly name: string }
  | { readonly _tag: "Commands" }

/**
 * A reading that goes on when its question is answered.
 *
 * @internal
 */
export type Reading = Generator<Question, CommandLine, CommandSpec>

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
const logLevels = ["all", "trace", "debug", "info", "warning", "error", "fatal", "none"] as const
const logLevel = builtIn("--log-level", ["--log-level"], "What to log on stderr.", logLevels)
const shells = ["bash", "zsh", "fish"] as const
const completions = builtIn("--completions", ["--completions"], "Print a completion script.", shells)

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

/** The program before anything of its grammar is known. */
const unknown: CommandSpec = { path: [], description: "", options: [], arguments: [], commands: new Map() }

type Wrong = CommandLine & { readonly _tag: "Wrong" }

/**
 * Meaning of the words after the program's name.
 *
 * @internal
 */
export function* read(given: ReadonlyArray<string>): Reading {
  const words = withoutHelp(given)
  const values = new Map<OptionSpec, ReadonlyArray<string>>()
  const positionals: Array<string> = []
  const secrets = new Set<number>()
  let program = unknown
  let command = program
  let knowsOptions = false

  const wrong = (what: string, advice: string): Wrong => ({ _tag: "Wrong", what, advice })

  const inScope = () => [...command.options, ...command.usual?.options ?? [], ...program.options, ...builtIns]

  /** The option of a name. Those of the program are asked for where no other has it. */
  function* find(name: string): Generator<Question, OptionSpec | undefined, CommandSpec> {
    const own = [...command.options, ...command.usual?.options ?? []].find(({ names }) => names.includes(name))
    const known = own ?? builtIns.find(({ names }) => names.includes(name))
    if (known !== undefined) return known
    yield* askOptions()
    return program.options.find(({ names }) => names.includes(name))
  }

  function* askOptions(): Generator<Question, void, CommandSpec> {
    if (knowsOptions) return
    knowsOptions = true
    const { options } = yield { _tag: "Options" }
    const atProgram = command === program
    program = { ...program, options }
    if (atProgram) command = program
  }

  const set = (option: OptionSpec, value: string): Wrong | undefined => {
    if (!isValid(option, value)) {
      return wrong(`${option.name} must be ${taken(option)}, not ${JSON.stringify(value)}`, seeHelp(command))
    }
    // The last value counts, unless all of them do.
    values.set(option, option.repeated ? [...values.get(option) ?? [], value] : [value])
    return undefined
  }

  const setSwitch = (option: OptionSpec, value: string): Wrong | undefined => {
    const on = truths.get(value.toLowerCase())
    if (on === undefined) return wrong(`${option.name} takes no value`, seeHelp(command))
    if (on) values.set(option, [])
    else values.delete(option)
    return undefined
  }

  const unknownOption = (word: string): Wrong => {
    const [name = ""] = word.split("=", 1)
    const guess = name.startsWith("--") ? nearest(name, inScope().flatMap(({ names }) => names)) : undefined
    return wrong(
      `There is no option ${name}${command.path.length === 0 ? "" : ` of \`${nameOf(command)}\``}`,
      guess !== undefined
        ? `Did you mean ${guess}?`
        : command.arguments.length > 0
        ? `Write -- before text that begins with a dash. ${seeHelp(command)}`
        : seeHelp(command)
    )
  }

  const unknownCommand = (word: string): Wrong => {
    const names = Array.from(command.commands.keys())
    const guess = nearest(word, names)
    const prefix = nameOf(command)
    return wrong(
      `There is no command \`${prefix} ${word}\``,
      guess === undefined
        ? `There is: ${names.join(", ")}. ${seeHelp(command)}`
        : `Did you mean \`${prefix} ${guess}\`?`
    )
  }

  function* readPlain(word: string): Generator<Question, Wrong | undefined, CommandSpec> {
    if (command === program) {
      program = command = { ...(yield { _tag: "Command", name: word }), options: program.options }
    } else if (command.commands.size === 0) {
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
  function* readShort(word: string): Generator<Question, Wrong | undefined, CommandSpec> {
    for (let i = 1; i < word.length; i++) {
      const option = yield* find(`-${word[i]}`)
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
  function* readWord(at: number): Generator<Question, number | Wrong, CommandSpec> {
    const word = words[at] ?? ""
    if (!word.startsWith("-") || word === "-") return (yield* readPlain(word)) ?? at + 1
    const equals = word.indexOf("=")
    const inline = equals === -1 ? undefined : word.slice(equals + 1)
    const option = yield* find(equals === -1 ? word : word.slice(0, equals))
    if (option === undefined) {
      const isText = command !== program && command.commands.size === 0 && !looksLikeOption.test(word)
      if (isText) return (yield* readPlain(word)) ?? at + 1
      return (word.startsWith("--") ? unknownOption(word) : yield* readShort(word)) ?? at + 1
    }
    if (option.takes === undefined) return setSwitch(option, inline ?? "true") ?? at + 1
    const value = inline ?? words[at + 1]
    if (value === undefined) return wrong(`${option.name} requires a value`, `It takes ${taken(option)}.`)
    const next = inline === undefined ? at + 2 : at + 1
    if (isSecret(option) && !namesPlace(value)) { for (let i = at; i < next; i++) secrets.add(i) }
    return set(option, value) ?? next
  }

  const missingOrExtra = (): Wrong | undefined => {
    const specs = command.arguments
    const missing = specs.filter(({ optional }) => !optional)[positionals.length]
    if (missing !== undefined) return wrong(`${missing.name} is missing`, seeHelp(command))
    const extra = specs.some(({ repeated }) => repeated) ? undefined : positionals[specs.length]
    return extra === undefined ? undefined : wrong(`Unexpected argument ${JSON.stringify(extra)}`, seeHelp(command))
  }

  const written = (options: ReadonlyArray<OptionSpec>): ReadonlyArray<string> =>
    options.flatMap((option) => {
      if (option.takes === undefined) return values.has(option) ? [option.name] : []
      return (values.get(option) ?? []).flatMap((value) => {
        if (option.repeated) return [option.name, encodeRepeated(value)]
        // In one word where the parser would take a value for a command, or for the end of the options.
        return value === "--" || program.commands.has(value) ? [`${option.name}=${value}`] : [option.name, value]
      })
    })

  for (let at = 0; at < words.length;) {
    if (words[at] === "--") {
      positionals.push(...words.slice(at + 1))
      break
    }
    const next = yield* readWord(at)
    if (typeof next !== "number") return next
    at = next
  }
  const shell = shells.find((name) => name === values.get(completions)?.[0])
  if (shell !== undefined) return { _tag: "Completions", shell }
  if (values.has(version)) return { _tag: "Version" }
  if (command === program) {
    program = yield { _tag: "Commands" }
    return { _tag: "Help", command: program, program }
  }
  // A group alone does nothing but say what is in it.
  if (!values.has(help)) command = command.usual ?? command
  if (values.has(help) || command.commands.size > 0) {
    yield* askOptions()
    return { _tag: "Help", command, program }
  }
  const level = values.get(logLevel)?.[0]
  return missingOrExtra() ?? {
    _tag: "Run",
    command,
    recorded: words.filter((_, i) => !secrets.has(i)),
    logLevel: logLevels.find((name) => name === level) ?? "info",
    words: [
      ...written(program.options),
      ...command.path,
      ...written(command.options),
      ...(positionals.length === 0 ? [] : ["--", ...positionals])
    ]
  }
}
