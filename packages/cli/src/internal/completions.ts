/**
 * Completion scripts for bash, zsh and fish. All three find the command from the words so far, then offer its commands
 * and options, and the words an option takes. Where there is nothing else to offer, files are: logs, prompts and
 * directories are among the arguments.
 *
 * The parser's scripts do not know the commands of groups in bash, nor options of the program after a command.
 *
 * @since 0.1.0
 */
import type { Shell } from "./commandLine.js"
import { builtIns } from "./commandLine.js"
import type { CommandSpec, OptionSpec } from "./grammar.js"

/** The program, its groups and their commands. */
const everyNode = (spec: CommandSpec): ReadonlyArray<CommandSpec> => [
  spec,
  ...Array.from(spec.commands.values()).flatMap(everyNode)
]

interface Context {
  readonly nodes: ReadonlyArray<CommandSpec>
  /** Options that may stand anywhere. */
  readonly general: ReadonlyArray<OptionSpec>
  /** Names of those among them that take a value, which must not be read as a command: `--base-url local`. */
  readonly valued: ReadonlyArray<string>
}

const pathOf = ({ path }: CommandSpec): string => path.join(" ")
const sortedNames = (spec: CommandSpec): ReadonlyArray<string> => Array.from(spec.commands.keys()).sort()
const flagsOf = (options: ReadonlyArray<OptionSpec>): ReadonlyArray<string> => options.flatMap(({ names }) => names)

/** A string of a POSIX shell. */
const quote = (value: string): string => `'${value.replaceAll("'", "'\\''")}'`

/** Options of a command alone; those of the program are offered everywhere. */
const ownOptions = (spec: CommandSpec): ReadonlyArray<OptionSpec> => spec.path.length === 0 ? [] : spec.options

/** Options that take one of a few words, by a pattern of a shell for the command so far and the word before. */
const choosing = (context: Context) =>
  [
    ...context.nodes.flatMap((spec) => ownOptions(spec).map((option) => ({ at: `"${pathOf(spec)}"`, option }))),
    ...context.general.map((option) => ({ at: "*", option }))
  ].flatMap(({ at, option: { choices, names } }) =>
    choices.length === 0 ? [] : names.map((name) => ({ pattern: `${at}":${name}"`, choices }))
  )

/** The names of commands and groups, as alternatives of a shell pattern. */
const paths = ({ nodes }: Context): string =>
  nodes.filter(({ path }) => path.length > 0).map((spec) => `"${pathOf(spec)}"`).join("|")

const bash = (context: Context): string =>
  `_tinker() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} at= word before= commands= options=
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$before" in ${context.valued.join("|")}) before=; continue ;; esac
    before=$word
    case "\${at:+$at }$word" in
      ${paths(context)}) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at:$prev" in
${
    choosing(context).map(({ choices, pattern }) =>
      `    ${pattern}) COMPREPLY=($(compgen -W "${choices.join(" ")}" -- "$cur")); return ;;`
    ).join("\n")
  }
  esac
  case "$at" in
${
    context.nodes.map((spec) =>
      `    "${pathOf(spec)}") commands="${sortedNames(spec).join(" ")}" options="${
        flagsOf(ownOptions(spec)).join(" ")
      }" ;;`
    ).join("\n")
  }
  esac
  options+=" ${flagsOf(context.general).join(" ")}"
  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$cur"))
  else COMPREPLY=($(compgen -W "$commands" -- "$cur")); fi
}
complete -o bashdefault -o default -F _tinker tinker
`

/** Words and what they mean, as `_describe` reads them. */
const described = (entries: ReadonlyArray<readonly [name: string, description: string]>): string =>
  entries.map(([name, description]) => quote(`${name}:${description}`)).join(" ")

const describedOptions = (options: ReadonlyArray<OptionSpec>): string =>
  described(options.flatMap(({ description, names }) => names.map((name) => [name, description] as const)))

const zsh = (context: Context): string =>
  `#compdef tinker
_tinker() {
  local at= word before=
  local -a commands options
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$before" in (${context.valued.join("|")}) before=; continue ;; esac
    before=$word
    case "\${at:+$at }$word" in
      (${paths(context)}) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at:$words[CURRENT-1]" in
${
    choosing(context).map(({ choices, pattern }) => `    (${pattern}) compadd -- ${choices.join(" ")}; return ;;`).join(
      "\n"
    )
  }
  esac
  case "$at" in
${
    context.nodes.map((spec) =>
      `    ("${pathOf(spec)}")
      commands=(${described(sortedNames(spec).map((name) => [name, spec.commands.get(name)?.description ?? ""]))})
      options=(${describedOptions(ownOptions(spec))}) ;;`
    ).join("\n")
  }
  esac
  options+=(${describedOptions(context.general)})
  if [[ $PREFIX == -* ]]; then _describe -o option options
  elif (( $#commands )); then _describe command commands
  else _files; fi
}
if [[ $funcstack[1] == _tinker ]]; then _tinker "$@"; else compdef _tinker tinker; fi
`

/** A string of fish, where a backslash escapes the quote. */
const fishQuote = (value: string): string => `'${value.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`

const fishOption = (condition: string | undefined, { choices, description, names, takes }: OptionSpec): string =>
  [
    "complete -c tinker",
    ...(condition === undefined ? [] : [`-n ${fishQuote(condition)}`]),
    ...names.map((name) => name.startsWith("--") ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`),
    ...(takes === undefined ? [] : choices.length === 0 ? ["-r"] : [`-x -a ${fishQuote(choices.join(" "))}`]),
    `-d ${fishQuote(description)}`
  ].join(" ")

const fish = (context: Context): string =>
  `function __tinker_command
  set -l at
  set -l before
  for word in (commandline -opc)[2..-1]
    if contains -- "$before" ${context.valued.join(" ")}
      set before
      continue
    end
    set before $word
    set -l next (string trim -- "$at $word")
    if contains -- "$next" ${
    context.nodes.filter(({ path }) => path.length > 0).map((spec) => fishQuote(pathOf(spec))).join(" ")
  }
      set at "$next"
    end
  end
  echo "$at"
end
function __tinker_at
  test (__tinker_command) = "$argv"
end
${
    context.nodes.flatMap((spec) => {
      const condition = `__tinker_at "${pathOf(spec)}"`
      return [
        ...(spec.commands.size > 0 ? [`complete -c tinker -f -n ${fishQuote(condition)}`] : []),
        ...sortedNames(spec).map((name) =>
          `complete -c tinker -n ${fishQuote(condition)} -a ${name} -d ${
            fishQuote(spec.commands.get(name)?.description ?? "")
          }`
        ),
        ...ownOptions(spec).map((option) => fishOption(condition, option))
      ]
    }).join("\n")
  }
${context.general.map((option) => fishOption(undefined, option)).join("\n")}
`

const scripts: Readonly<Record<Shell, (context: Context) => string>> = { bash, zsh, fish }

/**
 * The script of a shell.
 *
 * @internal
 */
export const script = (shell: Shell, root: CommandSpec): string => {
  const general = [...root.options, ...builtIns]
  return scripts[shell]({
    nodes: everyNode(root),
    general,
    valued: flagsOf(general.filter(({ takes }) => takes !== undefined))
  })
}
