/**
 * What is wrong with a command line, and what was probably meant.
 *
 * @since 0.1.0
 */
import * as CliFailure from "../CliFailure.js"

/** The options of the root command, all of which have a value; some by the names other tools give them. */
const rooted = new Map([
  ["--format", "--format"],
  ["-f", "--format"],
  ["--api-key", "--api-key"],
  ["--base-url", "--base-url"],
  ["--project", "--project"],
  ["--project-id", "--project"],
  ["--timeout", "--timeout"]
])

/**
 * What people type in other programs: `help COMMAND` and `-V`.
 *
 * @internal
 */
export const meant = (argv: ReadonlyArray<string>): ReadonlyArray<string> => {
  const [first, ...others] = argv.slice(2)
  if (first === "help") return [...argv.slice(0, 2), ...others, "--help"]
  return first === "-V" && others.length === 0 ? [...argv.slice(0, 2), "--version"] : argv
}

/**
 * Whether the line asks for completions that are ours.
 *
 * @internal
 */
export const wantsBash = (argv: ReadonlyArray<string>): boolean =>
  /(^| )--completions[ =](ba)?sh$/.test(argv.slice(2).join(" "))

/**
 * Whether the line asks for everything there is to say.
 *
 * @internal
 */
export const isVerbose = (argv: ReadonlyArray<string>): boolean =>
  /(^| )--log-level[ =](all|trace|debug)( |$)/.test(argv.slice(2).join(" "))

/**
 * The same command line with the options of the root command in front: the parser takes what follows a command for
 * that command's own, and would give their values to its arguments.
 *
 * @internal
 */
export const hoist = (argv: ReadonlyArray<string>): ReadonlyArray<string> => {
  const front: Array<string> = []
  const rest: Array<string> = []
  const words = argv.slice(2)
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? ""
    if (word === "--") {
      rest.push(...words.slice(i))
      break
    }
    const equals = word.indexOf("=")
    const option = rooted.get(equals === -1 ? word : word.slice(0, equals))
    const value = equals === -1 ? words[i + 1] : word.slice(equals + 1)
    if (option === undefined || value === undefined) rest.push(word)
    else {
      // In one word, because a value may be the name of a command: `--base-url local`.
      front.push(`${option}=${value}`)
      if (equals === -1) i++
    }
  }
  return [...argv.slice(0, 2), ...front, ...rest]
}

const withValue = new Set([...rooted.keys(), "--log-level", "--completions"])

/**
 * The words of a command line that are neither options nor values of the options every command has.
 *
 * @internal
 */
export const words = (argv: ReadonlyArray<string>): ReadonlyArray<string> =>
  argv.slice(2).filter((word, i, all) => !word.startsWith("-") && !withValue.has(all[i - 1] ?? ""))

const distance = (left: string, right: string): number => {
  let row = Array.from({ length: right.length + 1 }, (_, i) => i)
  for (let i = 1; i <= left.length; i++) {
    const next = [i]
    for (let j = 1; j <= right.length; j++) {
      const substitution = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1)
      next.push(Math.min(substitution, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row.at(-1) ?? 0
}

const closest = (word: string, names: ReadonlyArray<string>): string | undefined => {
  const [best] = names.map((name) => ({ name, far: distance(word, name) })).sort((a, b) => a.far - b.far)
  return best !== undefined && best.far <= 2 ? best.name : undefined
}

/** Options of all commands, and what they take. */
const values: Readonly<Record<string, string>> = {
  "--format": "table, json or ndjson",
  "-f": "table, json or ndjson",
  "--api-key": "@FILE, - or prompt",
  "--base-url": "an address, or local",
  "--project": "the id of a project",
  "--project-id": "the id of a project",
  "--timeout": "a duration, e.g. 30s",
  "--log-level": "all, trace, debug, info, warning, error, fatal or none",
  "--completions": "sh, bash, fish or zsh"
}

/** An option at the end of the line without its value, or with one the parser does not take for it. */
const lackingValue = (argv: ReadonlyArray<string>): CliFailure.CliFailure | undefined => {
  const given = argv.slice(2)
  for (const [i, word] of given.entries()) {
    const [option = "", inline] = word.split("=", 2)
    const takes = values[option]
    if (takes === undefined) continue
    const value = inline ?? given[i + 1]
    if (value === undefined || ((option === "--log-level" || option === "--completions") && !takes.includes(value))) {
      return CliFailure.usage(
        `${option} ${value === undefined ? "lacks its value" : `cannot be ${value}`}`,
        `It takes ${takes}.`
      )
    }
  }
  return undefined
}

/** @internal */
export const describe = (
  message: string,
  argv: ReadonlyArray<string>,
  tree: ReadonlyMap<string, ReadonlyArray<string>>
): CliFailure.CliFailure => {
  const [group = "", name = ""] = words(argv)
  const inGroup = tree.get(group)
  const lacking = lackingValue(argv)
  if (lacking !== undefined) return lacking
  const unknown = (word: string, names: ReadonlyArray<string>, prefix: string) => {
    const guess = closest(word, names)
    return CliFailure.usage(
      `There is no command \`${prefix} ${word}\``,
      guess === undefined
        ? `There is: ${names.join(", ")}. See \`${prefix} --help\`.`
        : `Did you mean \`${prefix} ${guess}\`?`
    )
  }
  if (message.startsWith("Invalid subcommand") && group !== "") {
    if (inGroup === undefined) return unknown(group, [...tree.keys()], "tinker")
    if (inGroup.length > 0 && !inGroup.includes(name)) return unknown(name, inGroup, `tinker ${group}`)
  }
  const [option] = argv.slice(2)
  if (message.startsWith("Invalid subcommand") && option?.startsWith("-") === true) {
    return CliFailure.usage(`There is no option ${option}`, "See `tinker --help`.")
  }
  const path = [
    "tinker",
    ...(inGroup === undefined ? [] : [group]),
    ...(inGroup?.includes(name) === true ? [name] : [])
  ]
  return CliFailure.usage(
    message === "" ? "Wrong command line" : message.replace("is not a integer", "is not a whole number"),
    `See \`${path.join(" ")} --help\`.`
  )
}
