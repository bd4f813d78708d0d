/**
 * Models in training: which there are and whose, the order of their requests, and when one is freed.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Adapter } from "../../LocalAdapter.js"
import type { Future, GateShape, OperationError, Outcome, QueueReport } from "./futures.js"
import { Futures, Gate } from "./futures.js"
import type { HttpFailure } from "./message.js"
import { badRequest, conflict, gone, notFound, tooMany } from "./message.js"
import * as ModelQueue from "./modelQueue.js"
import * as RequestOrder from "./requestOrder.js"
import { Runs } from "./runs.js"
import { Sessions } from "./sessions.js"
import type { Settings } from "./settings.js"
import type { Trace } from "./trace.js"

/** @internal */
export interface Model {
  readonly id: string
  readonly sessionId: string
  readonly owner: string
  /** The future of its creation. */
  readonly created: Future
  readonly order: RequestOrder.RequestOrder<Future>
}

interface Live extends Model {
  readonly queue: ModelQueue.ModelQueue
}

/** @internal */
export interface ModelsShape {
  /** How many are in memory. */
  readonly count: () => number
  /** Registers a model and makes its adapter in the background. Repeating the request gives the same future. */
  readonly create: (options: {
    readonly id: string
    readonly sessionId: string
    readonly owner: string
    readonly fingerprint: string
    readonly make: Effect.Effect<{ readonly adapter: Adapter; readonly outcome: Outcome }, OperationError>
  }) => Effect.Effect<Future, HttpFailure>
  readonly require: (id: string, owner: string) => Effect.Effect<Model, HttpFailure>
  /** The future of a request that came before; 409 when its number was used for another. */
  readonly repeated: (
    model: Model,
    seqId: number | undefined,
    fingerprint: string
  ) => Effect.Effect<Future | undefined, HttpFailure>
  /** Accepts an operation in the model's order. */
  readonly submit: (model: Model, options: {
    readonly seqId: number | undefined
    readonly fingerprint: string
    readonly job: ModelQueue.Job
  }) => Effect.Effect<Future, HttpFailure>
  /** Releases the number of a refused request, so that those after it do not wait. */
  readonly refuse: (model: Model, seqId: number | undefined) => Effect.Effect<void>
  /** Frees a model when one of its futures is settled. */
  readonly unloadAfter: (model: Model, future: Future) => Effect.Effect<void>
}

/** @internal */
export class Models extends Context.Tag("@effect-tinker/local/Models")<Models, ModelsShape>() {}

/** Adapters in memory at a time, each with its gradient and optimizer state. */
const maxModels = 48

/** Clients send a heartbeat every ten seconds. One that missed three has most likely ended without saying so. */
const quietClient = Duration.seconds(30)

/** The idle model whose client has been quiet for longest, and long enough to be taken for gone. */
const quietest = Effect.fnUntraced(function*(
  models: Iterable<Live>,
  quietFor: (sessionId: string) => Effect.Effect<Duration.Duration | undefined>
) {
  let found: { readonly id: string; readonly quiet: Duration.Duration } | undefined
  for (const { id, queue, sessionId } of models) {
    if (!queue.isIdle()) continue
    const quiet = (yield* quietFor(sessionId)) ?? Duration.infinity
    if (Duration.lessThan(quiet, found?.quiet ?? quietClient)) continue
    found = { id, quiet }
  }
  return found?.id
})

/** State of a request that waits: the server's, or the number that is missing before it. */
const reportOf = (gate: GateShape, order: RequestOrder.RequestOrder<Future>) => (): QueueReport => {
  const missing = order.gap()
  return gate.report() ?? {
    state: "active",
    reason: missing === undefined ? undefined : `waiting for the request with seq_id ${missing} of this model`
  }
}

/** The request that has the number already, which must be the same one. */
const repeated = (
  { id, order }: Model,
  seqId: number | undefined,
  fingerprint: string
): Effect.Effect<Future | undefined, HttpFailure> => {
  const known = seqId === undefined ? undefined : order.find(seqId)
  return known === undefined || known.fingerprint === fingerprint
    ? Effect.succeed(known)
    : conflict(`seq_id ${seqId} of model ${id} was used for another request`)
}

const make = Effect.gen(function*() {
  const futures = yield* Futures
  const gate = yield* Gate
  const runs = yield* Runs
  const sessions = yield* Sessions
  const queues = yield* ModelQueue.make
  const scope = yield* Effect.scope
  const models = new Map<string, Live>()

  const unload = Effect.fnUntraced(function*(id: string, why: string) {
    const model = models.get(id)
    if (model === undefined) return
    models.delete(id)
    yield* model.queue.stop(why)
    yield* Effect.ignore(runs.flush(id))
  })

  yield* sessions.onEnd((session) =>
    Effect.forEach(
      Array.from(models.values()).filter((model) => model.sessionId === session.id),
      (model) => unload(model.id, `session ${session.id} is over`),
      { discard: true }
    )
  )

  const makeRoom = Effect.gen(function*() {
    if (models.size < maxModels) return
    const id = yield* quietest(models.values(), sessions.quietFor)
    if (id !== undefined) {
      yield* unload(id, "its memory was needed, and its client had sent no heartbeat for 30 seconds")
    }
    if (models.size < maxModels) return
    yield* tooMany(`${models.size} models are loaded; unload one, or end a session that no longer trains`)
  })

  const live = (id: string): Effect.Effect<Live, HttpFailure> => {
    const model = models.get(id)
    if (model !== undefined) return Effect.succeed(model)
    return runs.get(id) === undefined
      ? notFound(`Model ${id} not found`)
      : gone(`Model ${id} is no longer loaded; create one from a checkpoint of it`)
  }

  return Models.of({
    count: () => models.size,
    create: Effect.fnUntraced(function*({ fingerprint, id, make, owner, sessionId }) {
      const existing = models.get(id)
      if (existing?.created.fingerprint === fingerprint) return existing.created
      if (existing !== undefined || runs.get(id) !== undefined) return yield* conflict(`Model ${id} exists already`)
      yield* makeRoom
      const order = RequestOrder.make<Future>()
      const report = reportOf(gate, order)
      const created = yield* futures.open({ requestId: `${id}:0`, owner, sessionId, fingerprint, report })
      const queue = yield* queues.make({ id, sessionId, created, create: make })
      models.set(id, { id, sessionId, owner, created, order, queue })
      yield* queue.start
      return created
    }, Effect.uninterruptible),
    require: Effect.fnUntraced(function*(id, owner) {
      const model = yield* live(id)
      if (model.owner !== owner) return yield* notFound(`Model ${id} not found`)
      return model
    }),
    repeated,
    submit: Effect.fnUntraced(function*({ id }, { fingerprint, job, seqId }) {
      const model = yield* live(id)
      const { order, owner, queue, sessionId } = model
      const seq = seqId ?? order.free()
      if (seq < 1) return yield* badRequest(`seq_id must be at least 1, got ${seq}`)
      if (order.missed(seq)) return yield* conflict(`The turn of seq_id ${seq} of model ${id} is over`)
      yield* queues.admit(job.bytes)
      const report = reportOf(gate, order)
      const future = yield* futures.open({ requestId: `${id}:${seq}`, owner, sessionId, fingerprint, report })
      // Copies of one request may be prepared concurrently; the first to arrive here counts.
      const earlier = yield* repeated(model, seq, fingerprint)
      if (earlier !== undefined) return earlier
      queue.accept(future, job)
      yield* queue.offer(order.accept(seq, future))
      yield* runs.touch(id)
      return future
    }, Effect.uninterruptible),
    refuse: (model, seqId) => {
      const known = models.get(model.id)
      return known === undefined || seqId === undefined ? Effect.void : known.queue.offer(known.order.refuse(seqId))
    },
    unloadAfter: (model, future) =>
      Deferred.await(future.settled).pipe(
        Effect.zipRight(unload(model.id, `model ${model.id} was unloaded`)),
        Effect.forkIn(scope),
        Effect.asVoid
      )
  })
})

/** @internal */
export const layer: Layer.Layer<Models, never, Futures | Gate | Runs | Sessions | Settings | Trace> = Layer.scoped(
  Models,
  make
)
