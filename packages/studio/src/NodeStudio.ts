/**
 * The studio behind a port of this machine, for Node.
 *
 * @since 0.1.0
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpServerError from "@effect/platform/HttpServerError"
import type * as Path from "@effect/platform/Path"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Http from "node:http"
import { fileURLToPath } from "node:url"
import * as Studio from "./Studio.js"

/**
 * The files of the page are not where they should be.
 *
 * @since 0.1.0
 * @category errors
 */
export class PageMissing extends Schema.TaggedError<PageMissing>("@effect-tinker/studio/NodeStudio/PageMissing")(
  "PageMissing",
  { directory: Schema.String }
) {
  override get message(): string {
    return `the page is not in ${this.directory}: build it with \`npm run page -w @effect-tinker/studio\``
  }
}

/**
 * Where tokens come from: the platform's cryptographic generator, unless a test fixes it.
 *
 * @since 0.1.0
 * @category services
 */
export class RandomBytes extends Context.Reference<RandomBytes>()("@effect-tinker/studio/NodeStudio/RandomBytes", {
  defaultValue: (): { readonly take: (count: number) => Effect.Effect<Uint8Array> } => ({
    take: (count) => Effect.sync(() => crypto.getRandomValues(new Uint8Array(count)))
  })
}) {}

/**
 * Directory to show, and where to listen.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options extends Omit<Studio.Options, "page" | "token"> {
  /** Defaults to any free port. */
  readonly port?: number | undefined
}

/**
 * A studio that is listening.
 *
 * @since 0.1.0
 * @category models
 */
export interface Running {
  /** The address without the key. */
  readonly origin: string
  /** The address to open, with the key in its fragment, which browsers do not send. */
  readonly url: Redacted.Redacted
  readonly studio: Studio.Studio
}

/** Beside the code, from source as from `dist`. */
const assets = fileURLToPath(new URL("../assets", import.meta.url))

const readPage = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const read = (name: string) => fs.readFileString(`${assets}/${name}`)
  return { html: yield* read("index.html"), script: yield* read("studio.js"), style: yield* read("studio.css") }
}).pipe(Effect.mapError(() => new PageMissing({ directory: assets })))

/**
 * Serves a studio on loopback until the scope closes. With a `CheckpointChat` in the context its page has a chat, with `Grades` a
 * page to grade on, with a `DataCheck` one for training data, and with `Tokenizers` it shows what tokens say.
 *
 * @since 0.1.0
 * @category constructors
 */
export const serve: (
  options: Options
) => Effect.Effect<
  Running,
  PageMissing | HttpServerError.ServeError,
  FileSystem.FileSystem | Path.Path | Scope.Scope
> = Effect.fnUntraced(function*({ port, ...options }) {
  const page = yield* readPage
  const bytes = yield* (yield* RandomBytes).take(32)
  const token = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")
  const studio = yield* Studio.make({ ...options, page, token: Redacted.make(token) })
  const server = yield* NodeHttpServer.make(() => Http.createServer(), { port: port ?? 0, host: "127.0.0.1" })
  yield* server.serve(studio.app)
  const bound = server.address._tag === "TcpAddress" ? server.address.port : 0
  const origin = `http://127.0.0.1:${bound}`
  return { origin, url: Redacted.make(`${origin}/#token=${token}`), studio }
})
