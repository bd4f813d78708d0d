// Publishes everything: the native kernels of each platform, then the packages that depend on them, and tags what is new.
// What is there already is left alone, so that a release that broke off is finished by running it again. Options are handed
// on to `npm publish`.
import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { publishable, root } from "../packages.mjs"
import { addDependencies, removeDependencies, writePackages } from "./packages.mjs"

const options = process.argv.slice(2)

const published = ({ name, version }) => {
  try {
    return execFileSync("npm", ["view", `${name}@${version}`, "version"], { encoding: "utf8", stdio: "pipe" })
      .trim() !== ""
  } catch {
    return false
  }
}

const publish = (cwd) => {
  const manifest = JSON.parse(readFileSync(join(cwd, "package.json"), "utf8"))
  if (published(manifest)) return
  // The access is said here too: npm looks at it before it looks into the package.
  execFileSync("npm", ["publish", "--access=public", ...options], { cwd, stdio: "inherit" })
}

const folder = mkdtempSync(join(tmpdir(), "effect-tinker-native-"))
try {
  for (const cwd of writePackages(folder)) publish(cwd)
  addDependencies()
  for (const { dir } of publishable) publish(dir)
} finally {
  removeDependencies()
  rmSync(folder, { recursive: true, force: true })
}
// Each new version by its name: the workflow reads them here, and makes a release of each.
execFileSync("npx", ["--yes", "@changesets/cli@2.31.1", "tag"], { cwd: root, stdio: "inherit" })
