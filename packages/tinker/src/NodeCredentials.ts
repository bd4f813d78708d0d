/**
 * Credentials on Node: the credentials file, and commands that print a credential.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import { spawn } from "node:child_process"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import * as Credentials from "./Credentials.js"
import * as CredentialStore from "./CredentialStore.js"
import * as TinkerError from "./TinkerError.js"

/**
 * Where the credentials file is unless said otherwise.
 *
 * @since 0.1.0
 * @category configuration
 */
export const defaultPath = (): string => path.join(os.homedir(), ".tinker", "credentials.json")

const decode = Schema.decodeUnknown(Schema.parseJson(CredentialStore.StoredCredentials))
const encode = Schema.encodeSync(CredentialStore.StoredCredentials)

// The reason never quotes the file: it is full of keys.
const malformed = (file: string, description: string, cause?: unknown) =>
  new TinkerError.MalformedCredential({
    module: "CredentialStore",
    method: "load",
    description: `${file}: ${description}`,
    ...(cause instanceof Error && "code" in cause ? { cause: String(cause.code) } : {})
  })

const isMissing = (error: unknown): boolean => error instanceof Error && "code" in error && error.code === "ENOENT"

const load = (file: string): Effect.Effect<CredentialStore.StoredCredentials, TinkerError.MalformedCredential> =>
  Effect.tryPromise({ try: () => fs.readFile(file, "utf8"), catch: (error) => error }).pipe(
    Effect.matchEffect({
      onFailure: (error) =>
        isMissing(error)
          ? Effect.succeed(new CredentialStore.StoredCredentials())
          : Effect.fail(malformed(file, "the credentials file cannot be read", error)),
      onSuccess: (text) =>
        Effect.mapError(
          decode(text),
          () => malformed(file, "not a credentials file of version 1: move it away and log in again")
        )
    })
  )

const isDirectory = (directory: string) => fs.stat(directory).then((stat) => stat.isDirectory(), () => false)

// Only the owner may read, and no reader sees half a file: written beside it, then renamed over it.
const save = (file: string, text: string, mark: number) =>
  Effect.tryPromise({
    try: async () => {
      const directory = path.dirname(file)
      if (!(await isDirectory(directory))) {
        await fs.mkdir(directory, { recursive: true, mode: 0o700 })
        await fs.chmod(directory, 0o700)
      }
      const draft = path.join(directory, `.${path.basename(file)}.${process.pid}-${mark}`)
      try {
        await fs.writeFile(draft, text, { mode: 0o600, flag: "wx" })
        await fs.rename(draft, file)
      } catch (error) {
        await fs.rm(draft, { force: true })
        throw error
      }
    },
    catch: (error) => malformed(file, "the credentials file cannot be written", error)
  })

/**
 * The credentials file.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeStore = (file: string = defaultPath()): CredentialStore.Service => {
  const turn = Effect.unsafeMakeSemaphore(1)
  return {
    path: file,
    load: load(file),
    update: (f) =>
      load(file).pipe(
        Effect.map(f),
        Effect.tap((next) =>
          Effect.flatMap(Random.nextIntBetween(0, 2 ** 32), (mark) =>
            Effect.uninterruptible(save(file, `${JSON.stringify(encode(next), null, 2)}\n`, mark)))
        ),
        turn.withPermits(1)
      )
  }
}

const commandFailed = (description: string) =>
  new TinkerError.CredentialCommandFailed({ module: "Credentials", method: "command", description })

/** A command that hangs must not hang us. */
const commandTimeout = "60 seconds"

const maxOutput = 65_536

/**
 * Runs a shell command and answers its output. Neither output nor errors of the command appear in a failure: both may
 * hold secrets.
 *
 * @since 0.1.0
 * @category constructors
 */
export const runCommand = (command: string): Effect.Effect<string, TinkerError.CredentialCommandFailed> =>
  Effect.async<string, TinkerError.CredentialCommandFailed>((resume) => {
    const group = process.platform !== "win32"
    const child = spawn(command, {
      shell: true,
      detached: group,
      stdio: ["ignore", "pipe", "ignore"],
      windowsHide: true
    })
    // The shell's own children too: one that outlives it would hold our pipe, and with it the process.
    const kill = () => {
      child.stdout.destroy()
      try {
        if (group && child.pid !== undefined) process.kill(-child.pid, "SIGKILL")
        else child.kill("SIGKILL")
      } catch {
        // already gone
      }
    }
    const chunks: Array<Buffer> = []
    let size = 0
    child.stdout.on("data", (chunk: Buffer) => {
      size += chunk.length
      if (size > maxOutput) kill()
      else chunks.push(chunk)
    })
    child.on("error", () => resume(Effect.fail(commandFailed("the shell could not be started"))))
    child.on("close", (code, signal) =>
      resume(
        size > maxOutput
          ? Effect.fail(commandFailed("the command printed far too much"))
          : code === 0
          ? Effect.succeed(Buffer.concat(chunks).toString("utf8"))
          : Effect.fail(
            commandFailed(
              signal === null ? `the command ended with code ${code}` : `the command was ended by ${signal}`
            )
          )
      ))
    return Effect.sync(kill)
  }).pipe(
    Effect.timeoutFail({
      duration: commandTimeout,
      onTimeout: () => commandFailed(`the command did not end within ${commandTimeout}`)
    })
  )

/**
 * Lets `Credentials` run commands and read the credentials file.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<Credentials.CommandRunner | Credentials.StoredKey> = Layer.mergeAll(
  Layer.succeed(Credentials.CommandRunner, { run: runCommand }),
  Layer.succeed(Credentials.StoredKey, {
    read: (file) =>
      Effect.map(
        load(Option.getOrElse(file, defaultPath)),
        (file) => Option.map(CredentialStore.defaultKey(file), ({ stored }) => stored.key)
      )
  })
)

/**
 * The credentials file as a service, for those who change it.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerStore = (file?: string): Layer.Layer<CredentialStore.CredentialStore> =>
  Layer.sync(CredentialStore.CredentialStore, () => makeStore(file))
