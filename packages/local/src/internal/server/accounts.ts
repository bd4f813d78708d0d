/**
 * Who is calling: API keys, the tokens exchanged for them, and the users behind them.
 */
import * as Entropy from "@effect-tinker/platform/Entropy"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Encoding from "effect/Encoding"
import * as Layer from "effect/Layer"
import * as ParseResult from "effect/ParseResult"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { HttpFailure } from "./message.js"
import { notFound, unauthorized } from "./message.js"

/** @internal */
export interface User {
  readonly urn: string
  readonly email: string
  readonly name: string
  readonly orgId: string
}

/** @internal */
export interface ApiKey {
  readonly key: Redacted.Redacted
  /** Name in listings. */
  readonly name?: string | undefined
  /** Keys with the same e-mail belong to the same user. */
  readonly email?: string | undefined
}

/** @internal */
export interface Caller extends User {
  readonly keyId: number
  readonly keyName: string
  /** The key itself, when the call came with one and not with a token. */
  readonly key: Redacted.Redacted | undefined
}

/** @internal */
export interface AccountsShape {
  readonly authenticate: (credential: string | undefined) => Effect.Effect<Caller, HttpFailure>
  /** A token that stands for the caller for an hour. */
  readonly issue: (caller: Caller) => Effect.Effect<string>
  readonly deleteKey: (caller: Caller) => Effect.Effect<void, HttpFailure>
  readonly user: (urn: string) => User | undefined
}

/** @internal */
export class Accounts extends Context.Tag("@effect-tinker/local/Accounts")<Accounts, AccountsShape>() {}

const issuer = "passport-local"
const orgId = "local"
const lifetimeSeconds = 3600

const userOf = (email: string): User => ({
  urn: `tml:organization_user:${email}`,
  email,
  name: email.split("@")[0] ?? email,
  orgId
})

const anyone = userOf("local@localhost")

const decodeClaims = ParseResult.decodeUnknownEither(Schema.parseJson(Schema.Struct({
  email: Schema.String,
  exp: Schema.Number,
  key_id: Schema.Number,
  key_name: Schema.String
})))

const utf8 = new TextEncoder()

const algorithm = { name: "HMAC", hash: "SHA-256" }

/** @internal */
export const layer = (apiKeys: ReadonlyArray<ApiKey> | undefined): Layer.Layer<Accounts> =>
  Layer.effect(
    Accounts,
    Effect.gen(function*() {
      const keys = new Map<string, Caller>()
      apiKeys?.forEach(({ email, key, name }, index) =>
        keys.set(Redacted.value(key), {
          ...userOf(email ?? anyone.email),
          keyId: index + 1,
          keyName: name ?? `key-${index + 1}`,
          key
        })
      )
      // Tokens live an hour and clients replace them by themselves: a restart may end them.
      const { bytes } = yield* Entropy.Entropy
      const secretBytes = Uint8Array.from(yield* bytes(32))
      const secret = yield* Effect.promise(() =>
        crypto.subtle.importKey("raw", secretBytes, algorithm, false, ["sign", "verify"])
      )
      const part = (value: unknown) => Encoding.encodeBase64Url(JSON.stringify(value))
      const sign = (text: string) =>
        Effect.map(
          Effect.promise(() => crypto.subtle.sign(algorithm, secret, utf8.encode(text))),
          (signature) => Encoding.encodeBase64Url(new Uint8Array(signature))
        )

      const verify = (text: string, signature: string) =>
        Either.match(Encoding.decodeBase64Url(signature), {
          onLeft: () => Effect.succeed(false),
          onRight: (bytes) =>
            Effect.promise(() => crypto.subtle.verify(algorithm, secret, Uint8Array.from(bytes), utf8.encode(text)))
        })

      // without a list of keys every key is good, and so is every token issued for one
      const known = (caller: Caller) =>
        apiKeys === undefined || Array.from(keys.values()).some((k) => k.keyId === caller.keyId)

      const fromToken = Effect.fnUntraced(function*(token: string) {
        const invalid = unauthorized("Invalid authentication token")
        const [head, claims, signature] = token.split(".")
        if (signature === undefined || !(yield* verify(`${head}.${claims}`, signature))) return yield* invalid
        const decoded = Either.flatMap(Encoding.decodeBase64UrlString(claims ?? ""), decodeClaims)
        if (Either.isLeft(decoded)) return yield* invalid
        const { email, exp, key_id: keyId, key_name: keyName } = decoded.right
        if (exp * 1000 <= (yield* Clock.currentTimeMillis)) {
          return yield* unauthorized("Authentication token expired")
        }
        const caller: Caller = { ...userOf(email), keyId, keyName, key: undefined }
        return known(caller) ? caller : yield* invalid
      })

      return Accounts.of({
        authenticate: Effect.fnUntraced(function*(credential) {
          if (credential === undefined || credential === "") return yield* unauthorized("Missing API key")
          const caller = keys.get(credential)
          if (caller !== undefined) return caller
          if (apiKeys === undefined && credential.startsWith("tml-")) {
            return { ...anyone, keyId: 1, keyName: "any key", key: Redacted.make(credential) }
          }
          return credential.startsWith("eyJ") ? yield* fromToken(credential) : yield* unauthorized("Invalid API key")
        }),
        issue: Effect.fnUntraced(function*(caller) {
          const now = Math.floor((yield* Clock.currentTimeMillis) / 1000)
          const claims = {
            iss: issuer,
            sub: caller.urn,
            org_id: caller.orgId,
            email: caller.email,
            key_id: caller.keyId,
            key_name: caller.keyName,
            iat: now,
            exp: now + lifetimeSeconds
          }
          const text = `${part({ alg: "HS256", typ: "JWT" })}.${part(claims)}`
          return `${text}.${yield* sign(text)}`
        }),
        deleteKey: (caller) =>
          Effect.suspend(() =>
            caller.key !== undefined && keys.delete(Redacted.value(caller.key))
              ? Effect.void
              : notFound("API key not found")
          ),
        user: (urn) => urn === anyone.urn ? anyone : Array.from(keys.values()).find((user) => user.urn === urn)
      })
    })
  )
