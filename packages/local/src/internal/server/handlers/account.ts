/**
 * Usage and the audit log.
 */
import * as Api from "effect-tinker/wire/Api"
import { AuditLogEntry, AuditLogResponse } from "effect-tinker/wire/Audit"
import * as Billing from "effect-tinker/wire/Billing"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { Accounts } from "../accounts.js"
import type { Entry } from "../auditLog.js"
import { AuditLog, dayOf } from "../auditLog.js"
import type { CheckpointRecord } from "../checkpoints.js"
import { Checkpoints } from "../checkpoints.js"
import type { Usage } from "../ledger.js"
import { hourMillis, Ledger } from "../ledger.js"
import { badRequest } from "../message.js"
import { route } from "../router.js"
import { Sessions } from "../sessions.js"

const gigabyte = 2 ** 30
const fourteenDays = 14 * 24 * hourMillis

const eventInfo = ({ count, kind }: Usage): Billing.BillingEventInfo => {
  switch (kind) {
    case "training":
      return new Billing.TrainingBillingEvent({ tokenCount: count })
    case "sampling_prefill":
      return new Billing.SamplingPrefillBillingEvent({ cached: false, tokenCount: count })
    case "sampling_sample":
      return new Billing.SamplingSampleBillingEvent({ tokenCount: count })
    case "checkpoint":
      return new Billing.CheckpointBillingEvent({ count })
  }
}

/** Gigabyte-hours of what is stored now, in the hours it has been there. */
const storageUsage = (records: ReadonlyArray<CheckpointRecord>, start: number, now: number): number =>
  records.reduce((sum, { sizeBytes, time }) => {
    const from = Math.max(time, start)
    const to = Math.min(now, start + hourMillis)
    return to > from ? sum + (sizeBytes / gigabyte) * ((to - from) / hourMillis) : sum
  }, 0)

/** @internal */
export const accountRoutes = [
  route(Api.billingUsage, (request, { caller }) =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const ledger = yield* Ledger
      const sessions = yield* Sessions
      const now = yield* Clock.currentTimeMillis
      const from = request.startingOn.epochMillis
      const to = request.endingBefore.epochMillis
      if (from % hourMillis !== 0 || to % hourMillis !== 0) {
        return yield* badRequest("starting_on and ending_before must be aligned to UTC hours")
      }
      if (to <= from || to - from > fourteenDays) {
        return yield* badRequest("ending_before must be after starting_on, by at most 14 days")
      }
      if (from > now) return yield* badRequest("starting_on must not be in the future")
      const own = (yield* checkpoints.list).filter(({ owner }) => owner === caller.urn)
      const data: Array<Billing.BillingUsageEvent> = []
      const envelope = (start: number) => ({
        bucketStart: DateTime.unsafeMake(start),
        bucketEnd: DateTime.unsafeMake(start + hourMillis),
        userId: caller.urn,
        userName: caller.name
      })
      const used = new Map(ledger.hours(from, to).map(({ start, usage }) => [start, usage]))
      for (let start = from; start < to && start <= now; start += hourMillis) {
        for (const usage of used.get(start) ?? []) {
          if (usage.owner !== caller.urn) continue
          data.push(
            new Billing.BillingUsageEvent({
              ...envelope(start),
              baseModel: usage.baseModel,
              ...(usage.sessionId === undefined ? {} : { sessionId: usage.sessionId }),
              ...(usage.projectId === undefined ? {} : { projectId: usage.projectId }),
              eventInfo: eventInfo(usage)
            })
          )
        }
        const gigabyteHours = storageUsage(own, start, now)
        if (gigabyteHours > 0) {
          data.push(
            new Billing.BillingUsageEvent({
              ...envelope(start),
              eventInfo: new Billing.StorageBillingEvent({ gigabyteHours })
            })
          )
        }
      }
      const ids = new Set(data.flatMap(({ sessionId }) => sessionId === undefined ? [] : [sessionId]))
      return new Billing.BillingUsageResponse({
        data,
        sessions: Object.fromEntries(Array.from(ids, (id) => {
          const userMetadata = sessions.get(id)?.userMetadata
          return [id, new Billing.BillingUsageSession(userMetadata === undefined ? {} : { userMetadata })]
        }))
      })
    })),
  route(Api.checkpointStorage, (request, { caller }) =>
    Effect.gen(function*() {
      const accounts = yield* Accounts
      const checkpoints = yield* Checkpoints
      const sessions = yield* Sessions
      const groups = new Map<string, { readonly projectId: string | undefined; count: number; size: number }>()
      for (const { owner, sessionId, sizeBytes } of yield* checkpoints.list) {
        const projectId = sessionId === undefined ? undefined : sessions.get(sessionId)?.projectId
        if (owner !== caller.urn || (request.projectId !== undefined && projectId !== request.projectId)) continue
        const group = groups.get(projectId ?? "") ?? { projectId, count: 0, size: 0 }
        groups.set(projectId ?? "", { projectId, count: group.count + 1, size: group.size + sizeBytes })
      }
      const user = accounts.user(caller.urn)
      return new Billing.CurrentCheckpointStorageUsageResponse({
        data: Array.from(groups.values(), ({ count, projectId, size }) =>
          new Billing.CurrentCheckpointStorageUsageItem({
            ...(projectId === undefined ? {} : { projectId }),
            orgUserUrn: caller.urn,
            ...(user === undefined ? {} : { userEmail: user.email, userName: user.name }),
            checkpointCount: count,
            sizeBytes: size,
            sizeGigabytes: size / gigabyte
          }))
      })
    })),
  route(Api.audit, (request, { caller }) =>
    Effect.gen(function*() {
      const audit = yield* AuditLog
      const day = request.day ?? dayOf(yield* Clock.currentTimeMillis)
      if (!/^\d{4}-\d{2}-\d{2}$/.test(day)) return yield* badRequest(`Invalid day ${day}: expected YYYY-MM-DD`)
      // what other users do is not for this one to know
      const wanted = ({ resource, user }: Entry) =>
        user === caller.urn && (request.eventType === "all" || request.eventType === `${resource}s`)
      const entries = (yield* audit.day(day)).filter(wanted)
      return new AuditLogResponse({
        entries: entries.map(({ action, at, email, modelId, path, projectId, resource, sessionId, user }) =>
          new AuditLogEntry({
            timestamp: DateTime.unsafeMake(at),
            event: `${resource}_${action}`,
            eventDetails: {
              organization_urn: `tml:organization:${caller.orgId}`,
              actor: { type: "user", urn: user, email },
              resource: {
                type: resource,
                ...(path === undefined ? {} : { tinker_path: path }),
                ...(projectId === undefined ? {} : { project_id: projectId }),
                ...(sessionId === undefined ? {} : { session_id: sessionId })
              },
              action: { type: action }
            },
            ...(modelId === undefined ? {} : { modelId }),
            ...(path === undefined ? {} : { tinkerPath: path })
          })
        )
      })
    }))
]
