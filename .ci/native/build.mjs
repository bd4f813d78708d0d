// Builds the engine's native kernels from packages/local/native/kernels.c for every platform, with one version of one cross
// compiler, so that everyone gets the same bytes: npm run native. With --check it fails if those that are there are others.
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
const table = `${root}packages/local/src/internal/engine/nativeHashes.ts`

/** Node's names of platforms, and the compiler's. The oldest systems on which Node 20 runs. */
const targets = {
  "darwin-arm64": "aarch64-macos.11.0-none",
  "darwin-x64": "x86_64-macos.10.15-none",
  "linux-arm64": "aarch64-linux-gnu",
  "linux-x64": "x86_64-linux-gnu",
  "win32-x64": "x86_64-windows-gnu"
}

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

/** Node's headers: their directory, and the lists of what the program itself exports. */
const headers = async () => {
  const { missing, require } = await install(".ci/native")
  if (missing !== undefined) process.exit(1)
  const { def_paths, include_dir } = require("node-api-headers")
  return { directory: include_dir, exported: def_paths }
}

const zig = (...args) => execFileSync(python(), ["-m", "ziglang", ...args], { stdio: "inherit" })

/** What a library says about the symbols of the program that loads it. */
const linking = (platform, folder, exported) => {
  if (platform.startsWith("linux")) return ["-nostdlib", "-fPIC"]
  if (platform.startsWith("darwin")) return ["-Wl,-undefined,dynamic_lookup", "-Wl,-install_name,@rpath/kernels.node"]
  const library = join(folder, "node.lib")
  zig("dlltool", "-m", "i386:x86-64", "-D", "node.exe", "-d", exported.js_native_api_def, "-l", library)
  return ["-nostdlib", "-mno-stack-arg-probe", library]
}

const build = async (platform, target) => {
  const folder = mkdtempSync(join(tmpdir(), "effect-tinker-native-"))
  try {
    const out = join(folder, "kernels.node")
    const hash = createHash("sha256").update(readFileSync(source)).digest("hex")
    const { directory: include, exported } = await headers()
    zig(
      ...["cc", "-target", target, "-std=c17", "-O3", "-shared", "-s", "-ffreestanding", "-ffp-contract=off"],
      ...["-Wall", "-Wextra", "-Werror", "-Wno-psabi", ...linking(platform, folder, exported)],
      ...["-isystem", include, `-DSOURCE="${hash}"`, "-o", out, source]
    )
    return readFileSync(out)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const check = process.argv.includes("--check")
const stale = []
const place = (path, content) => {
  if (!check) writeFileSync(path, content)
  else if (!existsSync(path) || !readFileSync(path).equals(Buffer.from(content))) stale.push(path)
}

const hashes = []
for (const [platform, target] of Object.entries(targets)) {
  const built = await build(platform, target)
  place(`${directory}/${platform}.node`, built)
  hashes.push(`  "${platform}": "${createHash("sha256").update(built).digest("hex")}"`)
  process.stdout.write(`packages/local/native/${platform}.node: ${built.length} bytes\n`)
}
place(
  table,
  `/**
 * SHA-256 of the native kernels by platform, written by \`npm run native\`: nothing else is loaded.
 *
 * @internal
 */
export const nativeHashes: Readonly<Record<string, string>> = {
${hashes.join(",\n")}
}
`
)
for (const path of stale) process.stderr.write(`${path} was not built from kernels.c: npm run native\n`)
process.exit(stale.length === 0 ? 0 : 1)
