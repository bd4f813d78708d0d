/**
 * @since 0.1.0
 */
import { WhoamiResponse } from "effect-tinker/Account"
import { type AuditEventType, AuditLogEntry } from "effect-tinker/Audit"
import { SupportedModel } from "effect-tinker/Capabilities"
import * as RestClient from "effect-tinker/RestClient"
import { GetSamplerResponse } from "effect-tinker/Sampler"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { CliFailure, usage } from "../CliFailure.js"
import * as live from "../internal/live.js"
import * as text from "../internal/text.js"
import { Output } from "../Output.js"

const encodeModel = Schema.encodeSync(SupportedModel)
const encodeSampler = Schema.encodeSync(GetSamplerResponse)
const encodeEntry = Schema.encodeSync(AuditLogEntry)
const encodeWhoami = Schema.encodeSync(WhoamiResponse)

/** @internal */
export const models = Effect.fnUntraced(function*({ substring }: { readonly substring: Option.Option<string> }) {
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const { supportedModels } = yield* live.bounded(rest.getServerCapabilities)
  const wanted = Option.map(substring, (value) => value.toLowerCase())
  const models = supportedModels.filter((model) =>
    Option.isNone(wanted) || model.modelName?.toLowerCase().includes(wanted.value) === true
  )
  if (models.length === 0 && Option.isSome(substring)) {
    return yield* new CliFailure({
      what: `No model's name contains ${JSON.stringify(substring.value)}`,
      advice: "`tinker models` shows every model you can use."
    })
  }
  const items = models.map((model) => encodeModel(model))
  yield* output.print({
    title: text.count(models.length, "model"),
    columns: [
      { header: "Model", keep: true },
      { header: "Max Context", align: "right" },
      { header: "Trainable" },
      { header: "Sampleable" }
    ],
    rows: models.map((model) => [
      model.modelName ?? "-",
      model.maxContextLength === undefined ? "-" : String(model.maxContextLength),
      text.yesNo(model.trainable),
      text.yesNo(model.sampleable)
    ]),
    json: { models: items, total: items.length },
    items
  })
}, Effect.provide(live.rest))

/** @internal */
export const sampler = Effect.fnUntraced(function*({ samplerId }: { readonly samplerId: string }) {
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const found = yield* live.bounded(rest.getSampler(samplerId))
  yield* output.printRecord({
    json: encodeSampler(found),
    properties: [
      ["Sampler ID", found.samplerId],
      ["Base Model", found.baseModel],
      ["Checkpoint", found.modelPath ?? "none"]
    ]
  })
}, Effect.provide(live.rest))

/** @internal */
export const whoami = Effect.fnUntraced(function*() {
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

/** @internal */
export const audit = Effect.fnUntraced(function*(options: {
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
