/**
 * The parser's help, said shortly: one line per option and argument instead of a paragraph.
 *
 * @since 0.1.0
 */
import * as text from "./text.js"

const ansi = /\u001b\[[0-9;]*m/g

/** @internal */
export const strip = (value: string): string => value.replace(ansi, "")

/** What the parser says about every option, whether or not there is something to say. */
const boilerplate =
  /^(This setting is optional\.|A user-defined piece of text\.|A true or false value\.|An integer\.|A floating point number\.|A directory\.|A file\.|One of the following: .*|This option may be repeated.*|This argument may be repeated.*)$/

const isSection = (line: string): boolean => /^[A-Z]+$/.test(line)

const entries = (lines: ReadonlyArray<string>): ReadonlyArray<readonly [name: string, description: string]> => {
  const found: Array<[string, string]> = []
  for (const line of lines) {
    const trimmed = line.trim()
    if (trimmed === "") continue
    const last = found.at(-1)
    if (!line.startsWith(" ") || last === undefined) found.push([trimmed, ""])
    else if (!boilerplate.test(trimmed)) last[1] = `${last[1]} ${trimmed}`.trim()
  }
  return found
}

const footerStart = "Options of `tinker`"

/** @internal */
export const footer =
  `${footerStart} itself (--format, --api-key, --base-url, --project, --timeout) go anywhere on the line.`

/** Below the help of the program itself, what is nowhere else. */
const more = [
  "`tinker COMMAND --help` says more about a command, `--log-level debug` about what it does.",
  "`tinker --completions bash` (zsh, fish) prints a completion script."
]

/** `(-f, --format table | json)` as people write it. */
const plainName = (name: string): string => name.replace(/^\((.*)\)(\.{3})?$/, "$1$2").replaceAll(" | ", "|")

/** Names in a column of their own, unless they are too long for it. */
const longestName = 30

const list = (lines: ReadonlyArray<string>, columns: number): ReadonlyArray<string> => {
  const found = entries(lines).map(([name, description]) => [plainName(name), description] as const)
  const widths = found.map(([name]) => text.width(name)).filter((width) => width <= longestName)
  const width = Math.max(4, ...widths)
  const indent = " ".repeat(width + 4)
  return found.map(([name, description]) => {
    const head = text.width(name) > width ? `  ${name}\n${indent}` : `  ${text.pad(name, width)}  `
    return `${head}${text.wrap(description, columns - width - 4, indent)}`.trimEnd()
  })
}

/** Names and what they do; how they are called is in the help of each. A group is named by its commands. */
const commands = (lines: ReadonlyArray<string>, columns: number): ReadonlyArray<string> => {
  const list = lines.map((line) => {
    const [usage = "", description = ""] = line.trim().replace(/^- /, "").split(/ {2,}/)
    const words = usage.split(" ")
    const end = words.findIndex((word) => /^[[(<-]/.test(word))
    return [words.slice(0, end === -1 ? words.length : end).join(" "), description] as const
  })
  const shown = list.filter(([name]) => !list.some(([other]) => other.startsWith(`${name} `)))
  const width = Math.max(...shown.map(([name]) => text.width(name)))
  return shown.map(([name, description]) =>
    `  ${text.pad(name, width)}  ${text.wrap(description, columns - width - 4, " ".repeat(width + 4))}`
  )
}

const anOption = /\[\(?-[^\]]*\]|--\S+ \S+\.{3}/g

/** How a command is called: its whole path, and its options listed below instead of here. */
const usage = (line: string, words: ReadonlyArray<string>, isGroup: boolean): string => {
  const [, name = "", rest = ""] = /^\$ (\S+)(.*)$/.exec(line) ?? []
  const path = name === "tinker" ? [name] : ["tinker", ...words.slice(0, words.indexOf(name)), name]
  const given = rest.replace(anOption, "")
  const options = given === rest ? [] : ["[options]"]
  return `$ ${
    [...path, ...(isGroup ? ["<command>"] : []), ...options, ...given.split(" ").filter((word) => word !== "")].join(
      " "
    )
  }`
}

/**
 * Help for people; anything that is not help (completion scripts, versions) passes as it is.
 *
 * @internal
 */
export const compact = (value: string, options: {
  readonly columns: number
  readonly bold: (text: string) => string
  /** The words of the command line, to name the command by its whole path. */
  readonly words: ReadonlyArray<string>
}): string => {
  const plain = strip(value)
  if (!/^USAGE$/m.test(plain)) return value
  const lines = plain.split("\n")
  const sections: Array<{ readonly name: string; readonly lines: Array<string> }> = [{ name: "", lines: [] }]
  for (const line of lines) {
    if (isSection(line.trim()) && !line.startsWith(" ")) sections.push({ name: line.trim(), lines: [] })
    else sections.at(-1)?.lines.push(line)
  }
  const columns = Math.min(options.columns, 110)
  const out: Array<string> = []
  for (const section of sections) {
    const content = section.lines.map((line) => line.trimEnd()).filter((line) => line !== "")
    if (section.name === "") {
      // The first line is the program's name, which the second repeats with its version.
      out.push(content.slice(1).join("\n"))
      continue
    }
    // The footer comes after the last section, whichever that is.
    const end = content.findIndex((line) => line.trim().startsWith(footerStart))
    const body = end === -1 ? content : content.slice(0, end)
    if (body.length > 0) out.push("", options.bold(section.name))
    if (section.name === "OPTIONS" || section.name === "ARGUMENTS") out.push(...list(body, columns))
    else if (section.name === "COMMANDS") out.push(...commands(body, columns))
    else if (section.name === "USAGE") {
      const isGroup = sections.some(({ name }) => name === "COMMANDS")
      out.push(...body.map((line) => `  ${usage(line.trim(), options.words, isGroup)}`))
    } else out.push(...body.map((line) => `  ${text.wrap(line.trim(), columns - 2, "  ")}`))
    if (end !== -1) {
      const said = [
        content.slice(end).map((line) => line.trim()).join(" "),
        ...(options.words.length === 0 ? more : [])
      ]
      out.push("", ...said.map((line) => text.wrap(line, columns, "")))
    }
  }
  return `${out.join("\n").trim()}\n`
}
