import { assert, describe, it } from "@effect/vitest"
import { Effect, Encoding, Layer, Option, Redacted, TestClock } from "effect"
import { Credentials, TinkerConfig, TinkerError } from "effect-tinker"

const make = (options: TinkerConfig.Options, stored?: string, printed = "tml-printed") =>
  Effect.provide(
    Credentials.make,
    Layer.mergeAll(
      TinkerConfig.layer(options),
      Layer.succeed(Credentials.StoredKey, {
        read: () => Effect.succeed(Option.map(Option.fromNullable(stored), Redacted.make))
      }),
      Layer.succeed(Credentials.CommandRunner, { run: () => Effect.succeed(printed) })
    )
  )

const value = (effect: Credentials.Service["current"]) => Effect.map(effect, Option.map(Redacted.value))

describe("Credentials", () => {
  const order: ReadonlyArray<
    readonly [title: string, options: TinkerConfig.Options, stored: string | undefined, expected: string]
  > = [
    ["the key before everything", { apiKey: "tml-arg", credentialCommand: "c" }, "tml-stored", "tml-arg"],
    ["a token is a key", { apiKey: "eyJhbGci", credentialCommand: "c" }, undefined, "eyJhbGci"],
    ["the command before the store", { credentialCommand: "c" }, "tml-stored", "tml-printed"],
    ["the command for a key of a wrong form", { apiKey: "sk-1", credentialCommand: "c" }, undefined, "tml-printed"],
    ["the store last", {}, "tml-stored", "tml-stored"]
  ]
  for (const [title, options, stored, expected] of order) {
    it.effect(title, () =>
      Effect.gen(function*() {
        const credentials = yield* make(options, stored)
        assert.deepStrictEqual(yield* value(credentials.current), Option.some(expected))
      }))
  }

  it.effect("none at all, one of a wrong form, and a silent command are different errors with different advice", () =>
    Effect.gen(function*() {
      const missing = yield* Effect.flip(make({}))
      const malformed = yield* Effect.flip(make({ apiKey: "sk-secret" }, "tml-stored"))
      const stored = yield* Effect.flip(make({}, "old-format"))
      const silent = yield* Effect.flip((yield* make({ credentialCommand: "c" }, undefined, " \n")).current)
      const chatty = yield* Effect.flip((yield* make({ credentialCommand: "c" }, undefined, "key: tml-1")).current)
      assert.strictEqual(missing._tag, "MissingCredential")
      assert.include(missing.message, "tinker auth login")
      assert.strictEqual(malformed._tag, "MalformedCredential")
      assert.notInclude(malformed.message, "secret")
      assert.strictEqual(stored._tag, "MalformedCredential")
      assert.strictEqual(silent._tag, "CredentialCommandFailed")
      assert.strictEqual(chatty._tag, "MalformedCredential")
      assert.notInclude(chatty.message, "tml-1")
    }))

  it.effect("a token that has ended is refused before it is sent, as a key and as what the command prints", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("1 hour")
      const token = (exp: number) => `eyJ.${Encoding.encodeBase64Url(JSON.stringify({ exp }))}.sig`
      const old = token(3599)
      const key = yield* make({ apiKey: old })
      for (const credential of [key.current, key.enforced]) {
        const error = yield* Effect.flip(credential)
        assert.strictEqual(error._tag, "MalformedCredential")
        assert.include(error.message, "expired")
        assert.notInclude(error.message, old)
      }
      const printed = yield* Effect.flip((yield* make({ credentialCommand: "c" }, undefined, old)).current)
      assert.strictEqual(printed._tag, "CredentialCommandFailed")
      assert.include(printed.message, "expired")
      const good = token(3601)
      assert.deepStrictEqual(yield* value((yield* make({ apiKey: good })).current), Option.some(good))
    }))

  it.effect("a key that would break a header is refused before it gets into one", () =>
    Effect.gen(function*() {
      for (const apiKey of ["tml-a\nb", "tml-ä", "tml- "]) {
        assert.strictEqual((yield* Effect.flip(make({ apiKey })))._tag, "MalformedCredential")
      }
    }))

  it.effect("a server may insist on the command; a token is good enough for it", () =>
    Effect.gen(function*() {
      const both = yield* make({ apiKey: "tml-key", credentialCommand: "c" })
      assert.deepStrictEqual(yield* value(both.enforced), Option.some("tml-printed"))
      const token = yield* make({ apiKey: "eyJtoken", credentialCommand: "c" })
      assert.deepStrictEqual(yield* value(token.enforced), Option.some("eyJtoken"))
      const error = yield* Effect.flip((yield* make({ apiKey: "tml-key" })).enforced)
      assert.isTrue(error instanceof TinkerError.MissingCredential)
      assert.include(error.message, "TINKER_CREDENTIAL_CMD")
    }))

  it.effect("without a runtime for commands, that is what the error says", () =>
    Effect.gen(function*() {
      const credentials = yield* Effect.provide(Credentials.make, TinkerConfig.layer({ credentialCommand: "c" }))
      const error = yield* Effect.flip(credentials.current)
      assert.strictEqual(error._tag, "CredentialCommandFailed")
      assert.include(error.message, "NodeCredentials")
    }))
})
