// Packs each publishable package and verifies what users would install: publint and are-the-types-wrong.
import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { publint } from "publint"
import { formatMessage } from "publint/utils"
import { install } from "./install.mjs"
import { publishable, root } from "./packages.mjs"

execFileSync("npm", ["run", "--silent", "build"], { cwd: root, stdio: "inherit" })
const folder = mkdtempSync(join(tmpdir(), "effect-tinker-pack-"))
let failures = 0
try {
  // All of them at once: npm takes longer to start than to pack.
  const packed = new Map(
    JSON.parse(execFileSync(
      "npm",
      [
        "pack",
        "--json",
        "--pack-destination",
        folder,
        ...publishable.map(({ name }) => `--workspace=packages/${name}`)
      ],
      { cwd: root, encoding: "utf8" }
    )).map(({ filename, name }) => [name, join(folder, filename)])
  )
  // In this process, so that its compiler is loaded once.
  const { missing, require } = await install(".ci/exports")
  const types = missing === undefined ? await import(require.resolve("@arethetypeswrong/core")) : undefined
  for (const { manifest, name } of publishable) {
    const tarball = packed.get(manifest.name)
    const { messages } = await publint({
      pack: { tarball: Uint8Array.from(readFileSync(tarball)).buffer },
      strict: true
    })
    for (const message of messages) {
      failures++
      process.stderr.write(`publint, packages/${name}: ${formatMessage(message, manifest)}\n`)
    }
    const { problems = [], types: declared } =
      await types?.checkPackage(types.createPackageFromTarballData(new Uint8Array(readFileSync(tarball)))) ?? {}
    if (declared === false) problems.push({ kind: "NoTypes" })
    // Found by every resolver, the older ones included; that `require` gets an ES module is docs/effect-4.md's to say.
    for (const problem of problems.filter(({ kind }) => kind !== "CJSResolvesToESM")) {
      failures++
      process.stderr.write(`are-the-types-wrong, packages/${name}: ${JSON.stringify(problem)}\n`)
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
process.exit(failures === 0 ? 0 : 1)
