// Writes the version of the official SDK whose wire we speak into the pages that name it, or with --check fails when one
// names another.
import { readFileSync, writeFileSync } from "node:fs"
import { root } from "./packages.mjs"

const source = readFileSync(`${root}packages/tinker/src/TinkerConfig.ts`, "utf8")
const version = /export const wireVersion = "(\d+\.\d+)\.\d+"/.exec(source)[1]
const pages = {
  "docs/compared-with-python.md": /(?<=the official SDK, version )\d+\.\d+/g,
  "docs/from-python.md": /(?<=the official Python SDK \()\d+\.\d+/g
}
let stale = 0
for (const [page, named] of Object.entries(pages)) {
  const text = readFileSync(`${root}${page}`, "utf8")
  const written = text.replaceAll(named, version)
  if (!named.test(text)) throw new Error(`${page} does not name a version`)
  if (written === text) continue
  if (process.argv.includes("--check")) {
    stale++
    process.stderr.write(`${page} names another version than ${version}: npm run codegen\n`)
  } else writeFileSync(`${root}${page}`, written)
}
process.exit(stale === 0 ? 0 : 1)
