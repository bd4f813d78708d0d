// Native kernels as npm packages, one for each platform, so that an install gets one file: optional dependencies with `os` and
// `cpu`. They are not workspaces, because npm refuses to install those of other platforms.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../packages.mjs"

const directory = `${root}packages/local/native`
const local = JSON.parse(readFileSync(`${root}packages/local/package.json`, "utf8"))

const platforms = readdirSync(directory).filter((file) => file.endsWith(".node")).map((file) => file.slice(0, -5))

const nameOf = (platform) => `@effect-tinker/native-${platform}`

/** Writes the packages into a folder; their directories. */
export const writePackages = (folder) =>
  platforms.map((platform) => {
    const [os, cpu] = platform.split("-")
    const target = join(folder, platform)
    mkdirSync(target, { recursive: true })
    copyFileSync(`${directory}/${platform}.node`, join(target, "kernels.node"))
    copyFileSync(`${root}LICENSE`, join(target, "LICENSE"))
    writeFileSync(
      join(target, "README.md"),
      `# ${
        nameOf(platform)
      }\n\nNative kernels of [@effect-tinker/local](${local.homepage}) for ${platform}, which installs them by itself.\n`
    )
    const { author, bugs, homepage, license, publishConfig, repository, version } = local
    const manifest = {
      name: nameOf(platform),
      version,
      description: `Native kernels of @effect-tinker/local for ${platform}`,
      ...{ homepage, repository, bugs, license, author },
      os: [os],
      cpu: [cpu],
      files: ["kernels.node"],
      publishConfig
    }
    writeFileSync(join(target, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`)
    return target
  })

// what looks for the kernels at run time
const users = ["local", "cli", "promise"].map((name) => `${root}packages/${name}/package.json`)

const line = `  "optionalDependencies": ${
  JSON.stringify(Object.fromEntries(platforms.map((platform) => [nameOf(platform), local.version])))
},\n`

const edit = (change) => {
  for (const path of users) {
    writeFileSync(`${path}.new`, change(readFileSync(path, "utf8").replace(line, "")))
    renameSync(`${path}.new`, path)
  }
}

/** Names the packages in what is published; a workspace could not be installed with them before they exist. */
export const addDependencies = () => edit((text) => text.replace(/^ {2}"version": .*\n/m, (version) => version + line))

/** Takes the names out again. */
export const removeDependencies = () => edit((text) => text)
