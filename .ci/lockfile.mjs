// Takes registry addresses out of the lock file (version and integrity identify a package), or with --check fails on one.
import { readFileSync, writeFileSync } from "node:fs"
import { root } from "./packages.mjs"

const path = `${root}package-lock.json`
const lock = JSON.parse(readFileSync(path, "utf8"))
const addressed = Object.entries(lock.packages).filter(([, entry]) => /^https?:/.test(entry.resolved ?? ""))
if (process.argv.includes("--check")) {
  for (const [name] of addressed) {
    process.stderr.write(`package-lock.json names a registry for ${name}: npm run codegen\n`)
  }
  process.exit(addressed.length === 0 ? 0 : 1)
}
for (const [, entry] of addressed) delete entry.resolved
if (addressed.length > 0) writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`)
