/**
 * `tinker auth`, `whoami` and `audit`: who you are to the server, and what your organization did there.
 *
 * @since 0.1.0
 */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Credentials from "effect-tinker/Credentials"
import * as RestClient from "effect-tinker/RestClient"
import * as TinkerConfig from "effect-tinker/TinkerConfig"
import { WhoamiResponse } from "effect-tinker/wire/Account"
import type { AuditEventType } from "effect-tinker/wire/Audit"
import { AuditLogEntry } from "effect-tinker/wire/Audit"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { hostname } from "node:os"
import { CliFailure, usage } from "../internal/CliFailure.js"
import { Connection } from "../internal/connection.js"
import * as live from "../internal/connection.js"
import * as ConsoleUrl from "../internal/consoleUrl.js"
import * as CredentialStore from "../internal/CredentialStore.js"
import { Output } from "../terminal/Output.js"
import * as prompt from "../terminal/prompt.js"
import { Stdio } from "../terminal/Stdio.js"
import * as text from "../terminal/text.js"

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

const login = Effect.fnUntraced(function*() {
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
}, Effect.provide(CredentialStore.layer))

const logout = Effect.fnUntraced(function*() {
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
}, Effect.provide(CredentialStore.layer))

const status = Effect.fnUntraced(function*() {
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

const encodeWhoami = Schema.encodeSync(WhoamiResponse)

const showIdentity = Effect.fnUntraced(function*() {
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  // A server without tokens still knows whose key it is.
  const identity = yield* live.bounded(Effect.either(rest.whoami))
  if (identity._tag === "Right") {
    const me = identity.right
    return yield* output.printRecord({
      json: encodeWhoami(me),
      properties: [["Email", me.email ?? "-"], ["User", me.userUrn], ["Organization", me.orgUrn ?? "-"]]
    })
  }
  if (identity.left._tag !== "InvalidInput") return yield* identity.left
  const key = yield* live.bounded(rest.getApiKey)
  yield* output.printRecord({
    json: {
      email: key.details.userDetails.email,
      organization: key.details.orgDetails.name,
      key_id: key.keyId,
      key_name: key.name
    },
    properties: [
      ["Email", key.details.userDetails.email],
      ["Organization", key.details.orgDetails.name],
      ["API Key", `${key.name} (${key.keyId})`]
    ]
  })
}, Effect.provide(live.rest))

const encodeEntry = Schema.encodeSync(AuditLogEntry)

const showAudit = Effect.fnUntraced(function*(options: {
  readonly type: AuditEventType
  readonly day: Option.Option<string>
}) {
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const day = Option.isNone(options.day) ? undefined : yield* Option.match(
    Option.filter(
      DateTime.make(options.day.value),
      () => /^\d{4}-\d{2}-\d{2}$/.test(Option.getOrElse(options.day, () => ""))
    ),
    {
      onNone: () => Effect.fail(usage("--day is not a date", "Write it as 2026-01-31; a day is counted in UTC.")),
      onSome: (day) => Effect.succeed(DateTime.toUtc(day))
    }
  )
  const { entries } = yield* live.bounded(rest.getAuditLog({ eventType: options.type, day }))
  const items = entries.map((entry) => encodeEntry(entry))
  const subject = (entry: AuditLogEntry): string => {
    const { action, actor, resource } = entry.eventDetails
    const known = [actor, resource, action].filter((value) => value !== undefined)
    return entry.tinkerPath ?? entry.modelId ?? (known.length === 0 ? "-" : JSON.stringify(known))
  }
  yield* output.print({
    title: entries.length === 0
      ? "No audit entries on this day"
      : text.count(entries.length, "audit entry").replace("entrys", "entries"),
    columns: [{ header: "Time", keep: true }, { header: "Event" }, { header: "Subject" }],
    rows: entries.map((entry) => [DateTime.formatIso(entry.timestamp), entry.event, subject(entry)]),
    json: { entries: items, total: items.length },
    items
  })
}, Effect.provide(live.rest))

/** @internal */
export const auth = Command.make("auth").pipe(
  Command.withDescription("Log in and out."),
  Command.withSubcommands([
    Command.make("login", {}, login).pipe(
      Command.withDescription("Store an API key: paste it, pipe it in, or --api-key @FILE.")
    ),
    Command.make("logout", {}, logout).pipe(
      Command.withDescription("Forget the stored API key.")
    ),
    Command.make("status", {}, status).pipe(
      Command.withDescription("Check that there is a credential and that the server takes it.")
    ),
    Command.make("whoami", {}, showIdentity).pipe(
      Command.withDescription("Show whom the credential belongs to.")
    )
  ])
)

/** @internal */
export const whoami = Command.make("whoami", {}, showIdentity).pipe(
  Command.withDescription("Show whom the credential belongs to.")
)

/** @internal */
export const audit = Command.make("audit", {
  type: Options.choice("type", ["all", "checkpoints", "projects", "teams", "organizations"]).pipe(
    Options.withDefault("all" as const),
    Options.withDescription("Type of events to show. Default: all.")
  ),
  day: Options.text("day").pipe(
    Options.withDescription("Day to show, in UTC, such as 2026-01-31. Default: today."),
    Options.optional
  )
}, showAudit).pipe(
  Command.withDescription("Show the organization's audit log of a day (admins only).")
)
