/**
 * Telling the server about samples nobody waits for any more: when it allows it, as well as it goes, never in the
 * caller's way.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Api from "../../Api.js"
import type { ClientDynamicConfig } from "../../ClientConfig.js"
import { CancelFutureRequest } from "../../Future.js"
import type { RequestId } from "../../Id.js"
import type * as TinkerError from "../../TinkerError.js"
import * as Logs from "../observability/logs.js"
import type * as ApiClient from "../transport/apiClient.js"
import * as FifoSemaphore from "../transport/fifoSemaphore.js"

/** @internal */
export type Cancel = (requestId: RequestId) => Effect.Effect<void>

/** @internal */
export const make = (options: {
  readonly api: ApiClient.Service
  readonly scope: Scope.Scope
  readonly dynamicConfig: Effect.Effect<ClientDynamicConfig, TinkerError.TinkerError>
}): Cancel => {
  const { dynamicConfig, scope, api } = options
  const line = FifoSemaphore.make(1)
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
