// Writes what is published beside the compiled modules: the `tinker` command, the page of the studio, and the files that
// they look for.
import { cpSync } from "node:fs"
import { bundleCommand, bundleCreate } from "./command.mjs"
import { root } from "./packages.mjs"
import { bundlePromise } from "./promise.mjs"

await bundleCommand(`${root}packages/cli/dist`)
await bundleCreate(`${root}packages/create/dist`)
await bundlePromise(`${root}packages/promise`)
// The page of the studio, for its own package and for the command that serves it.
await import("../packages/studio/page/build.mjs")
cpSync(`${root}packages/studio/assets`, `${root}packages/cli/assets`, { recursive: true })
// What the embedded backend looks for beside its code: the files of `local/chat`, and the native kernels, which are published
// as packages of their own.
for (const name of ["models", "native"]) {
  for (const user of ["cli", "promise"]) {
    cpSync(`${root}packages/local/${name}`, `${root}packages/${user}/${name}`, { recursive: true })
  }
}
