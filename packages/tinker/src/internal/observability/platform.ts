/**
 * The system we run on, as Python's `platform.system()` would name it.
 *
 * @since 0.1.0
 */

const names: Readonly<Record<string, string>> = { linux: "Linux", darwin: "Darwin", win32: "Windows" }

const agents: ReadonlyArray<readonly [RegExp, string]> = [
  [/windows/i, "Windows"],
  [/mac os|macintosh|iphone|ipad/i, "Darwin"],
  [/linux|android/i, "Linux"]
]

interface Host {
  readonly process?: { readonly platform?: string }
  readonly navigator?: { readonly userAgent?: string }
}

/**
 * Node, Bun and Deno say it; a browser hints at it.
 *
 * @internal
 */
export const system = ({ navigator, process }: Host = globalThis): string => {
  const platform = process?.platform
  if (platform !== undefined && platform !== "browser") return names[platform] ?? platform
  const agent = navigator?.userAgent ?? ""
  return agents.find(([pattern]) => pattern.test(agent))?.[1] ?? "Unknown"
}
