/**
 * Checkpoints over REST: listed, fetched, published, kept for a time, removed.
 */
import { CheckpointArchiveUrlResponse, CheckpointsListResponse } from "effect-tinker/Checkpoint"
import * as Api from "effect-tinker/wire/Api"
import { Cursor } from "effect-tinker/wire/Cursor"
import { ExternalWeightsUrlsResponse } from "effect-tinker/wire/Weights"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { AuditLog } from "../auditLog.js"
import { Checkpoints, toWire } from "../checkpoints.js"
import { Downloads, tar, template } from "../downloads.js"
import { badRequest, conflict, HttpFailure, notFound, Reply } from "../message.js"
import type { Call } from "../router.js"
import { pattern, route } from "../router.js"
import { Runs } from "../runs.js"
import { checkTtl } from "./weights.js"

const found = Effect.fnUntraced(function*(request: Api.CheckpointRequest, call: Call) {
  const checkpoints = yield* Checkpoints
  return yield* checkpoints.owned(request.trainingRunId, request.checkpointId, call.caller.urn)
})

const note = Effect.fnUntraced(
  function*(call: Call, action: string, record: { readonly path: string; readonly runId: string }) {
    const audit = yield* AuditLog
    yield* audit.note(call.caller, { resource: "checkpoint", action, path: record.path, modelId: record.runId })
  }
)

/** @internal */
export const page = (request: Api.PageRequest) =>
  request.limit >= 0 && request.offset >= 0
    ? Effect.succeed(<A>(items: ReadonlyArray<A>) => items.slice(request.offset, request.offset + request.limit))
    : badRequest("limit and offset must not be negative")

const publish = (isPublic: boolean) =>
  Effect.fnUntraced(function*(request: Api.CheckpointRequest, call: Call) {
    const checkpoints = yield* Checkpoints
    const record = yield* found(request, call)
    if (record.public === isPublic) {
      return yield* conflict(`Checkpoint ${record.path} is already ${isPublic ? "public" : "private"}`)
    }
    yield* checkpoints.update(record, { public: isPublic })
    yield* note(call, isPublic ? "publish" : "unpublish", record)
  })

/** The whole content, or the part of it that was asked for. */
const partial = (content: Uint8Array, range: string | undefined, headers: Readonly<Record<string, string>>) => {
  const match = /^bytes=(\d+)-(\d*)$/.exec(range ?? "")
  if (match === null) return Effect.succeed(new Reply({ status: 200, headers, body: content }))
  const from = Number(match[1])
  const to = match[2] === "" ? content.length - 1 : Math.min(Number(match[2]), content.length - 1)
  return from > to
    ? Effect.fail(
      new HttpFailure({
        status: 416,
        detail: "Range Not Satisfiable",
        headers: { "content-range": `bytes */${content.length}` }
      })
    )
    : Effect.succeed(
      new Reply({
        status: 206,
        headers: { ...headers, "content-range": `bytes ${from}-${to}/${content.length}` },
        body: content.subarray(from, to + 1)
      })
    )
}

const download = Effect.fnUntraced(function*(call: Call, token: string) {
  const downloads = yield* Downloads
  const { content, contentType } = yield* downloads.open(token)
  return yield* partial(yield* content, call.headers["range"], {
    "content-type": contentType,
    "accept-ranges": "bytes"
  })
})

/** @internal */
export const checkpointRoutes = [
  route(Api.listCheckpoints, (request, call) =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const runs = yield* Runs
      if (runs.get(request.trainingRunId)?.owner !== call.caller.urn) {
        return yield* notFound(`Training run ${request.trainingRunId} not found`)
      }
      const all = yield* checkpoints.list
      return new CheckpointsListResponse({
        checkpoints: all.filter(({ runId }) => runId === request.trainingRunId).map(toWire)
      })
    })),
  route(Api.listUserCheckpoints, (request, call) =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const cut = yield* page(request)
      const own = (yield* checkpoints.list).filter(({ owner }) => owner === call.caller.urn)
      return new CheckpointsListResponse({
        checkpoints: cut(own).map(toWire),
        cursor: new Cursor({ offset: request.offset, limit: request.limit, totalCount: own.length })
      })
    })),
  route(Api.deleteCheckpoint, (request, call) =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const record = yield* found(request, call)
      yield* checkpoints.remove(record)
      yield* note(call, "delete", record)
    })),
  route(Api.publishCheckpoint, publish(true)),
  route(Api.unpublishCheckpoint, publish(false)),
  route(Api.setCheckpointTtl, (request, call) =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const { ttlSeconds } = request
      yield* checkTtl(ttlSeconds ?? undefined)
      const record = yield* found(request, call)
      const now = yield* Clock.currentTimeMillis
      yield* checkpoints.update(record, { expiresAt: ttlSeconds === null ? undefined : now + ttlSeconds * 1000 })
      yield* note(call, "set_ttl", record)
    })),
  route(Api.checkpointArchive, (request, call) =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const downloads = yield* Downloads
      const record = yield* checkpoints.readable(
        `tinker://${request.trainingRunId}/${request.checkpointId}`,
        call.caller.urn
      )
      const { expires, path } = yield* downloads.offer({
        contentType: "application/x-tar",
        content: Effect.map(checkpoints.files(record), (files) => tar(files, record.time))
      })
      yield* note(call, "read", record)
      return new CheckpointArchiveUrlResponse({ url: call.base + path, expires: DateTime.unsafeMake(expires) })
    })),
  route(Api.externalWeightsUrls, (request, call) =>
    Effect.gen(function*() {
      const checkpoints = yield* Checkpoints
      const downloads = yield* Downloads
      const record = yield* found(request, call)
      if (record.kind !== "external_weights") return yield* badRequest(`${record.path} is no external checkpoint`)
      const urls: Record<string, string> = {}
      let until = 0
      for (const [name, bytes] of yield* checkpoints.files(record)) {
        const { expires, path } = yield* downloads.offer({
          contentType: "application/octet-stream",
          content: Effect.succeed(bytes)
        })
        urls[name] = call.base + path
        until = expires
      }
      yield* note(call, "read", record)
      return new ExternalWeightsUrlsResponse({ urls, expires: DateTime.unsafeMake(until) })
    })),
  {
    name: "download",
    method: "GET",
    pattern: pattern(template),
    params: ["token"],
    auth: "none" as const,
    handle: (call: Call, { token = "" }: Readonly<Record<string, string>>) => download(call, token)
  }
]
