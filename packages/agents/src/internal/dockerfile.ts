/** Files and variables that a Dockerfile sets; nothing is built. */

/** @internal */
export interface Dockerfile {
  /** Directory in which commands start. */
  readonly directory: string
  readonly env: Readonly<Record<string, string>>
  /** Where files of the build context go. */
  readonly copies: ReadonlyArray<{ readonly sources: ReadonlyArray<string>; readonly target: string }>
  /** Instructions that only a build can follow. */
  readonly unfollowed: ReadonlyArray<string>
}

/** Instructions without a meaning for commands that are run one by one. */
const ignored = new Set(["FROM", "CMD", "ENTRYPOINT", "EXPOSE", "LABEL", "MAINTAINER", "STOPSIGNAL", "SHELL", "USER"])

/** An absolute path, without `.`, `..` and double slashes. */
const absolute = (directory: string, path: string): string => {
  const parts: Array<string> = []
  for (const part of (path.startsWith("/") ? path : `${directory}/${path}`).split("/")) {
    if (part === "..") parts.pop()
    else if (part !== "" && part !== ".") parts.push(part)
  }
  return `/${parts.join("/")}`
}

const words = (text: string): ReadonlyArray<string> => text.match(/"[^"]*"|'[^']*'|[^\s"']+/g) ?? []
const bare = (word: string): string => word.replace(/^(["'])(.*)\1$/, "$2")

const variables = (rest: string): ReadonlyArray<readonly [string, string]> =>
  /^\w+=/.test(rest)
    ? Array.from(rest.matchAll(/(\w+)=("[^"]*"|'[^']*'|\S*)/g), ([, name = "", value = ""]) => [name, bare(value)])
    : [[rest.split(/\s/, 1)[0] ?? "", rest.replace(/^\S+\s*/, "")]]

/** @internal */
export const readDockerfile = (text: string): Dockerfile => {
  let directory = "/app"
  const env: Record<string, string> = {}
  const copies: Array<Dockerfile["copies"][number]> = []
  const unfollowed: Array<string> = []
  const lines = text.split(/\r?\n/).filter((line) => !/^\s*(?:#|$)/.test(line)).join("\n")
  for (const line of lines.replace(/\\[ \t]*\n/g, " ").split("\n")) {
    const [, name = "", rest = ""] = /^\s*(\w+)\s*(.*?)\s*$/.exec(line) ?? []
    const instruction = name.toUpperCase()
    if (instruction === "WORKDIR") directory = absolute(directory, bare(rest))
    else if (instruction === "ENV") Object.assign(env, Object.fromEntries(variables(rest)))
    else if ((instruction === "COPY" || instruction === "ADD") && !/^--|^\[|<<|:\/\/|[*?$]/.test(rest)) {
      const paths = words(rest).map(bare)
      const target = paths.at(-1) ?? ""
      copies.push({
        sources: paths.slice(0, -1),
        target: absolute(directory, target) + (/(?:^|\/)\.?$/.test(target) || paths.length > 2 ? "/" : "")
      })
    } else if (!ignored.has(instruction)) unfollowed.push(line.trim())
  }
  return { directory, env, copies, unfollowed }
}

/** The files of a build context by where a Dockerfile puts them, as absolute paths. @internal */
export const placed = (
  { copies }: Dockerfile,
  context: ReadonlyMap<string, Uint8Array>
): ReadonlyMap<string, Uint8Array> => {
  const found = new Map<string, Uint8Array>()
  for (const { sources, target } of copies) {
    for (const given of sources) {
      const source = absolute("/", given).slice(1)
      const file = context.get(source)
      if (file !== undefined) {
        found.set(target.endsWith("/") ? target + source.slice(source.lastIndexOf("/") + 1) : target, file)
      } else {
        const prefix = source === "" ? "" : `${source}/`
        for (const [path, data] of context) {
          if (path.startsWith(prefix)) found.set(`${target.replace(/\/$/, "")}/${path.slice(prefix.length)}`, data)
        }
      }
    }
  }
  return found
}
