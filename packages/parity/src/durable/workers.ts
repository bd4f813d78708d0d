/**
 * A run whose rollouts are run by workers over Postgres, their trajectories in its table or in a bucket. One worker is killed
 * for good on the way, another one joins, and Postgres ends all connections and starts again. What is trained is what the
 * same run computes alone: no rollout is lost, none counts twice.
 */
import * as NodeCluster from "@effect-tinker/cluster/NodeCluster"
import * as NodeObjectStore from "@effect-tinker/cluster/NodeObjectStore"
import * as NodePostgres from "@effect-tinker/cluster/NodePostgres"
import * as ObjectTrajectoryStore from "@effect-tinker/cluster/ObjectTrajectoryStore"
import * as RolloutCluster from "@effect-tinker/cluster/RolloutCluster"
import * as TrajectoryStore from "@effect-tinker/cluster/TrajectoryStore"
import { Dataset, RunLog } from "@effect-tinker/cookbook"
import { FetchHttpClient, FileSystem } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Duration, Effect, Layer, Option, Redacted, Stream } from "effect"
import { freePort } from "../chaos/processes.js"
import { differencesOf, DurableFailed, keepAlive, loader, seriesOf } from "./processes.js"
import * as task from "./task.js"

export interface Report {
  /** Where trajectories were. */
  readonly store: "database" | "bucket"
  /** Rollouts that were trained on. */
  readonly rollouts: number
  /** Rollouts in the store. */
  readonly stored: number
  /** Rollouts by each worker, in the order in which they joined; the first one was killed. */
  readonly workers: ReadonlyArray<number>
  /** Rollouts that more than one worker says to have stored. */
  readonly twice: number
  readonly differences: ReadonlyArray<string>
}

const apiKey = "tml-workers"
const size: task.Size = { groupSize: 8, groupsPerBatch: 16, epochs: 1 }

/** None where there is no Postgres, or no object store where one is asked for. */
export const run = (
  place: Report["store"]
): Effect.Effect<Option.Option<Report>, DurableFailed, NodeContext.NodeContext> =>
  Effect.gen(function*() {
    const postgres = yield* NodePostgres.make
    if (Option.isNone(postgres)) return Option.none()
    const database = postgres.value.url
    const url = Redacted.value(database)
    const bucket = place === "bucket" ? yield* NodeObjectStore.start() : Option.none()
    if (place === "bucket" && Option.isNone(bucket)) return Option.none()
    /** Keys that the trainer has stored or asked for. */
    const keys = new Map<string, TrajectoryStore.RolloutKey>()
    const store = Option.match(bucket, {
      onNone: () => TrajectoryStore.layerSql,
      onSome: (options) => Layer.provide(ObjectTrajectoryStore.layer(options), FetchHttpClient.layer)
    })
    const watched = Layer.effect(
      TrajectoryStore.TrajectoryStore,
      Effect.map(TrajectoryStore.TrajectoryStore, (service) => {
        const note = (found: ReadonlyArray<TrajectoryStore.RolloutKey>) =>
          found.forEach((key) => keys.set(key.text, key))
        return TrajectoryStore.TrajectoryStore.of({
          ...service,
          getMany: (asked) => {
            note(asked)
            return service.getMany(asked)
          },
          putMany: (entries) => {
            note(entries.map(({ key }) => key))
            return service.putMany(entries)
          }
        })
      })
    )
    const objects = Option.match(bucket, {
      onNone: () => [],
      onSome: ({ accessKeyId, endpoint, secretAccessKey }) => [endpoint, accessKeyId, Redacted.value(secretAccessKey)]
    })
    const fs = yield* FileSystem.FileSystem
    const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-workers-" })
    yield* fs.makeDirectory(`${root}/backend`)
    const load = yield* loader
    const port = yield* freePort
    const baseUrl = `http://127.0.0.1:${port}`
    const server = yield* keepAlive("server", [yield* load("server"), String(port), `${root}/backend`, apiKey])

    const program = yield* load("worker")
    const seen = new Map<string, number>()
    const counts: Array<number> = []
    const join = Effect.suspend(() => {
      const n = counts.push(0) - 1
      return keepAlive(`worker ${n}`, [program, url, baseUrl, apiKey, "8", "20", ...objects], (line) => {
        // A worker that has lost its database says so there, too.
        if (!line.startsWith("spread/")) return
        counts[n] = (counts[n] ?? 0) + 1
        seen.set(line, (seen.get(line) ?? 0) + 1)
      }, "leave")
    })
    const workers = yield* Effect.replicateEffect(join, 3)

    const problems = Dataset.take(task.waiting(Duration.zero), 128)
    const clients = task.clients(baseUrl, apiKey)
    const alone = `${root}/alone`
    yield* Stream.runDrain(task.train(RunLog.directory(alone), problems, size)).pipe(Effect.provide(clients))

    const spread = `${root}/spread`
    const cluster = RolloutCluster.layer({ run: "spread", slots: 64, stragglerAfter: "1 minute" }).pipe(
      Layer.provideMerge(Layer.merge(NodeCluster.layerClient, Layer.provide(watched, store))),
      Layer.provideMerge(NodeCluster.layerPostgres({ url: database }))
    )
    const stored = yield* task.train(RunLog.directory(spread), RolloutCluster.problems(problems), size).pipe(
      Stream.tap(({ step }) =>
        step === 2
          ? workers[0]?.kill ?? Effect.void
          : step === 4
          ? Effect.asVoid(join)
          // While the rollouts of the next step are with workers.
          : step === 5
          ? Effect.asVoid(Effect.forkDaemon(Effect.delay(postgres.value.restart, "100 millis")))
          : Effect.void
      ),
      Stream.runDrain,
      Effect.zipRight(Effect.flatMap(TrajectoryStore.TrajectoryStore, ({ getMany }) =>
        Effect.map(getMany(Array.from(keys.values())), (found) => found.filter(Option.isSome)))),
      Effect.provide(cluster),
      Effect.provide(clients),
      Effect.raceFirst(Effect.zipRight(server.ended, new DurableFailed({ reason: "the server ended" }))),
      // The first one is killed; the others end only when they fail.
      Effect.raceFirst(Effect.zipRight(
        Effect.all(
          workers.slice(1).map(({ ended }) =>
            ended
          )
        ),
        Effect.never
      )),
      Effect.timeoutFail({
        duration: "20 minutes",
        onTimeout: () => new DurableFailed({ reason: "the run did not end" })
      })
    )
    const [wanted, found] = [yield* seriesOf(alone), yield* seriesOf(spread)]
    return Option.some({
      store: place,
      rollouts: found.steps * size.groupSize * size.groupsPerBatch,
      stored: stored.length,
      workers: counts,
      twice: Array.from(seen.values()).filter((times) => times > 1).length,
      differences: differencesOf(wanted.series, found.series)
    })
  }).pipe(
    Effect.scoped,
    Effect.mapError((error) => error instanceof DurableFailed ? error : new DurableFailed({ reason: String(error) }))
  )
