/**
 * The stored API keys of `tinker auth login`, in the file format that the Python SDK reads and writes as well.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ApiKeyDetails } from "./Account.js"
import type * as TinkerError from "./TinkerError.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/CredentialStore/${name}` as const

const nullish = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { nullable: true })

const key = { key: Schema.Redacted(Schema.String), name: Schema.String }

/**
 * A key the user pasted.
 *
 * @since 0.1.0
 * @category schemas
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
 * @since 0.1.0
 * @category schemas
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
 * @since 0.1.0
 * @category schemas
 */
export const StoredKey: Schema.Union<[typeof ManualKey, typeof GeneratedKey]> = Schema.Union(ManualKey, GeneratedKey)

/**
 * A key in the credentials file.
 *
 * @since 0.1.0
 * @category models
 */
export type StoredKey = typeof StoredKey.Type

/**
 * The whole file. Keys are named by the server's numeric id. Without arguments it is what a missing file means.
 *
 * @since 0.1.0
 * @category schemas
 */
export class StoredCredentials extends Schema.Class<StoredCredentials>(id("StoredCredentials"))({
  version: Schema.optionalWith(Schema.Literal(1), { default: () => 1 as const }),
  default: nullish(Schema.String),
  keys: Schema.optionalWith(Schema.Record({ key: Schema.String, value: StoredKey }), { default: () => ({}) })
}) {}

/**
 * Stores a key, replacing one of the same id.
 *
 * @since 0.1.0
 * @category combinators
 */
export const add = (self: StoredCredentials, id: string, key: StoredKey): StoredCredentials =>
  new StoredCredentials({ ...self, keys: { ...self.keys, [id]: key } })

/**
 * Makes a stored key the default one; an unknown id leaves things as they are.
 *
 * @since 0.1.0
 * @category combinators
 */
export const setDefault = (self: StoredCredentials, id: string): StoredCredentials =>
  Object.hasOwn(self.keys, id) ? new StoredCredentials({ ...self, default: id }) : self

/**
 * Removes a key, also as the default.
 *
 * @since 0.1.0
 * @category combinators
 */
export const remove = (self: StoredCredentials, id: string): StoredCredentials =>
  new StoredCredentials({
    default: self.default === id ? undefined : self.default,
    keys: Object.fromEntries(Object.entries(self.keys).filter(([other]) => other !== id))
  })

/**
 * The default key with its id. A default that points nowhere is none.
 *
 * @since 0.1.0
 * @category combinators
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
 * @since 0.1.0
 * @category models
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
 * @since 0.1.0
 * @category services
 */
export class CredentialStore extends Context.Tag("effect-tinker/CredentialStore")<CredentialStore, Service>() {}
