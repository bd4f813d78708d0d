/**
 * A Postgres of this machine in a temporary directory: to try a cluster, and to test one. It needs the programs of a
 * Postgres package (`apt-get install postgresql`), and nothing of its service.
 *
 * @since 0.1.0
 */
import * as Command from "@effect/platform/Command"
import type * as CommandExecutor from "@effect/platform/CommandExecutor"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { freePort } from "./internal/node/freePort.js"

/**
 * Postgres is installed, and did not start.
 *
 * @since 0.1.0
 * @category errors
 */
export class PostgresFailed
  extends Schema.TaggedError<PostgresFailed>("@effect-tinker/cluster/NodePostgres/PostgresFailed")(
    "PostgresFailed",
    { program: Schema.String, description: Schema.String }
  )
{
  override get message(): string {
    return `${this.program} failed: ${this.description}`
  }
}

/** Where distributions keep its programs; Debian keeps them out of the path. */
const find = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const debian = "/usr/lib/postgresql"
  const versions = yield* Effect.orElseSucceed(fs.readDirectory(debian), (): Array<string> => [])
  const candidates = [
    ...versions.sort((a, b) => Number(b) - Number(a)).map((version) => `${debian}/${version}/bin`),
    "/usr/local/bin",
    "/usr/bin",
    "/opt/homebrew/bin"
  ]
  return yield* Effect.findFirst(candidates, (path) => Effect.orElseSucceed(fs.exists(`${path}/initdb`), () => false))
})

/** It refuses to run as root, and then runs as the user that its package has made. */
const run = Effect.fnUntraced(function*(program: string, ...args: ReadonlyArray<string>) {
  const isRoot = process.getuid?.() === 0
  const command = isRoot
    ? Command.make("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", program, ...args)
    : Command.make(program, ...args)
  const code = yield* Command.exitCode(command)
  if (code !== 0) return yield* new PostgresFailed({ program, description: `exit code ${code}` })
})

/**
 * Starts it until the scope closes, reachable from this machine only; none where it is not installed.
 *
 * @since 0.1.0
 * @category constructors
 */
export const start: Effect.Effect<
  Option.Option<Redacted.Redacted>,
  PostgresFailed | PlatformError.PlatformError,
  FileSystem.FileSystem | CommandExecutor.CommandExecutor | Scope.Scope
> = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const bin = yield* find
  if (Option.isNone(bin)) return Option.none()
  const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-postgres-" })
  // Another user writes there.
  yield* fs.chmod(root, 0o777)
  const data = `${root}/data`
  const port = yield* freePort
  yield* run(`${bin.value}/initdb`, "-D", data, "-A", "trust", "-U", "tinker", "--no-sync")
  const settings = `-p ${port} -k ${root} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200`
  yield* Effect.acquireRelease(
    run(`${bin.value}/pg_ctl`, "-D", data, "-l", `${root}/log`, "-o", settings, "-w", "start"),
    () => Effect.ignore(run(`${bin.value}/pg_ctl`, "-D", data, "-m", "immediate", "-w", "stop"))
  )
  return Option.some(Redacted.make(`postgres://tinker@127.0.0.1:${port}/postgres`))
})
