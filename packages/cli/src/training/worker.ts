/**
 * A worker's layers. Loaded on demand: they bring in the database's driver.
 *
 * @since 0.1.0
 */
import * as NodeCluster from "@effect-tinker/cluster/NodeCluster"
import * as RolloutWorker from "@effect-tinker/cluster/RolloutWorker"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { store } from "./durable.js"

/** @internal */
export const layer = <E, R, ED, RD>(
  options: RolloutWorker.Options<E, R, ED, RD> & {
    readonly database: Redacted.Redacted
    readonly store: Option.Option<string>
    readonly labels: ReadonlyArray<RolloutWorker.Label>
    readonly host: Option.Option<string>
    readonly port: Option.Option<number>
    readonly listen: Option.Option<string>
  }
) =>
  RolloutWorker.layer(options).pipe(
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
