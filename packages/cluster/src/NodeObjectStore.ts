/**
 * An object store of this machine in a temporary directory: to try workers with a bucket, and to test them. It needs the
 * program of versitygw, which is one file: `go install github.com/versity/versitygw/cmd/versitygw@latest`, or a package.
 *
 * @since 0.2.0
 */
import * as Command from "@effect/platform/Command"
import type * as CommandExecutor from "@effect/platform/CommandExecutor"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Encoding from "effect/Encoding"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Net from "node:net"
import { freePort } from "./internal/node/freePort.js"
import type * as ObjectTrajectoryStore from "./ObjectTrajectoryStore.js"
import * as RunControl from "./RunControl.js"

/**
 * The program is there, and does not answer.
 *
 * @since 0.2.0
 * @category errors
 */
export class ObjectStoreFailed
  extends Schema.TaggedError<ObjectStoreFailed>("@effect-tinker/cluster/NodeObjectStore/ObjectStoreFailed")(
    "ObjectStoreFailed",
    { program: Schema.String, description: Schema.String }
  )
{
  override get message(): string {
    return `${this.program} failed: ${this.description}`
  }
}

const find = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const home = yield* Config.option(Config.string("HOME"))
  const path = yield* Config.withDefault(Config.string("PATH"), "")
  const folders = [
    ...path.split(":").filter((folder) => folder !== ""),
    ...Option.match(home, { onNone: () => [], onSome: (home) => [`${home}/go/bin`] }),
    "/usr/local/bin"
  ]
  return yield* Effect.findFirst(
    folders.map((folder) => `${folder}/versitygw`),
    (program) => Effect.orElseSucceed(fs.exists(program), () => false)
  )
}).pipe(Effect.orElseSucceed(() => Option.none<string>()))

const answers = (port: number) =>
  Effect.async<boolean>((resume) => {
    const socket = Net.connect(port, "127.0.0.1")
    socket.once("connect", () => {
      socket.destroy()
      resume(Effect.succeed(true))
    })
    socket.once("error", () => resume(Effect.succeed(false)))
  })

/**
 * Starts it until the scope closes, reachable from this machine only, with one bucket and random credentials; none where it
 * is not installed.
 *
 * @since 0.2.0
 * @category constructors
 */
export const start: (options?: {
  /** Where the program is. Defaults to one in the path, or where Go's tools put it. */
  readonly program?: string | undefined
}) => Effect.Effect<
  Option.Option<ObjectTrajectoryStore.Options & { readonly endpoint: string }>,
  ObjectStoreFailed | PlatformError.PlatformError,
  FileSystem.FileSystem | CommandExecutor.CommandExecutor | Scope.Scope
> = Effect.fnUntraced(function*(options = {}) {
  const found = options.program === undefined ? yield* find : Option.some(options.program)
  if (Option.isNone(found)) return Option.none()
  const program = found.value
  const fs = yield* FileSystem.FileSystem
  const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-objects-" })
  const bucket = "rollouts"
  yield* fs.makeDirectory(`${root}/data/${bucket}`, { recursive: true })
  yield* fs.makeDirectory(`${root}/sidecar`)
  const { bytes } = yield* RunControl.Entropy
  const secret = Encoding.encodeHex(yield* bytes(20))
  const port = yield* freePort
  const child = yield* Command.make(
    program,
    "--port",
    `127.0.0.1:${port}`,
    "--quiet",
    "posix",
    "--sidecar",
    `${root}/sidecar`,
    `${root}/data`
  ).pipe(
    Command.env({ ROOT_ACCESS_KEY_ID: "tinker", ROOT_SECRET_ACCESS_KEY: secret }),
    Command.start
  )
  // What nobody reads would stop it.
  for (const output of [child.stdout, child.stderr]) {
    yield* Effect.forkScoped(Effect.ignore(Stream.runDrain(output)))
  }
  yield* answers(port).pipe(
    Effect.delay("50 millis"),
    Effect.repeat({ until: (isUp) => isUp }),
    Effect.timeoutFail({
      duration: "30 seconds",
      onTimeout: () => new ObjectStoreFailed({ program, description: "it does not listen after 30 seconds" })
    })
  )
  return Option.some({
    endpoint: `http://127.0.0.1:${port}`,
    bucket,
    accessKeyId: "tinker",
    secretAccessKey: Redacted.make(secret)
  })
})
