/**
 * Credentials on Node: the credentials file, and commands that print a credential.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { spawn } from "node:child_process"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import * as Credentials from "./Credentials.js"
import * as TinkerError from "./TinkerError.js"

/**
 * Where the credentials file is unless said otherwise.
 *
 * @since 0.1.0
 * @category configuration
 */
export const defaultPath = (): string => path.join(os.homedir(), ".tinker", "credentials.json")

/** Fields read from the file; `tinker auth login` and the Python SDK write more. */
const CredentialsFile = Schema.parseJson(Schema.Struct({
  version: Schema.optionalWith(Schema.Literal(1), { default: () => 1 as const }),
  default: Schema.optionalWith(Schema.String, { nullable: true }),
  keys: Schema.optionalWith(
    Schema.Record({ key: Schema.String, value: Schema.Struct({ key: Schema.Redacted(Schema.String) }) }),
    { default: () => ({}) }
  )
}))

const decode = Schema.decodeUnknown(CredentialsFile)

// The reason never quotes the file: it is full of keys.
const malformed = (file: string, description: string, cause?: unknown) =>
  new TinkerError.MalformedCredential({
    module: "NodeCredentials",
    method: "read",
    description: `${file}: ${description}`,
    ...(cause instanceof Error && "code" in cause ? { cause: String(cause.code) } : {})
  })

const isMissing = (error: unknown): boolean => error instanceof Error && "code" in error && error.code === "ENOENT"

/** Says that a file of secrets can be read by other users of the machine. */
const warnIfExposed = (file: string): Effect.Effect<void> =>
  Effect.promise(() => fs.stat(file).then(({ mode }) => mode & 0o077, () => 0)).pipe(
    Effect.flatMap((others) =>
      others === 0 || process.platform === "win32"
        ? Effect.void
        : Effect.logWarning(`${file} can be read by other users: run chmod 600 ${file}`)
    )
  )

/** The default key. One that points nowhere is none. */
const readDefaultKey = (
  file: string
): Effect.Effect<Option.Option<Redacted.Redacted>, TinkerError.MalformedCredential> =>
  Effect.tryPromise({ try: () => fs.readFile(file, "utf8"), catch: (error) => error }).pipe(
    Effect.matchEffect({
      onFailure: (error) =>
        isMissing(error)
          ? Effect.succeedNone
          : Effect.fail(malformed(file, "the credentials file cannot be read", error)),
      onSuccess: (text) =>
        decode(text).pipe(
          Effect.mapError(() => malformed(file, "not a credentials file of version 1: move it away and log in again")),
          Effect.zipLeft(warnIfExposed(file)),
          Effect.map(({ default: id = "", keys }) =>
            Object.hasOwn(keys, id) ? Option.fromNullable(keys[id]?.key) : Option.none()
          )
        )
    })
  )

const commandFailed = (description: string) =>
  new TinkerError.CredentialCommandFailed({ module: "Credentials", method: "command", description })

/** A command that hangs must not hang us. */
const commandTimeout = "60 seconds"

const maxOutput = 65_536

/**
 * Runs a shell command and returns its output. Neither output nor errors of the command appear in a failure: both may
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
          ? Effect.fail(commandFailed("the command printed too much"))
          : code === 0
          ? Effect.succeed(Buffer.concat(chunks).toString("utf8"))
          : Effect.fail(
            commandFailed(
              signal === null ? `the command exited with code ${code}` : `the command was killed by ${signal}`
            )
          )
      ))
    return Effect.sync(kill)
  }).pipe(
    Effect.timeoutFail({
      duration: commandTimeout,
      onTimeout: () => commandFailed(`the command did not finish within ${commandTimeout}`)
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
  Layer.succeed(Credentials.StoredKey, { read: (file) => readDefaultKey(Option.getOrElse(file, defaultPath)) })
)
