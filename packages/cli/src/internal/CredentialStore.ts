/**
 * The API keys stored by `tinker auth login`, in the file format of the Python SDK.
 *
 * @since 0.1.0
 */
import * as Permits from "@effect-tinker/platform/Permits"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as NodeCredentials from "effect-tinker/NodeCredentials"
import * as TinkerError from "effect-tinker/TinkerError"
import { ApiKeyDetails } from "effect-tinker/wire/Account"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"

const id = <const Name extends string>(name: Name) => `@effect-tinker/cli/CredentialStore/${name}` as const

const nullish = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { nullable: true })

const key = { key: Schema.Redacted(Schema.String), name: Schema.String }

/**
 * A key the user pasted.
 *
 * @internal
 */
export class ManualKey extends Schema.Class<ManualKey>(id("ManualKey"))({
  type: Schema.Literal("manual").pipe(Schema.propertySignature, Schema.withConstructorDefault(() => "manual" as const)),
  ...key,
  note: nullish(Schema.String),
  details: nullish(ApiKeyDetails)
}) {}

/**
 * A key that an older version made for this machine alone.
 *
 * @internal
 */
export class GeneratedKey extends Schema.Class<GeneratedKey>(id("GeneratedKey"))({
  type: Schema.Literal("generated").pipe(
    Schema.propertySignature,
    Schema.withConstructorDefault(() => "generated" as const)
  ),
  ...key,
  details: ApiKeyDetails
}) {}

/**
 * A key in the credentials file.
 *
 * @internal
 */
export const StoredKey: Schema.Union<[typeof ManualKey, typeof GeneratedKey]> = Schema.Union(ManualKey, GeneratedKey)

/**
 * A key in the credentials file.
 *
 * @internal
 */
export type StoredKey = typeof StoredKey.Type

/**
 * The whole file. Keys are named by the server's numeric id. Without arguments it is what a missing file means.
 *
 * @internal
 */
export class StoredCredentials extends Schema.Class<StoredCredentials>(id("StoredCredentials"))({
  version: Schema.optionalWith(Schema.Literal(1), { default: () => 1 as const }),
  default: nullish(Schema.String),
  keys: Schema.optionalWith(Schema.Record({ key: Schema.String, value: StoredKey }), { default: () => ({}) })
}) {}

/**
 * Stores a key, replacing one of the same id.
 *
 * @internal
 */
export const add = (self: StoredCredentials, id: string, key: StoredKey): StoredCredentials =>
  new StoredCredentials({ ...self, keys: { ...self.keys, [id]: key } })

/**
 * Makes a stored key the default one; an unknown id leaves things as they are.
 *
 * @internal
 */
export const setDefault = (self: StoredCredentials, id: string): StoredCredentials =>
  Object.hasOwn(self.keys, id) ? new StoredCredentials({ ...self, default: id }) : self

/**
 * Removes a key, also as the default.
 *
 * @internal
 */
export const remove = (self: StoredCredentials, id: string): StoredCredentials =>
  new StoredCredentials({
    default: self.default === id ? undefined : self.default,
    keys: Object.fromEntries(Object.entries(self.keys).filter(([other]) => other !== id))
  })

/**
 * The default key with its id. A default that points nowhere is none.
 *
 * @internal
 */
export const defaultKey = (
  self: StoredCredentials
): Option.Option<{ readonly id: string; readonly stored: StoredKey }> =>
  Option.flatMap(Option.fromNullable(self.default), (id) =>
    Option.map(
      Object.hasOwn(self.keys, id) ? Option.fromNullable(self.keys[id]) : Option.none(),
      (stored) => ({ id, stored })
    ))

/**
 * Reads and writes the credentials file.
 *
 * @internal
 */
export interface Service {
  /** Where it is, for messages. */
  readonly path: string
  readonly load: Effect.Effect<StoredCredentials, TinkerError.MalformedCredential>
  /** Reads, changes and replaces the whole, so that no reader ever sees half of it. */
  readonly update: (
    f: (current: StoredCredentials) => StoredCredentials
  ) => Effect.Effect<StoredCredentials, TinkerError.MalformedCredential>
}

/**
 * The credentials file as a service.
 *
 * @internal
 */
export class CredentialStore extends Context.Tag("@effect-tinker/cli/CredentialStore")<CredentialStore, Service>() {}

const decode = Schema.decodeUnknown(Schema.parseJson(StoredCredentials))
const encode = Schema.encodeSync(StoredCredentials)

// The reason never quotes the file: it is full of keys.
const malformed = (file: string, description: string, cause?: PlatformError) =>
  new TinkerError.MalformedCredential({
    module: "CredentialStore",
    method: "load",
    description: `${file}: ${description}`,
    ...(cause?._tag === "SystemError" ? { cause: cause.reason } : {})
  })

/**
 * The credentials file at a path.
 *
 * @internal
 */
export const make: (
  file: string
) => Effect.Effect<Service, never, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(function*(file) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const turn = yield* Permits.make(1)

  const load = fs.readFileString(file).pipe(
    Effect.matchEffect({
      onFailure: (error) =>
        error._tag === "SystemError" && error.reason === "NotFound"
          ? Effect.succeed(new StoredCredentials())
          : Effect.fail(malformed(file, "the credentials file cannot be read", error)),
      onSuccess: (text) =>
        Effect.mapError(
          decode(text),
          () => malformed(file, "not a credentials file of version 1: move it away and log in again")
        )
    })
  )

  // Only the owner may read, and no reader sees half a file: written beside it, then renamed over it.
  const save = Effect.fnUntraced(function*(credentials: StoredCredentials) {
    const directory = path.dirname(file)
    if (!(yield* fs.exists(directory))) {
      yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
      yield* fs.chmod(directory, 0o700)
    }
    const draft = path.join(directory, `.${path.basename(file)}.${yield* Effect.sync(() => randomUUID())}`)
    yield* fs.writeFileString(draft, `${JSON.stringify(encode(credentials), null, 2)}\n`, { mode: 0o600, flag: "wx" })
      .pipe(
        Effect.zipRight(fs.rename(draft, file)),
        Effect.tapError(() => Effect.ignore(fs.remove(draft, { force: true })))
      )
  }, Effect.mapError((error) => malformed(file, "the credentials file cannot be written", error)))

  return {
    path: file,
    load,
    update: (f) =>
      load.pipe(
        Effect.map(f),
        Effect.tap((next) => Effect.uninterruptible(save(next))),
        turn.withPermits(1)
      )
  }
})

/**
 * The credentials file in its usual place.
 *
 * @internal
 */
export const layer: Layer.Layer<CredentialStore, never, FileSystem.FileSystem | Path.Path> = Layer.effect(
  CredentialStore,
  Effect.suspend(() => make(NodeCredentials.defaultPath()))
)
