/**
 * An object store of this machine, to test with: versitygw, which Go's tools fetch and build once where they are installed.
 */
import * as NodeObjectStore from "@effect-tinker/cluster/NodeObjectStore"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { existsSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const version = "v1.8.0"
const folder = fileURLToPath(new URL(`../../../../node_modules/.cache/versitygw/${version}`, import.meta.url))

/** Where the program is, after it has been built; none where there is no Go. */
const program = Effect.async<string | undefined>((resume) => {
  const path = join(folder, "versitygw")
  const done = () => resume(Effect.succeed(existsSync(path) ? path : undefined))
  if (existsSync(path)) return done()
  mkdirSync(folder, { recursive: true })
  execFile("go", ["install", `github.com/versity/versitygw/cmd/versitygw@${version}`], {
    env: { ...process.env, GOBIN: folder },
    timeout: 600_000
  }, done)
})

/** The store with one bucket, until the scope closes. */
export const start = Effect.flatMap(program, (program) => NodeObjectStore.start({ program }))
