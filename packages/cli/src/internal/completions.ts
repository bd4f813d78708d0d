/**
 * Completions for bash. The parser's own script does not find commands inside groups; its scripts for other shells do.
 *
 * @since 0.1.0
 */

/**
 * A command, by its path (`""` for the program, `run list` for a command in a group).
 *
 * @internal
 */
export interface Entry {
  readonly path: string
  /** The commands inside, for a group. */
  readonly inside: ReadonlyArray<string>
  /** How it is called, as the parser prints it: `list [--scope owned | accessible] <id>`. */
  readonly usage: string
}

const optionsOf = (usage: string): ReadonlyArray<string> =>
  Array.from(usage.matchAll(/(?<![\w-])(--?[a-z][a-z-]*)/gi), ([option]) => option)

/** The options that take one of a few words. */
const choicesOf = (usage: string): ReadonlyArray<readonly [option: string, words: string]> =>
  Array.from(
    usage.matchAll(/(?:(-\w), )?(--[a-z-]+) (\w+(?: \| \w+)+)/g),
    ([, short, long = "", words = ""]) => [long, short, words.replaceAll(" | ", " ")] as const
  ).flatMap(([long, short, words]) => [
    [long, words] as const,
    ...(short === undefined ? [] : [[short, words] as const])
  ])

const everywhere: ReadonlyArray<readonly [option: string, words: string]> = [
  ["--log-level", "all trace debug info warning error fatal none"],
  ["--completions", "bash fish sh zsh"]
]

/**
 * The script. Where a command has nothing to offer, files are: logs, prompts and directories are among them.
 *
 * @internal
 */
export const bash = (entries: ReadonlyArray<Entry>): string => {
  const root = entries.find(({ path }) => path === "")?.usage ?? ""
  const common = [...optionsOf(root), "--help"]
  const known = entries.filter(({ path }) => path !== "").map(({ path }) => `"${path}"`)
  const choices = entries.flatMap(({ path, usage }) =>
    [...choicesOf(usage), ...(path === "" ? everywhere : [])].map(([option, words]) =>
      `    ${path === "" ? "*" : `"${path}"`}":${option}") COMPREPLY=($(compgen -W "${words}" -- "$cur")); return ;;`
    )
  )
  const offers = entries.map(({ inside, path, usage }) => {
    const options = [...new Set([...(path === "" ? ["--completions", "--version"] : optionsOf(usage)), ...common])]
    return `    "${path}") inside="${inside.join(" ")}" options="${options.join(" ")}" ;;`
  })
  return `_tinker() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path= word before= inside= options=
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    # A value is no command, whatever it is called: --base-url local.
    case "$before" in ${optionsOf(root).join("|")}) before=; continue ;; esac
    before=$word
    case "\${path:+$path }$word" in
      ${known.join("|")}) path="\${path:+$path }$word" ;;
    esac
  done
  case "$path:$prev" in
${choices.join("\n")}
  esac
  case "$path" in
${offers.join("\n")}
  esac
  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$cur"))
  else COMPREPLY=($(compgen -W "$inside" -- "$cur")); fi
}
complete -o bashdefault -o default -F _tinker tinker
`
}
