// Writes the `tinker` command as one file, so that starting it opens one file instead of some hundred.
import { build } from "esbuild"
import { chmodSync } from "node:fs"
import { root } from "./packages.mjs"

const outfile = `${root}packages/cli/dist/tinker.js`
await build({
  entryPoints: [`${root}packages/cli/src/bin.ts`],
  outfile,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  minifySyntax: true,
  minifyWhitespace: true,
  keepNames: true,
  legalComments: "none",
  conditions: ["@effect-tinker/source"],
  // What is still CommonJS asks for Node's own modules at run time.
  banner: {
    js: "import { createRequire as nodeRequire } from \"node:module\"; const require = nodeRequire(import.meta.url);"
  },
  logLevel: "warning"
})
chmodSync(outfile, 0o755)
