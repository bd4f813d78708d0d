/**
 * Description of the tree of commands: names, options, arguments and descriptions, read from the parser's own
 * `Usage` and `HelpDoc` trees. Help, completions and error messages are all made from this.
 *
 * @since 0.1.0
 */
import * as CliConfig from "@effect/cli/CliConfig"
import * as CommandDescriptor from "@effect/cli/CommandDescriptor"
import type * as HelpDoc from "@effect/cli/HelpDoc"
import type * as Span from "@effect/cli/HelpDoc/Span"
import type * as Usage from "@effect/cli/Usage"
import * as Option from "effect/Option"

/** @internal */
export interface OptionSpec {
  /** The long name: `--format`. */
  readonly name: string
  /** All names, short ones first. */
  readonly names: ReadonlyArray<string>
  /** Type of its value (`text`, `integer`, `table | json`); `undefined` for a switch. */
  readonly takes: string | undefined
  /** The words it takes, where there are only a few. */
  readonly choices: ReadonlyArray<string>
  readonly repeated: boolean
  readonly description: string
}

/** @internal */
export interface ArgumentSpec {
  /** As it is shown: `<path>`. */
  readonly name: string
  readonly optional: boolean
  readonly repeated: boolean
  readonly description: string
}

/** @internal */
export interface CommandSpec {
  /** The words that name it; none for the program itself. */
  readonly path: ReadonlyArray<string>
  readonly description: string
  readonly options: ReadonlyArray<OptionSpec>
  readonly arguments: ReadonlyArray<ArgumentSpec>
  /** The commands of a group. */
  readonly commands: ReadonlyMap<string, CommandSpec>
  /** The command of a group that its name alone stands for. */
  readonly usual?: CommandSpec | undefined
}

const noBuiltIns = CliConfig.make({ showBuiltIns: false })

const spanText = (span: Span.Span): string => {
  switch (span._tag) {
    case "Text":
    case "URI":
      return span.value
    case "Sequence":
      return `${spanText(span.left)}${spanText(span.right)}`
    case "Highlight":
    case "Strong":
    case "Weak":
      return spanText(span.value)
  }
}

type Leaf = HelpDoc.Header | HelpDoc.Paragraph | HelpDoc.DescriptionList

const leaves = (doc: HelpDoc.HelpDoc): ReadonlyArray<Leaf> => {
  switch (doc._tag) {
    case "Empty":
      return []
    case "Sequence":
      return [...leaves(doc.left), ...leaves(doc.right)]
    case "Enumeration":
      return doc.elements.flatMap(leaves)
    default:
      return [doc]
  }
}

/**
 * A document in one line.
 *
 * @internal
 */
export const plainText = (doc: HelpDoc.HelpDoc): string =>
  leaves(doc)
    .map((leaf) =>
      leaf._tag === "DescriptionList"
        ? leaf.definitions.map(([name, inner]) => `${spanText(name)} ${plainText(inner)}`).join(" ")
        : spanText(leaf.value)
    )
    .join(" ")
    .replace(/\s+/g, " ")
    .trim()

/** The leaves below each header. */
const sections = (doc: HelpDoc.HelpDoc): ReadonlyMap<string, ReadonlyArray<Leaf>> => {
  const found = new Map<string, Array<Leaf>>()
  let current: Array<Leaf> = []
  for (const leaf of leaves(doc)) {
    if (leaf._tag === "Header") found.set(spanText(leaf.value), current = [])
    else current.push(leaf)
  }
  return found
}

/**
 * Descriptions of options or arguments, in their order. The parser puts the kind of value first, then what
 * `withDescription` was given, then remarks that the usage shows as well.
 */
const descriptions = (section: ReadonlyArray<Leaf> | undefined): ReadonlyArray<string> =>
  (section ?? []).flatMap((leaf) =>
    leaf._tag !== "DescriptionList" ? [] : leaf.definitions.map(([, doc]) => {
      const said = leaves(doc)[1]
      return said === undefined ? "" : plainText(said)
    })
  )

interface Named {
  readonly names: ReadonlyArray<string>
  readonly takes: string | undefined
  readonly optional: boolean
  readonly repeated: boolean
}

const named = (usage: Usage.Usage, optional = false, repeated = false): ReadonlyArray<Named> => {
  switch (usage._tag) {
    case "Empty":
    case "Mixed":
      return []
    case "Concat":
    case "Alternation":
      return [...named(usage.left, optional, repeated), ...named(usage.right, optional, repeated)]
    case "Optional":
      return named(usage.usage, true, repeated)
    case "Repeated":
      return named(usage.usage, optional, true)
    case "Named":
      return [{ names: usage.names, takes: Option.getOrUndefined(usage.acceptedValues), optional, repeated }]
  }
}

const choicesOf = (takes: string | undefined): ReadonlyArray<string> =>
  takes?.includes(" | ") === true ? takes.split(" | ") : []

/**
 * Reads one command.
 *
 * @internal
 */
export const read = (
  descriptor: CommandDescriptor.Command<unknown>,
  path: ReadonlyArray<string>,
  commands: ReadonlyMap<string, CommandSpec> = new Map()
): CommandSpec => {
  const help = sections(CommandDescriptor.getHelp(descriptor, noBuiltIns))
  // The first name is that of the command.
  const [, ...parts] = named(CommandDescriptor.getUsage(descriptor))
  const isOption = ({ names }: Named) => names.some((name) => name.startsWith("-"))
  const ofOptions = descriptions(help.get("OPTIONS"))
  const ofArguments = descriptions(help.get("ARGUMENTS"))
  return {
    path,
    description: (help.get("DESCRIPTION") ?? []).map(plainText).join(" "),
    options: parts.filter(isOption).map(({ names, repeated, takes }, i) => ({
      name: names.find((name) => name.startsWith("--")) ?? names.join(""),
      names: [...names].sort((a, b) => a.length - b.length),
      takes,
      choices: choicesOf(takes),
      repeated,
      description: ofOptions[i] ?? ""
    })),
    arguments: parts.filter((part) => !isOption(part)).map(({ names, optional, repeated }, i) => ({
      name: names.join(""),
      // None is enough where any number will do.
      optional: optional || repeated,
      repeated,
      description: ofArguments[i] ?? ""
    })),
    commands
  }
}

/** The commands of a group, in the order of its help: the parser keeps them in a hash map. */
const readGroup = (
  group: CommandDescriptor.Command<unknown>,
  name: string
): ReadonlyMap<string, CommandSpec> => {
  const listed = (sections(CommandDescriptor.getHelp(group, noBuiltIns)).get("COMMANDS") ?? []).map(plainText)
  const place = (inner: string) => listed.findIndex((line) => line === inner || line.startsWith(`${inner} `))
  return new Map(
    Array.from(CommandDescriptor.getSubcommands(group))
      // A command without subcommands is listed as its own.
      .filter(([inner]) => inner !== name)
      .sort(([a], [b]) => place(a) - place(b))
      .map(([inner, command]) => [inner, read(command, [name, inner])] as const)
  )
}

/**
 * Reads a program of commands and groups of commands.
 *
 * @internal
 */
export const readTree = (
  root: CommandDescriptor.Command<unknown>,
  description: string,
  commands: ReadonlyArray<CommandDescriptor.Command<unknown>>,
  /** The command that the name of a group alone stands for. */
  usual: Readonly<Record<string, string>> = {}
): CommandSpec => {
  const inside = commands.flatMap((command) =>
    Array.from(CommandDescriptor.getNames(command), (name) => {
      const group = readGroup(command, name)
      return [name, { ...read(command, [name], group), usual: group.get(usual[name] ?? "") }] as const
    })
  )
  return { ...read(root, [], new Map(inside)), description }
}

/**
 * Every command that does something, by its path.
 *
 * @internal
 */
export const commandsIn = (spec: CommandSpec): ReadonlyArray<CommandSpec> =>
  spec.commands.size === 0 ? [spec] : Array.from(spec.commands.values()).flatMap(commandsIn)
