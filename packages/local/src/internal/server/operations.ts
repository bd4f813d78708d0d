/**
 * Accepting an operation of a model: whose it is, in which order it runs, and what happens when it is turned away.
 */
import type { UntypedFuture } from "effect-tinker/wire/Future"
import * as Effect from "effect/Effect"
import { accepted } from "./accept.js"
import { fingerprint } from "./identity.js"
import type { Usage } from "./ledger.js"
import type { Operation } from "./models.js"
import { Models } from "./models.js"
import type { Failure } from "./route.js"
import type { Call } from "./route.js"
import type { RunRecord } from "./runs.js"
import { Runs } from "./runs.js"
import { Sessions } from "./sessions.js"

/** What an operation may know of its model. @internal */
export interface Target {
  readonly id: string
  readonly sessionId: string
  readonly run: RunRecord | undefined
  /** To whom and for what its tokens are charged. */
  readonly usage: Omit<Usage, "kind" | "count">
}

/** @internal */
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
      name,
      run: operation
    })
  })
  const future = yield* Effect.tapError(submit, () => models.refuse(model, request.seqId))
  return accepted(future, { modelId: model.id })
})
