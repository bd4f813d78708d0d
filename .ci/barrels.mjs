// Writes each package's index.ts from its modules, or with --check fails when one is out of date.
// Node-only and Promise entry points have paths of their own, so that the barrel stays portable.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { publishable } from "./packages.mjs"

const ownEntry = /^(Node[A-Z]|Promise$)/
const header = /^\/\*\*[\s\S]*?\*\//
let stale = 0

for (const { dir, manifest, name } of publishable) {
  const modules = readdirSync(`${dir}/src`)
    .filter((file) => /^[A-Z]\w*\.ts$/.test(file))
    .map((file) => file.slice(0, -3))
    .filter((module) => !ownEntry.test(module))
    .sort()
  const exports = modules.map((module) => {
    const doc = header.exec(readFileSync(`${dir}/src/${module}.ts`, "utf8"))?.[0] ?? "/**\n * @since 0.1.0\n */"
    return `${doc}\nexport * as ${module} from "./${module}.js"\n`
  })
  const text = exports.length === 0 ? `/**\n * @since ${manifest.version}\n */\nexport {}\n` : exports.join("\n")
  const index = `${dir}/src/index.ts`
  if (existsSync(index) && readFileSync(index, "utf8") === text) continue
  if (process.argv.includes("--check")) {
    stale++
    process.stderr.write(`packages/${name}/src/index.ts is out of date: npm run codegen\n`)
  } else writeFileSync(index, text)
}
process.exit(stale === 0 ? 0 : 1)
