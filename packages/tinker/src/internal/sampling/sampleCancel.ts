/**
 * Cancels abandoned samples on the server: where it supports that, best effort, never in the caller's way.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as TinkerError from "../../TinkerError.js"
import * as Api from "../../wire/Api.js"
import type { ClientDynamicConfig } from "../../wire/ClientConfig.js"
import { CancelFutureRequest } from "../../wire/Future.js"
import type { RequestId } from "../../wire/Id.js"
import * as Logs from "../observability/logs.js"
import * as Admission from "../transport/admission.js"
import type * as ApiClient from "../transport/apiClient.js"

/** @internal */
export type Cancel = (requestId: RequestId) => Effect.Effect<void>

/** @internal */
export const make = (options: {
  readonly api: ApiClient.Service
  readonly scope: Scope.Scope
  readonly dynamicConfig: Effect.Effect<ClientDynamicConfig, TinkerError.TinkerError>
}): Cancel => {
  const { dynamicConfig, scope, api } = options
  const line = Admission.makeSemaphore(1)
  const post = Effect.fnUntraced(function*(requestId: RequestId) {
    const { sampleCancelEnabled, sampleCancelMaxBatchSize } = yield* dynamicConfig
    if (!sampleCancelEnabled) return
    yield* line.resize(sampleCancelMaxBatchSize)
    yield* line.withPermit(
      api.call(Api.cancelFuture, new CancelFutureRequest({ requestId }), {
        from: { module: "SamplingClient", method: "cancel" }
      })
    )
  })
  return (requestId) =>
    post(requestId).pipe(
      Effect.catchAll((error) =>
        Effect.logDebug(`Sample ${requestId} could not be cancelled`, error.message).pipe(
          Logs.of("SamplingClient", { requestId })
        )
      ),
      Effect.interruptible,
      Effect.forkIn(scope),
      Effect.asVoid
    )
}
