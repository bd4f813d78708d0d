// Builds the engine's native kernels from packages/local/native/kernels.c, with one version of one compiler, so that
// everyone gets the same bytes: npm run native. With --check it fails if those that are there are others.
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { install } from "../install.mjs"
import { root } from "../packages.mjs"

const compiler = "ziglang==0.17.0"
const directory = `${root}packages/local/native`
const source = `${directory}/kernels.c`

/** Kept in a virtual environment of its own: it has a hundred megabytes. */
const python = () => {
  const home = `${root}node_modules/.cache/${compiler.replace("==", "-")}`
  const found = `${home}/bin/python`
  if (!existsSync(`${home}/installed`)) {
    rmSync(home, { recursive: true, force: true })
    execFileSync("python3", ["-m", "venv", home], { stdio: "inherit" })
    execFileSync(found, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", compiler], {
      stdio: "inherit"
    })
    writeFileSync(`${home}/installed`, compiler)
  }
  return found
}

/** The directory of Node's headers. */
const headers = async () => {
  const { missing, require } = await install(".ci/native")
  if (missing !== undefined) process.exit(1)
  return require("node-api-headers").include_dir
}

const build = async () => {
  const folder = mkdtempSync(join(tmpdir(), "effect-tinker-native-"))
  try {
    const out = join(folder, "kernels.node")
    const hash = createHash("sha256").update(readFileSync(source)).digest("hex")
    execFileSync(python(), [
      ...["-m", "ziglang", "cc", "-target", "x86_64-linux-gnu", "-std=c17", "-O3", "-shared", "-fPIC", "-s"],
      ...["-ffreestanding", "-nostdlib", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"],
      ...["-isystem", await headers(), `-DSOURCE="${hash}"`, "-o", out, source]
    ], { stdio: "inherit" })
    return readFileSync(out)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const target = `${directory}/linux-x64.node`
const built = await build()
if (!process.argv.includes("--check")) writeFileSync(target, built)
else if (!existsSync(target) || !built.equals(readFileSync(target))) {
  process.stderr.write("packages/local/native/linux-x64.node was not built from kernels.c: npm run native\n")
  process.exit(1)
}
process.stdout.write(`packages/local/native/linux-x64.node: ${built.length} bytes\n`)
