/**
 * A Postgres of this machine in a temporary directory, for tests and benchmarks. Where none is installed, nothing is.
 */
import { Command, FileSystem } from "@effect/platform"
import { Data, Effect, Option, Schedule } from "effect"
import { freePort } from "../chaos/processes.js"

export class PostgresFailed extends Data.TaggedError("PostgresFailed")<{ readonly reason: string }> {
  override get message(): string {
    return this.reason
  }
}

/** The directory of its programs: Debian keeps them out of the path. */
export const find = Effect.gen(function*() {
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
const asUser = (command: ReadonlyArray<string>): Command.Command => {
  const [program = "", ...args] = process.getuid?.() === 0
    ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", ...command]
    : command
  return Command.make(program, ...args)
}

const check = (command: Command.Command, what: string) =>
  Effect.scoped(Effect.gen(function*() {
    const child = yield* Command.start(Command.stdout(Command.stderr(command, "pipe"), "inherit"))
    const code = yield* child.exitCode
    if (code !== 0) return yield* new PostgresFailed({ reason: `${what} ended with ${code}` })
  }))

/** Its URL, until the scope closes; none where it is not installed. */
export const start = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const bin = yield* find
  if (Option.isNone(bin)) return Option.none<string>()
  const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-postgres-" })
  yield* fs.chmod(root, 0o777)
  const port = yield* freePort
  const data = `${root}/data`
  yield* Command.exitCode(
    asUser([`${bin.value}/initdb`, "-D", data, "-A", "trust", "-U", "tinker", "--no-sync"])
  )
  yield* Effect.acquireRelease(
    check(
      asUser([
        `${bin.value}/pg_ctl`,
        "-D",
        data,
        "-l",
        `${root}/log`,
        "-o",
        `-p ${port} -k ${root} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200`,
        "-w",
        "start"
      ]).pipe(Command.stdout("inherit")),
      "pg_ctl"
    ),
    () => Command.exitCode(asUser([`${bin.value}/pg_ctl`, "-D", data, "-m", "immediate", "stop"])).pipe(Effect.ignore)
  )
  yield* Command.exitCode(
    Command.make(`${bin.value}/pg_isready`, "-h", "127.0.0.1", "-p", String(port))
  ).pipe(
    Effect.filterOrFail((code) => code === 0, () => new PostgresFailed({ reason: "it does not accept connections" })),
    Effect.retry(Schedule.spaced("200 millis").pipe(Schedule.upTo("30 seconds")))
  )
  return Option.some(`postgres://tinker@127.0.0.1:${port}/postgres`)
})
