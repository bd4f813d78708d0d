// Publishes everything: the native kernels of each platform, then the packages that depend on them.
import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { root } from "../packages.mjs"
import { addDependencies, removeDependencies, writePackages } from "./packages.mjs"

const published = ({ name, version }) => {
  try {
    return execFileSync("npm", ["view", `${name}@${version}`, "version"], { encoding: "utf8", stdio: "pipe" })
      .trim() !== ""
  } catch {
    return false
  }
}

const folder = mkdtempSync(join(tmpdir(), "effect-tinker-native-"))
try {
  for (const cwd of writePackages(folder)) {
    if (published(JSON.parse(readFileSync(join(cwd, "package.json"), "utf8")))) continue
    execFileSync("npm", ["publish"], { cwd, stdio: "inherit" })
  }
  addDependencies()
  execFileSync("npx", ["--yes", "@changesets/cli@2.31.1", "publish"], { cwd: root, stdio: "inherit" })
} finally {
  removeDependencies()
  rmSync(folder, { recursive: true, force: true })
}
