// Bundles the `tinker` command: a launcher that answers what needs nothing, and files for what commands have in common
// and for each of them, so that starting it reads what a command needs, in a few files instead of some hundred.
import { build } from "esbuild"
import { chmodSync, existsSync, readdirSync, rmSync } from "node:fs"
import { packages, root } from "./packages.mjs"

/** How the names of its files begin. */
const part = "tinker-"

const shared = {
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  minify: true,
  legalComments: "none",
  conditions: ["@effect-tinker/source"],
  logLevel: "warning"
}

/** The driver of the embedded database is a binary; it is loaded by the commands that need it, when they do. */
const binaries = {
  name: "binaries are loaded when they are needed",
  setup: ({ onLoad, onResolve }) => {
    onResolve(
      { filter: /^@libsql\/client$/ },
      ({ namespace, path }) => namespace === "binary" ? { path, external: true } : { path, namespace: "binary" }
    )
    onLoad({ filter: /.*/, namespace: "binary" }, ({ path }) => ({
      contents: `module.exports = require(${JSON.stringify(path)})`
    }))
  }
}

/** Writes it to a directory: `tinker.js`, and what it loads. */
export const bundleCommand = async (directory) => {
  // Of an earlier build: their names are made from what is in them.
  for (const name of existsSync(directory) ? readdirSync(directory) : []) {
    if (name.startsWith(part)) rmSync(`${directory}/${name}`)
  }
  await Promise.all([
    build({
      ...shared,
      entryPoints: { tinker: `${root}packages/cli/src/bin.ts` },
      outdir: directory,
      splitting: true,
      chunkNames: `${part}[name]-[hash]`,
      plugins: [binaries],
      external: ["pg-native"],
      // What is still CommonJS asks for Node's own modules at run time.
      banner: {
        js:
          "import { createRequire as nodeRequire } from \"node:module\"; const require = nodeRequire(import.meta.url);"
      }
    }),
    // What the embedded backend looks for beside its code: the program of its threads.
    build({
      ...shared,
      entryPoints: [`${root}packages/local/src/internal/engine/NodeEngineWorker.ts`],
      outfile: `${directory}/internal/engine/NodeEngineWorker.js`
    })
  ])
  chmodSync(`${directory}/tinker.js`, 0o755)
}

/** Said before anything else is run: what is inside may use what older versions of Node have not. */
const checkNode = (name, oldest) =>
  `{ const found = process.versions.node.split(".").map(Number); ` +
  `const differs = ${
    JSON.stringify(oldest.split(".").map(Number))
  }.map((part, i) => found[i] - part).find((d) => d !== 0); ` +
  `if (differs < 0) { process.stderr.write("error: ${name} needs Node ${oldest} or newer, and this is " + ` +
  `process.versions.node + ". Install a newer one: https://nodejs.org\\n"); process.exit(1) } }`

/** Writes the program behind `npm create effect-tinker`: one file, which needs nothing but Node. */
export const bundleCreate = async (directory) => {
  const { manifest } = packages.find(({ name }) => name === "create")
  await build({
    ...shared,
    entryPoints: [`${root}packages/create/src/bin.ts`],
    outfile: `${directory}/create.js`,
    banner: {
      js:
        "import { createRequire as nodeRequire } from \"node:module\"; const require = nodeRequire(import.meta.url);\n" +
        checkNode(manifest.name, manifest.engines.node.replace(">=", ""))
    }
  })
  chmodSync(`${directory}/create.js`, 0o755)
}
