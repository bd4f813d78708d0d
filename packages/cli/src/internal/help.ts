/**
 * Help for people: a line for each option, argument and command, made from the grammar of the tree.
 *
 * @since 0.1.0
 */
import * as text from "../terminal/text.js"
import { nameOf } from "./commandLine.js"
import type { ArgumentSpec, CommandSpec, OptionSpec } from "./grammar.js"
import { commandsIn } from "./grammar.js"
import { version } from "./version.js"

/** Longer names get a line to themselves. */
const longestName = 30

type Entry = readonly [name: string, description: string]

const optionEntry = ({ names, repeated, takes }: OptionSpec): string =>
  `${names.join(", ")}${
    takes === undefined ? "" : ` ${takes === "redacted" ? "@FILE" : takes.replaceAll(" | ", "|")}`
  }${repeated ? "..." : ""}`

const argumentEntry = ({ name, optional, repeated }: ArgumentSpec): string =>
  repeated ? `${name}...` : optional ? `[${name}]` : name

const list = (entries: ReadonlyArray<Entry>, columns: number): ReadonlyArray<string> => {
  const widths = entries.map(([name]) => text.width(name)).filter((width) => width <= longestName)
  const width = Math.max(4, ...widths)
  const indent = " ".repeat(width + 4)
  return entries.map(([name, description]) => {
    const head = text.width(name) > width ? `  ${name}\n${indent}` : `  ${text.pad(name, width)}  `
    return `${head}${text.wrap(description, columns - width - 4, indent)}`.trimEnd()
  })
}

/**
 * The help of a command, of a group or of the program.
 *
 * @internal
 */
export const render = (command: CommandSpec, root: CommandSpec, style: {
  readonly columns: number
  readonly bold: (text: string) => string
}): string => {
  const columns = Math.min(style.columns, 110)
  const isGroup = command.commands.size > 0
  const usage = [
    nameOf(command),
    ...(isGroup ? ["<command>"] : []),
    ...(command.options.length > 0 ? ["[options]"] : []),
    ...command.arguments.map(argumentEntry)
  ].join(" ")
  const section = (title: string, lines: ReadonlyArray<string>) =>
    lines.length === 0 ? [] : ["", style.bold(title), ...lines]
  const general = root.options.map(({ name }) => name).join(", ")
  const footer = [
    `Options of \`tinker\` itself (${general}) go anywhere on the line.`,
    ...(command === root
      ? [
        "`tinker COMMAND --help` says more about a command, `--log-level debug` logs every request.",
        "`tinker --completions bash` (zsh, fish) prints a completion script."
      ]
      : [])
  ]
  return [
    `tinker ${version}`,
    ...section("USAGE", [`  $ ${usage}`]),
    ...section("DESCRIPTION", [`  ${text.wrap(command.description, columns - 2, "  ")}`]),
    ...section("ARGUMENTS", list(command.arguments.map((spec) => [argumentEntry(spec), spec.description]), columns)),
    ...section("OPTIONS", list(command.options.map((spec) => [optionEntry(spec), spec.description]), columns)),
    ...section(
      "COMMANDS",
      isGroup
        ? list(
          commandsIn(command).map(({ description, path }) => [
            path.slice(command.path.length).join(" "),
            description
          ]),
          columns
        )
        : []
    ),
    "",
    ...footer.map((line) => text.wrap(line, columns, "")),
    ""
  ].join("\n")
}
