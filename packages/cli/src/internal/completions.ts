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

const optionsAt = ({ general }: Context, spec: CommandSpec): ReadonlyArray<OptionSpec> =>
  spec.path.length === 0 ? general : [...spec.options, ...general]

/** Options that take one of a few words, with the command they belong to; `undefined` where they may stand anywhere. */
const choosing = ({ general, nodes }: Context) =>
  [
    ...nodes.filter(({ path }) => path.length > 0).flatMap((spec) =>
      spec.options.map((option) => ({ at: pathOf(spec), option }))
    ),
    ...general.map((option) => ({ at: undefined, option }))
  ].filter(({ option }) => option.choices.length > 0)

const bash = (context: Context): string =>
  `_tinker() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} at= word before= commands= options=
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$before" in ${context.valued.join("|")}) before=; continue ;; esac
    before=$word
    case "\${at:+$at }$word" in
      ${
    context.nodes.filter(({ path }) => path.length > 0).map((spec) => `"${pathOf(spec)}"`).join("|")
  }) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at:$prev" in
${
    choosing(context).flatMap(({ at, option }) =>
      option.names.map((name) =>
        `    ${at === undefined ? "*" : `"${at}"`}":${name}") COMPREPLY=($(compgen -W "${
          option.choices.join(" ")
        }" -- "$cur")); return ;;`
      )
    ).join("\n")
  }
  esac
  case "$at" in
${
    context.nodes.map((spec) =>
      `    "${pathOf(spec)}") commands="${sortedNames(spec).join(" ")}" options="${
        flagsOf(optionsAt(context, spec)).join(" ")
      }" ;;`
    ).join("\n")
  }
  esac
  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$cur"))
  else COMPREPLY=($(compgen -W "$commands" -- "$cur")); fi
}
complete -o bashdefault -o default -F _tinker tinker
`

/** `name:description`, as \`_describe\` reads it. */
const described = (name: string, description: string): string => quote(`${name}:${description}`)

const zsh = (context: Context): string =>
  `#compdef tinker
_tinker() {
  local at= word before=
  local -a commands options
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$before" in (${context.valued.join("|")}) before=; continue ;; esac
    before=$word
    case "\${at:+$at }$word" in
      (${
    context.nodes.filter(({ path }) => path.length > 0).map((spec) => `"${pathOf(spec)}"`).join("|")
  }) at="\${at:+$at }$word" ;;
    esac
  done
  case "$at:$words[CURRENT-1]" in
${
    choosing(context).flatMap(({ at, option }) =>
      option.names.map((name) =>
        `    (${at === undefined ? "*" : `"${at}"`}":${name}") compadd -- ${option.choices.join(" ")}; return ;;`
      )
    ).join("\n")
  }
  esac
  case "$at" in
${
    context.nodes.map((spec) =>
      `    ("${pathOf(spec)}")
      commands=(${
        sortedNames(spec).map((name) => described(name, spec.commands.get(name)?.description ?? "")).join(" ")
      })
      options=(${
        optionsAt(context, spec).flatMap(({ description, names }) => names.map((name) => described(name, description)))
          .join(" ")
      }) ;;`
    ).join("\n")
  }
  esac
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
        ...(spec.path.length === 0 ? [] : spec.options.map((option) => fishOption(condition, option)))
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
