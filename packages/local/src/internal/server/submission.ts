/**
 * Submission of a model's operations: a request is accepted under its number, found again when it is repeated, and gives its
 * number back when it is refused.
 */
import { parseJson } from "effect-tinker/wire/Endpoint"
import type { UntypedFuture } from "effect-tinker/wire/Future"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { accepted } from "./futures.js"
import { fingerprint } from "./identity.js"
import type { Usage } from "./ledger.js"
import type { Operation } from "./modelQueue.js"
import { Models } from "./models.js"
import { readIds } from "./requestIds.js"
import type { Call, Failure } from "./router.js"
import type { RunRecord } from "./runs.js"
import { Runs } from "./runs.js"
import { Sessions } from "./sessions.js"

/** View of a model from its operations. @internal */
export interface Target {
  readonly id: string
  readonly sessionId: string
  readonly run: RunRecord | undefined
  /** To whom and for what its tokens are charged. */
  readonly usage: Omit<Usage, "kind" | "count">
}

/** Submits the operation of a request, unless it was submitted before. @internal */
export const submitted = Effect.fnUntraced(function*<R>(
  call: Call,
  name: string,
  request: { readonly modelId: string; readonly seqId?: number | undefined },
  prepare: (target: Target) => Effect.Effect<Operation, Failure, R>
): Effect.fn.Return<UntypedFuture, Failure, R | Models | Runs | Sessions> {
  const models = yield* Models
  const runs = yield* Runs
  const sessions = yield* Sessions
  const { urn } = call.caller
  const model = yield* models.require(request.modelId, urn)
  const session = yield* sessions.requireAlive(model.sessionId, urn)
  const body = fingerprint(call.body)
  const earlier = yield* models.repeated(model, request.seqId, body)
  if (earlier !== undefined) return accepted(earlier, { modelId: model.id })
  const run = runs.get(model.id)
  const submit = Effect.gen(function*() {
    const operation = yield* prepare({
      id: model.id,
      sessionId: model.sessionId,
      run,
      usage: {
        owner: urn,
        baseModel: run?.baseModel ?? "",
        sessionId: model.sessionId,
        projectId: session.projectId
      }
    })
    return yield* models.submit(model, {
      seqId: request.seqId,
      fingerprint: body,
      job: { name, bytes: call.body.length, run: operation }
    })
  })
  const future = yield* Effect.tapError(
    submit,
    // a request that is to be tried again keeps its number
    (error) => error._tag === "HttpFailure" && error.status === 429 ? Effect.void : models.refuse(model, request.seqId)
  )
  return accepted(future, { modelId: model.id })
})

/** Releases the number of a request that does not fit its schema, as far as it can be read. @internal */
export const releaseTurn = Effect.fnUntraced(function*(call: Call) {
  const models = yield* Models
  const isProtobuf = call.headers["content-type"]?.includes("application/x-protobuf") ?? false
  const ids = isProtobuf
    ? readIds(call.body)
    : Either.match(parseJson(call.body), {
      onLeft: () => ({ modelId: undefined, seqId: undefined }),
      onRight: (json) => ({ modelId: Object(json).model_id, seqId: Object(json).seq_id })
    })
  const { modelId, seqId } = ids
  if (typeof modelId !== "string" || typeof seqId !== "number" || !Number.isSafeInteger(seqId) || seqId < 1) return
  const model = yield* Effect.option(models.require(modelId, call.caller.urn))
  if (Option.isSome(model)) yield* models.refuse(model.value, seqId)
})
