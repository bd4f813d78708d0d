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
import * as Encoding from "effect/Encoding"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { freePort } from "./internal/node/freePort.js"
import * as RunControl from "./RunControl.js"

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
const run = Effect.fnUntraced(function*(asItsUser: boolean, program: string, ...args: ReadonlyArray<string>) {
  const command = asItsUser && process.getuid?.() === 0
    ? Command.make("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", program, ...args)
    : Command.make(program, ...args)
  const code = yield* Command.exitCode(command)
  if (code !== 0) return yield* new PostgresFailed({ program, description: `exit code ${code}` })
})

/**
 * A Postgres that runs.
 *
 * @since 0.2.0
 * @category models
 */
export interface Running {
  /** `postgres://USER:PASSWORD@HOST/DATABASE` */
  readonly url: Redacted.Redacted
  /** Ends all connections, as a crash does, and starts it again at the same address. */
  readonly restart: Effect.Effect<void, PostgresFailed | PlatformError.PlatformError>
}

/**
 * Starts it until the scope closes, reachable from this machine only, with a random password that the address has; none
 * where it is not installed.
 *
 * @since 0.2.0
 * @category constructors
 */
export const make: Effect.Effect<
  Option.Option<Running>,
  PostgresFailed | PlatformError.PlatformError,
  FileSystem.FileSystem | CommandExecutor.CommandExecutor | Scope.Scope
> = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const bin = yield* find
  if (Option.isNone(bin)) return Option.none()
  const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-postgres-" })
  const isRoot = process.getuid?.() === 0
  // It is made for its user only. Postgres is another one.
  if (isRoot) yield* run(false, "chown", "postgres:postgres", root)
  const password = Encoding.encodeHex(yield* (yield* RunControl.Entropy).bytes(32))
  const passwordFile = `${root}/password`
  yield* fs.writeFileString(passwordFile, `${password}\n`, { mode: 0o600 })
  if (isRoot) yield* run(false, "chown", "postgres:postgres", passwordFile)
  const data = `${root}/data`
  const port = yield* freePort
  yield* run(
    true,
    `${bin.value}/initdb`,
    "-D",
    data,
    "-A",
    "scram-sha-256",
    `--pwfile=${passwordFile}`,
    "-U",
    "tinker",
    "--no-sync"
  )
  yield* fs.remove(passwordFile)
  const settings = `-p ${port} -k ${root} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200`
  const begin = run(true, `${bin.value}/pg_ctl`, "-D", data, "-l", `${root}/log`, "-o", settings, "-w", "start")
  const stop = run(true, `${bin.value}/pg_ctl`, "-D", data, "-m", "immediate", "-w", "stop")
  yield* Effect.acquireRelease(begin, () => Effect.ignore(stop))
  const executor = yield* Effect.context<FileSystem.FileSystem | CommandExecutor.CommandExecutor>()
  return Option.some({
    url: Redacted.make(`postgres://tinker:${password}@127.0.0.1:${port}/postgres`),
    restart: Effect.provide(Effect.zipRight(stop, begin), executor)
  })
})

/**
 * The address of a Postgres that is started until the scope closes; see {@link make}.
 *
 * @since 0.1.0
 * @category constructors
 */
export const start: Effect.Effect<
  Option.Option<Redacted.Redacted>,
  PostgresFailed | PlatformError.PlatformError,
  FileSystem.FileSystem | CommandExecutor.CommandExecutor | Scope.Scope
> = Effect.map(make, Option.map(({ url }) => url))
