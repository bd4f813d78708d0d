/**
 * Which credential we present, and where it comes from: the configured key, a command that prints one, or the stored
 * default of `tinker auth login`, in this order.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Tokens from "./internal/transport/tokens.js"
import * as TinkerConfig from "./TinkerConfig.js"
import * as TinkerError from "./TinkerError.js"

/**
 * Runs a shell command and returns what it printed. The default says that this runtime has no processes;
 * `NodeCredentials.layer` brings a real one.
 *
 * @since 0.1.0
 * @category configuration
 */
export class CommandRunner extends Context.Reference<CommandRunner>()("effect-tinker/Credentials/CommandRunner", {
  defaultValue: (): {
    readonly run: (command: string) => Effect.Effect<string, TinkerError.CredentialCommandFailed>
  } => ({
    run: () =>
      new TinkerError.CredentialCommandFailed({
        module: "Credentials",
        method: "command",
        description: "this runtime cannot run commands: provide NodeCredentials.layer"
      })
  })
}) {}

/**
 * Reads the stored default key. The default finds none; `NodeCredentials.layer` reads the credentials file.
 *
 * @since 0.1.0
 * @category configuration
 */
export class StoredKey extends Context.Reference<StoredKey>()("effect-tinker/Credentials/StoredKey", {
  defaultValue: (): {
    readonly read: (
      path: Option.Option<string>
    ) => Effect.Effect<Option.Option<Redacted.Redacted>, TinkerError.MalformedCredential>
  } => ({ read: () => Effect.succeedNone })
}) {}

/**
 * Gives out the credential for a request.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /** Tells tenants apart: the key, or the command. `None`: nothing is presented. */
  readonly identity: Option.Option<Redacted.Redacted>
  /** Where the credential comes from. */
  readonly source: "apiKey" | "command" | "stored" | "anonymous"
  /** The credential to present now. */
  readonly current: Effect.Effect<Option.Option<Redacted.Redacted>, TinkerError.TinkerError>
  /** The same for a server that insists on the credential command; a token (`eyJ…`) is good enough for it as well. */
  readonly enforced: Effect.Effect<Option.Option<Redacted.Redacted>, TinkerError.TinkerError>
}

/**
 * Where credentials come from.
 *
 * @since 0.1.0
 * @category services
 */
export class Credentials extends Context.Tag("effect-tinker/Credentials")<Credentials, Service>() {}

const isToken = (key: Redacted.Redacted): boolean => Redacted.value(key).startsWith("eyJ")

/**
 * Whether this looks like one of our credentials.
 *
 * @since 0.1.0
 * @category guards
 */
export const isWellFormed = (key: Redacted.Redacted): boolean =>
  // Anything but visible ASCII would be refused by the HTTP layer, in an error that quotes it.
  /^(tml-|eyJ)[\x21-\x7e]*$/.test(Redacted.value(key))

const malformed = (description: string) =>
  new TinkerError.MalformedCredential({ module: "Credentials", method: "resolve", description })

/**
 * Finds out which credential to use.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: Effect.Effect<
  Service,
  TinkerError.MissingCredential | TinkerError.MalformedCredential,
  TinkerConfig.TinkerConfig
> = Effect.gen(function*() {
  const config = yield* TinkerConfig.TinkerConfig
  const runner = yield* CommandRunner
  const store = yield* StoredKey

  const expiredKey = malformed(
    "the API key is a token that has expired: pass a fresh one, or set TINKER_CREDENTIAL_CMD to a command that prints one"
  )

  /** A token that has ended would only be refused by the server. */
  const unexpired = <E>(key: Redacted.Redacted, expired: Effect.Effect<never, E>) => {
    const end = isToken(key) ? Tokens.expiryOf(key) : undefined
    return end === undefined
      ? Effect.succeedSome(key)
      : Effect.flatMap(Clock.currentTimeMillis, (now) => now < end ? Effect.succeedSome(key) : expired)
  }

  const enforcedWith = (key: Option.Option<Redacted.Redacted>): Service["enforced"] => {
    if (Option.isSome(key) && isToken(key.value)) return unexpired(key.value, expiredKey)
    return Option.match(config.credentialCommand, {
      onNone: () =>
        new TinkerError.MissingCredential({
          module: "Credentials",
          method: "command",
          description: "your organization requires dynamic credentials: set TINKER_CREDENTIAL_CMD"
        }),
      onSome: run
    })
  }

  const run = (command: string): Service["current"] =>
    Effect.flatMap(runner.run(command), (output): Service["current"] => {
      const text = output.trim()
      return text === ""
        ? new TinkerError.CredentialCommandFailed({
          module: "Credentials",
          method: "command",
          description: "the command printed nothing"
        })
        : /^[\x21-\x7e]+$/.test(text)
        ? unexpired(
          Redacted.make(text),
          new TinkerError.CredentialCommandFailed({
            module: "Credentials",
            method: "command",
            description: "the command printed a token that has expired"
          })
        )
        : malformed("the credential command must print one credential and nothing else")
    })

  const static_ = (source: "apiKey" | "stored", key: Redacted.Redacted): Service => ({
    identity: Option.some(key),
    source,
    current: unexpired(key, expiredKey),
    enforced: enforcedWith(Option.some(key))
  })

  if (Option.isSome(config.apiKey) && isWellFormed(config.apiKey.value)) {
    return static_("apiKey", config.apiKey.value)
  }
  if (Option.isSome(config.credentialCommand)) {
    const current = run(config.credentialCommand.value)
    return {
      identity: Option.some(Redacted.make(config.credentialCommand.value)),
      source: "command",
      current,
      enforced: current
    }
  }
  if (Option.isSome(config.apiKey)) {
    return yield* malformed("the API key is malformed")
  }
  const stored = yield* store.read(config.credentialsPath)
  if (Option.isNone(stored)) {
    return yield* new TinkerError.MissingCredential({ module: "Credentials", method: "resolve" })
  }
  return isWellFormed(stored.value)
    ? static_("stored", stored.value)
    : yield* malformed("the stored key is malformed: log in again")
})

/**
 * No credential at all, for servers that want none.
 *
 * @since 0.1.0
 * @category constructors
 */
export const anonymous: Service = {
  identity: Option.none(),
  source: "anonymous",
  current: Effect.succeedNone,
  enforced: Effect.succeedNone
}

/**
 * Credentials as the configuration states them.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<
  Credentials,
  TinkerError.MissingCredential | TinkerError.MalformedCredential,
  TinkerConfig.TinkerConfig
> = Layer.effect(Credentials, make)

/**
 * No credential at all.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerAnonymous: Layer.Layer<Credentials> = Layer.succeed(Credentials, anonymous)
