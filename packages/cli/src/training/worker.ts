/**
 * A worker's layers. Loaded on demand: they bring in the database's driver.
 *
 * @since 0.1.0
 */
import * as NodeCluster from "@effect-tinker/cluster/NodeCluster"
import * as NodeWorkerMetrics from "@effect-tinker/cluster/NodeWorkerMetrics"
import * as RolloutWorker from "@effect-tinker/cluster/RolloutWorker"
import * as WorkerMetrics from "@effect-tinker/cluster/WorkerMetrics"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { store } from "./durable.js"

/** Where counts are served. @internal */
export interface Metrics {
  readonly port: number
  readonly listen: string
  readonly token: Option.Option<Redacted.Redacted>
  readonly onAddress: (address: string) => Effect.Effect<void>
}

/** Serves the counts of a worker while it is there. */
const layerMetrics = (metrics: WorkerMetrics.WorkerMetrics, { listen, onAddress, port, token }: Metrics) =>
  Layer.scopedDiscard(
    Effect.flatMap(
      NodeWorkerMetrics.serve({ metrics, port, listen, token: Option.getOrUndefined(token) }),
      onAddress
    )
  )

/** @internal */
export const layer = <E, R, ED, RD>(
  options: Omit<RolloutWorker.Options<E, R, ED, RD>, "metrics"> & {
    readonly metrics: Option.Option<Metrics>
    readonly database: Redacted.Redacted
    readonly store: Option.Option<string>
    readonly labels: ReadonlyArray<RolloutWorker.Label>
    readonly host: Option.Option<string>
    readonly port: Option.Option<number>
    readonly listen: Option.Option<string>
  }
) =>
  Layer.unwrapEffect(Effect.map(WorkerMetrics.make, (metrics) =>
    // Served until the worker has left.
    Layer.provide(
      RolloutWorker.layer({ ...options, metrics }),
      Option.match(options.metrics, { onNone: () => Layer.empty, onSome: (served) => layerMetrics(metrics, served) })
    ))).pipe(
      Layer.provide(Layer.merge(
        NodeCluster.layerWorker({
          labels: options.labels,
          concurrency: options.concurrency,
          host: Option.getOrUndefined(options.host),
          port: Option.getOrUndefined(options.port),
          listen: Option.getOrUndefined(options.listen)
        }),
        store(options.store)
      )),
      Layer.provide(NodeCluster.layerPostgres({ url: options.database }))
    )
