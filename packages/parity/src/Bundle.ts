/**
 * A module of this package as one file that starts fast: for processes that are started and killed again and again.
 */
import { Path } from "@effect/platform"
import { Data, Effect } from "effect"
import { build } from "esbuild"
import { fileURLToPath } from "node:url"

export class BundleFailed extends Data.TaggedError("BundleFailed")<{ readonly reason: string }> {
  override get message(): string {
    return this.reason
  }
}

/**
 * @param module its address, e.g. `new URL("./child.ts", import.meta.url)`
 * @param external packages it finds when it runs, such as those with a binary
 */
export const bundle = Effect.fnUntraced(function*(
  module: URL,
  directory: string,
  external: ReadonlyArray<string> = []
) {
  const path = yield* Path.Path
  const source = fileURLToPath(module)
  const outfile = path.join(directory, `${path.basename(source, ".ts")}.mjs`)
  yield* Effect.tryPromise({
    try: () =>
      build({
        entryPoints: [source],
        outfile,
        bundle: true,
        minify: true,
        platform: "node",
        format: "esm",
        // an optional peer that none of these programs reads a file with
        external: ["hyparquet", ...external],
        conditions: ["@effect-tinker/source"],
        banner: {
          js:
            "import { createRequire as nodeRequire } from 'node:module'; const require = nodeRequire(import.meta.url);"
        },
        logLevel: "silent"
      }),
    catch: (cause) => new BundleFailed({ reason: String(cause) })
  })
  return outfile
})
