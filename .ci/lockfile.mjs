// Takes registry addresses out of the lock files (version and integrity identify a package), or with --check fails on one.
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { root } from "./packages.mjs"

const outputs = new Set(["node_modules", "dist", "build", ".git"])

/** Those of the workspace, and of the directories that .ci/install.mjs installs. */
const lockFiles = (folder) =>
  readdirSync(`${root}${folder}`, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() && !outputs.has(entry.name)
      ? lockFiles(`${folder}${entry.name}/`)
      : entry.name === "package-lock.json"
      ? [`${folder}${entry.name}`]
      : []
  )

let found = 0
for (const path of lockFiles("")) {
  const lock = JSON.parse(readFileSync(`${root}${path}`, "utf8"))
  const addressed = Object.entries(lock.packages).filter(([, entry]) => /^https?:/.test(entry.resolved ?? ""))
  if (process.argv.includes("--check")) {
    found += addressed.length
    for (const [name] of addressed) {
      process.stderr.write(`${path} names a registry for ${name}: npm run codegen\n`)
    }
    continue
  }
  for (const [, entry] of addressed) delete entry.resolved
  if (addressed.length > 0) writeFileSync(`${root}${path}`, `${JSON.stringify(lock, null, 2)}\n`)
}
process.exit(found === 0 ? 0 : 1)
