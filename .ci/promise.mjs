// Bundles `@effect-tinker/promise`: everything that it stands on is inside, in files that its entries share, so that it has
// no dependency and runs beside any version of Effect. What is reachable from the entry for every runtime has nothing of Node.
import { build } from "esbuild"
import { copyFileSync, mkdirSync, readdirSync, rmSync } from "node:fs"
import { builtinModules } from "node:module"
import { root } from "./packages.mjs"

const isBuiltin = (path) => path.startsWith("node:") || builtinModules.includes(path)

/** Modules of Node: imported under their full name; required, by what is still CommonJS, when they are needed. */
const builtins = {
  name: "modules of Node",
  setup: ({ onLoad, onResolve }) => {
    onResolve({ filter: /^[a-z0-9_:/]+$/ }, ({ kind, path }) => {
      if (!isBuiltin(path)) return undefined
      const name = path.replace(/^node:/, "")
      return kind === "require-call" ? { path: name, namespace: "builtin" } : { path: `node:${name}`, external: true }
    })
    onLoad({ filter: /.*/, namespace: "builtin" }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)})`
    }))
  }
}

const shared = {
  bundle: true,
  platform: "neutral",
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  mainFields: ["module", "main"],
  conditions: ["@effect-tinker/source", "import"],
  plugins: [builtins],
  logLevel: "warning"
}

/**
 * Files of their own: the entries, and what the first of them passes on. Other bundlers look at whole files, and leave out
 * those of which nothing is used.
 */
const files = ["index", "local", "node", "connecting", "conversations", "training"]

/** Writes `dist` of the package: the entries, what they share, and declarations, in which there is no Effect. */
export const bundlePromise = async (directory, dist = `${directory}/dist`) => {
  rmSync(dist, { recursive: true, force: true })
  mkdirSync(dist, { recursive: true })
  await build({
    ...shared,
    entryPoints: Object.fromEntries(files.map((name) => [name, `${directory}/src/${name}.ts`])),
    outdir: dist,
    splitting: true,
    chunkNames: "part-[hash]"
  })
  // The program of the backend's threads, which it looks for beside its code.
  await build({
    ...shared,
    entryPoints: [`${root}packages/local/src/internal/engine/NodeEngineWorker.ts`],
    outfile: `${dist}/internal/engine/NodeEngineWorker.js`
  })
  for (const name of readdirSync(`${directory}/build/types`)) {
    if (name.endsWith(".d.ts")) copyFileSync(`${directory}/build/types/${name}`, `${dist}/${name}`)
  }
}
