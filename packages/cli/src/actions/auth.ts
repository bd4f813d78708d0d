/**
 * @since 0.1.0
 */
import * as ConsoleUrl from "effect-tinker/ConsoleUrl"
import * as Credentials from "effect-tinker/Credentials"
import * as CredentialStore from "effect-tinker/CredentialStore"
import * as NodeCredentials from "effect-tinker/NodeCredentials"
import * as RestClient from "effect-tinker/RestClient"
import * as TinkerConfig from "effect-tinker/TinkerConfig"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { hostname } from "node:os"
import { CliFailure } from "../CliFailure.js"
import { Connection } from "../Connection.js"
import * as live from "../internal/live.js"
import * as prompt from "../internal/prompt.js"
import { Output } from "../Output.js"
import { Stdio } from "../Stdio.js"

const keyName = `tinker-cli-${hostname().split(".")[0]?.trim() || "unknown"}`

/** The client of one key, whatever the environment says. */
const withKey = (key: Redacted.Redacted) =>
  Layer.scoped(RestClient.RestClient, RestClient.make).pipe(
    Layer.provide(Credentials.layer),
    Layer.provide(Layer.effect(
      TinkerConfig.TinkerConfig,
      Effect.map(TinkerConfig.TinkerConfig, (config) => ({ ...config, apiKey: Option.some(key) }))
    )),
    Layer.provide(Layer.mergeAll(live.config, live.network, live.policies))
  )

/** @internal */
export const login = Effect.fnUntraced(function*() {
  const store = yield* CredentialStore.CredentialStore
  const output = yield* Output
  const { stdin } = yield* Stdio
  const { apiKey } = yield* Connection
  if (Option.isSome(CredentialStore.defaultKey(yield* store.load))) {
    return yield* new CliFailure({ what: "You are logged in already", advice: "Run `tinker auth logout` first." })
  }
  if (stdin.isTTY && Option.isNone(apiKey)) yield* output.note(`Create an API key: ${ConsoleUrl.newApiKey(keyName)}`)
  const text = Option.isSome(apiKey)
    ? yield* live.readSecret("--api-key", apiKey.value)
    : yield* prompt.secret("Paste your API key: ")
  const key = Redacted.make(text)
  if (!Credentials.isWellFormed(key)) {
    return yield* new CliFailure({
      what: "This is not an API key",
      advice: "A key starts with `tml-`. Copy it from the console."
    })
  }
  // Nothing is stored unless the server knows the key.
  const info = yield* live.bounded(Effect.flatMap(RestClient.RestClient, (rest) => rest.getApiKey)).pipe(
    Effect.provide(withKey(key))
  )
  const id = String(info.keyId)
  yield* store.update((current) =>
    CredentialStore.setDefault(
      CredentialStore.add(
        current,
        id,
        new CredentialStore.ManualKey({ key, name: info.name, note: info.note, details: info.details })
      ),
      id
    )
  )
  const email = info.details.userDetails.email
  const organization = info.details.orgDetails.name
  yield* output.printRecord({
    json: { logged_in: true, email, organization, key_id: info.keyId, key_name: info.name, stored_in: store.path },
    properties: [
      ["Logged in as", `${email} (${organization})`],
      ["API Key", `${info.name} (${info.keyId})`],
      ["Stored in", store.path]
    ]
  })
}, Effect.provide(NodeCredentials.layerStore()))

/** @internal */
export const logout = Effect.fnUntraced(function*() {
  const store = yield* CredentialStore.CredentialStore
  const output = yield* Output
  const found = CredentialStore.defaultKey(yield* store.load)
  if (Option.isNone(found)) {
    return yield* new CliFailure({ what: "You are not logged in", advice: "Run `tinker auth login` to log in." })
  }
  const { id, stored } = found.value
  // A key made for this machine alone dies with the login; one the user pasted may be in use elsewhere.
  const revoked = stored.type !== "generated" ? Option.none() : Option.some(
    yield* live.bounded(Effect.flatMap(RestClient.RestClient, (rest) => rest.deleteApiKey)).pipe(
      Effect.provide(withKey(stored.key)),
      Effect.either
    )
  )
  yield* store.update((current) => CredentialStore.remove(current, id))
  const url = ConsoleUrl.apiKey(id)
  if (Option.isSome(revoked) && revoked.value._tag === "Left") {
    return yield* new CliFailure({
      what: `The login was removed here, but the key ${stored.name} (${id}) could not be deleted on the server`,
      advice: `Delete it at ${url}`,
      cause: revoked.value.left
    })
  }
  const active = Option.isNone(revoked)
  yield* output.printRecord({
    json: { logged_out: true, key_id: id, key_name: stored.name, key_active: active },
    properties: [
      ["Logged out of", stored.name],
      ["The key", active ? `is still active; delete it at ${url}` : "was deleted on the server"]
    ]
  })
}, Effect.provide(NodeCredentials.layerStore()))

/** @internal */
export const status = Effect.fnUntraced(function*() {
  const output = yield* Output
  const credentials = yield* Effect.either(Effect.map(Credentials.Credentials, ({ source }) => source)).pipe(
    Effect.provide(live.base),
    Effect.either,
    Effect.map((result) => result._tag === "Right" ? result.right : result)
  )
  const accessible = credentials._tag === "Left" ? credentials : yield* live.bounded(
    Effect.flatMap(RestClient.RestClient, (rest) => rest.getServerCapabilities)
  ).pipe(Effect.provide(live.rest), Effect.either)
  const source = credentials._tag === "Right" ? credentials.right : null
  yield* output.printRecord({
    json: { credentials_available: source !== null, source, accessible: accessible._tag === "Right" },
    properties: [
      [
        "Credentials",
        source === null ? "no" : source === "anonymous" ? live.sources[source] : `yes, ${live.sources[source]}`
      ],
      ["Tinker accessible", accessible._tag === "Right" ? "yes" : "no"]
    ]
  })
  if (accessible._tag === "Left") return yield* Effect.fail(accessible.left)
})
