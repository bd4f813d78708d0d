// Writes each package's index.ts from its modules, or with --check fails when one is out of date.
// Node-only and Promise entry points have paths of their own, so that the barrel stays portable; so have modules over an
// optional peer. A folder `wire` gets a barrel beside it: the sub-entry for wire types and for authors of servers.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { publishable } from "./packages.mjs"

/** What newcomers import first explains a wrong Effect version; see packages/tinker/src/requiresEffect3.ts. */
const explains = { tinker: "./requiresEffect3.js", local: "effect-tinker/requiresEffect3" }
const ownEntry = /^(Node[A-Z]|(Promise|AiSdk|EffectAi|Harbor|Mcp|VitestEvals)$)/
const header = /^\/\*\*[\s\S]*?\*\//
let stale = 0

const barrel = (dir, folder) =>
  readdirSync(`${dir}/${folder}`)
    .filter((file) => /^[A-Z]\w*\.ts$/.test(file))
    .map((file) => file.slice(0, -3))
    .filter((module) => !ownEntry.test(module))
    .sort()
    .map((module) => {
      const doc = header.exec(readFileSync(`${dir}/${folder}/${module}.ts`, "utf8"))?.[0] ?? "/**\n * @since 0.1.0\n */"
      return `${doc}\nexport * as ${module} from "./${folder === "src" ? "" : "wire/"}${module}.js"\n`
    })

/** Packages for people who do not write Effects: names without qualification, and an index by hand. */
const unqualified = new Set(["promise"])

for (const { dir, manifest, name } of publishable.filter(({ name }) => !unqualified.has(name))) {
  const barrels = [["index.ts", "src"]]
  if (existsSync(`${dir}/src/wire`)) barrels.push(["wire.ts", "src/wire"])
  for (const [file, folder] of barrels) {
    const exports = barrel(dir, folder)
    const first = Object.hasOwn(explains, name) ? `import "${explains[name]}"\n\n` : ""
    const text = exports.length === 0
      ? `/**\n * @since ${manifest.version}\n */\nexport {}\n`
      : `${first}${exports.join("\n")}`
    const path = `${dir}/src/${file}`
    if (existsSync(path) && readFileSync(path, "utf8") === text) continue
    if (process.argv.includes("--check")) {
      stale++
      process.stderr.write(`packages/${name}/src/${file} is out of date: npm run codegen\n`)
    } else writeFileSync(path, text)
  }
}
process.exit(stale === 0 ? 0 : 1)
