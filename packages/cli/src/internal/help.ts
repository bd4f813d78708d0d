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

const wrap = (value: string, columns: number, indent: string): string => {
  const lines: Array<string> = []
  let line = ""
  for (const word of value.split(" ")) {
    if (line !== "" && text.width(`${line} ${word}`) > columns) {
      lines.push(line)
      line = word
    } else line = line === "" ? word : `${line} ${word}`
  }
  return [...lines, line].join(`\n${indent}`)
}

const footerStart = "Options of `tinker`"

/** @internal */
export const footer =
  `${footerStart} itself (--format, --api-key, --base-url, --project, --timeout) go anywhere on the line.`

/** Names and what they do; how they are called is in the help of each. A group is named by its commands. */
const commands = (lines: ReadonlyArray<string>): ReadonlyArray<string> => {
  const list = lines.map((line) => {
    const [usage = "", description = ""] = line.trim().replace(/^- /, "").split(/ {2,}/)
    const words = usage.split(" ")
    const end = words.findIndex((word) => /^[[(<-]/.test(word))
    return [words.slice(0, end === -1 ? words.length : end).join(" "), description] as const
  })
  const shown = list.filter(([name]) => !list.some(([other]) => other.startsWith(`${name} `)))
  const width = Math.max(...shown.map(([name]) => text.width(name)))
  return shown.map(([name, description]) => `  ${text.pad(name, width)}  ${description}`)
}

const wholePath = (line: string, words: ReadonlyArray<string>): string => {
  const [, name = "", rest = ""] = /^\$ (\S+)(.*)$/.exec(line) ?? []
  return name === "tinker" ? line : `$ ${["tinker", ...words.slice(0, words.indexOf(name)), name].join(" ")}${rest}`
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
    out.push("", options.bold(section.name))
    if (section.name === "OPTIONS" || section.name === "ARGUMENTS") {
      const list = entries(content)
      const width = Math.min(34, Math.max(...list.map(([name]) => text.width(name))))
      for (const [name, description] of list) {
        const indent = " ".repeat(width + 4)
        const head = text.width(name) > width ? `  ${name}\n${indent}` : `  ${text.pad(name, width)}  `
        out.push(`${head}${wrap(description, columns - width - 4, indent)}`.trimEnd())
      }
    } else {
      const [last] = content.slice(-1)
      const footer = last?.startsWith(footerStart) === true ? [last] : []
      const body = footer.length === 0 ? content : content.slice(0, -1)
      if (section.name === "COMMANDS") out.push(...commands(body))
      else if (section.name === "USAGE") out.push(...body.map((line) => `  ${wholePath(line.trim(), options.words)}`))
      else out.push(...body.map((line) => `  ${line.trim()}`))
      if (footer.length > 0) out.push("", ...footer)
    }
  }
  return `${out.join("\n").trim()}\n`
}
