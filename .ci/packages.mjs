// What the other scripts here need to know about the workspace.
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("..", import.meta.url))

export const packages = readdirSync(`${root}packages`)
  .filter((name) => existsSync(`${root}packages/${name}/package.json`))
  .map((name) => ({
    name,
    dir: `${root}packages/${name}`,
    manifest: JSON.parse(readFileSync(`${root}packages/${name}/package.json`, "utf8"))
  }))

export const publishable = packages.filter((pkg) => pkg.manifest.private !== true)
