// The API reference of each publishable package, from its JSDoc, into docs/api; and the site of the guides and the
// reference. `--site` builds the site alone. The examples in the JSDoc are compiled and run by examples.mjs.
import { spawnSync } from "node:child_process"
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { install } from "./install.mjs"
import { publishable, root } from "./packages.mjs"

const compiler = {
  noEmit: true,
  strict: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: true,
  moduleResolution: "NodeNext",
  module: "NodeNext",
  target: "ES2022",
  lib: ["ES2022", "DOM", "DOM.Iterable"],
  customConditions: ["@effect-tinker/source"],
  types: ["node"]
}

/**
 * A page as any reader of Markdown shows it: without the site generator's header, links as names, the module as its title
 * and everything else below that.
 */
const readable = (page) => {
  let isCode = false
  return page.replace(/^(---\s+)[\s\S]*?\n---\n+/, "").replace(/\{@link (?:\w+\.)*(\w+)\}/g, "`$1`")
    .replace(/^<h2 class="text-delta">Table of contents<\/h2>\n+/m, "")
    .split("\n").map((line) => {
      if (line.startsWith("```")) isCode = !isCode
      if (isCode) return line
      return /^## (.+) overview$/.test(line) ? line.slice(1, -" overview".length).trim() : line.replace(/^#+ /, "#$&")
    }).join("\n")
}

/** The first sentence about a module. */
const about = (page) => /^# .+\n\n([\s\S]*?)(?:[.:](?:\s|$)|\n\n)/m.exec(page)?.[1].replace(/\s+/g, " ") ?? ""

/**
 * Sources as docgen reads them. It sees a tag only at the beginning of a line; and examples that it knows as such it compiles
 * under settings of its own, whatever it is told, so they become a part of the description, which is how it shows them.
 */
const prepare = (dir) => {
  for (const file of readdirSync(dir, { recursive: true }).filter((file) => file.endsWith(".ts"))) {
    const text = readFileSync(`${dir}/${file}`, "utf8")
    const changed = text.replaceAll(/^\/\*\* (.+) @internal \*\/$/gm, "/**\n * $1\n *\n * @internal\n */")
      .replaceAll(/^( *\*) @example$/gm, "$1 **Example**\n$1")
    if (changed !== text) writeFileSync(`${dir}/${file}`, changed)
  }
}

const { missing, require } = await install(".ci/site")
if (missing !== undefined) process.exit(1)
const docgen = require.resolve("@effect/docgen")
const site = join(root, ".ci/site/site.mjs")

if (process.argv.includes("--site")) await import(site)

rmSync(`${root}docs/api`, { recursive: true, force: true })
let failed = spawnSync(process.execPath, [`${root}.ci/examples.mjs`], { stdio: "inherit" }).status === 0 ? 0 : 1
const index = ["# API reference", "", "Written by `npm run docs`, from the sources."]
// The SDK first, then what goes with it.
const sdkFirst = [...publishable].sort((a, b) => Number(a.name !== "tinker") - Number(b.name !== "tinker"))
for (const { dir, manifest, name } of sdkFirst) {
  // docgen reads its settings, and a home page that this project does not have, from files beside the sources
  const stage = `${dir}/build/docgen`
  rmSync(stage, { recursive: true, force: true })
  cpSync(`${dir}/src`, `${stage}/src`, { recursive: true })
  prepare(`${stage}/src`)
  writeFileSync(
    `${stage}/package.json`,
    JSON.stringify({ name: manifest.name, type: "module", homepage: "../../README.md" })
  )
  writeFileSync(
    `${stage}/docgen.json`,
    JSON.stringify({
      // What users import: modules named after a concept.
      exclude: ["src/internal/**/*.ts", "src/**/internal/**/*.ts", "src/[a-z]*.ts", "src/[a-z]*/**/*.ts"],
      outDir: "docs",
      parseCompilerOptions: compiler
    })
  )
  process.stdout.write(`\n${manifest.name}\n`)
  const { status } = spawnSync(process.execPath, [docgen], { cwd: stage, stdio: "inherit" })
  if (status !== 0) {
    failed++
    continue
  }
  index.push("", `## ${manifest.name}`, "", manifest.description, "", "| module | |", "| --- | --- |")
  const pages = readdirSync(`${stage}/docs/modules`, { recursive: true }).filter((file) => file.endsWith(".ts.md"))
    .sort()
  for (const file of pages) {
    const page = readable(readFileSync(`${stage}/docs/modules/${file}`, "utf8"))
    const target = `${name}/${file.replace(/\.ts\.md$/, ".md")}`
    mkdirSync(dirname(`${root}docs/api/${target}`), { recursive: true })
    writeFileSync(`${root}docs/api/${target}`, page)
    index.push(`| [${file.replace(/\.ts\.md$/, "")}](./${target}) | ${about(page)} |`)
  }
}
if (failed === 0) {
  writeFileSync(`${root}docs/api/README.md`, `${index.join("\n")}\n`)
  process.stdout.write("The API reference begins at docs/api/README.md\n")
  await import(site)
}
process.exit(failed === 0 ? 0 : 1)
