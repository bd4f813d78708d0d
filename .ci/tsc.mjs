// tsc -b with the native compiler, which takes less than half of the time. It is not part of `npm ci`: typescript-eslint
// needs the older one, and both write the same JavaScript, and declarations that say the same. So where the registry cannot
// be reached, the older one does. The project is given from the root: node .ci/tsc.mjs tsconfig.json
import { spawnSync } from "node:child_process"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { install } from "./install.mjs"
import { root } from "./packages.mjs"

const { missing, require = createRequire(import.meta.url) } = await install(".ci/compiler")
// Projects are built beside each other. With several checkers in each, much is checked more than once: 51 instead of 34 CPU-s.
const options = missing === undefined ? ["--checkers", "1"] : []
const tsc = join(dirname(require.resolve("typescript/package.json")), "bin/tsc")
const build = (...projects) =>
  spawnSync(process.execPath, [tsc, "-b", ...options, ...projects], { cwd: root, stdio: "inherit" }).status ?? 1

const projects = process.argv.slice(2)
let status = build(...projects)
// The package for Effect 4 is checked with its own Effect, where that can be installed.
const forEffect4 = { "tsconfig.json": "tsconfig.json", "tsconfig.build.json": "tsconfig.src.json" }
for (const project of projects.filter((project) => Object.hasOwn(forEffect4, project))) {
  if (status !== 0 || (await install("packages/effect4/effect")).missing !== undefined) continue
  status = build(`packages/effect4/${forEffect4[project]}`)
}
process.exit(status)
