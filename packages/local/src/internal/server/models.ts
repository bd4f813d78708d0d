/**
 * Models in training: each with its adapter, the order of its requests, and the fiber that works on them.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import type { Adapter } from "../../LocalAdapter.js"
import type { Future, OperationError, Outcome } from "./futures.js"
import { Futures, Gate, toOutcome } from "./futures.js"
import type { HttpFailure } from "./message.js"
import { badRequest, conflict, gone, notFound, tooMany } from "./message.js"
import * as RequestOrder from "./requestOrder.js"
import { Runs } from "./runs.js"
import { Sessions } from "./sessions.js"
import { Settings } from "./settings.js"
import { Trace } from "./trace.js"

/** @internal */
export type Operation = (adapter: Adapter) => Effect.Effect<Outcome, OperationError>

interface Job {
  /** Its name in a trace. */
  readonly name: string
  /** Bytes of its request in memory. */
  readonly bytes: number
  readonly run: Operation
}

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
  readonly queue: Queue.Queue<Future>
  readonly adapter: Deferred.Deferred<Adapter, string>
  worker: Fiber.RuntimeFiber<void> | undefined
  /** Operations without an outcome, and the work for each (none for the creation). */
  readonly open: Map<Future, Job | undefined>
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
    readonly name: string
    readonly bytes: number
    readonly run: Operation
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

/** @internal */
export const layer: Layer.Layer<Models, never, Futures | Gate | Runs | Sessions | Settings | Trace> = Layer.scoped(
  Models,
  Effect.gen(function*() {
    const futures = yield* Futures
    const gate = yield* Gate
    const runs = yield* Runs
    const sessions = yield* Sessions
    const trace = yield* Trace
    const { limits } = yield* Settings
    const scope = yield* Effect.scope
    const models = new Map<string, Live>()
    let queuedBytes = 0

    const close = (model: Live, future: Future) => {
      queuedBytes -= model.open.get(future)?.bytes ?? 0
      model.open.delete(future)
    }
    const settle = (model: Live, future: Future, outcome: Outcome) =>
      Effect.zipRight(Effect.sync(() => close(model, future)), futures.settle(future, outcome))

    const run = Effect.fnUntraced(function*(model: Live, future: Future) {
      yield* gate.wait
      const job = model.open.get(future)
      if (job === undefined) return
      const adapter = yield* Effect.either(Deferred.await(model.adapter))
      yield* settle(
        model,
        future,
        adapter._tag === "Left"
          ? { _tag: "Failed", error: `The model could not be created: ${adapter.left}`, category: "user" }
          : yield* trace.span(model.sessionId, model.id, job.name, toOutcome(job.run(adapter.right)))
      )
    })

    const unload = Effect.fnUntraced(function*(id: string, why: string) {
      const model = models.get(id)
      if (model === undefined) return
      models.delete(id)
      if (model.worker !== undefined) yield* Fiber.interrupt(model.worker)
      for (const future of Array.from(model.open.keys())) yield* settle(model, future, { _tag: "Gone", why })
      yield* Effect.ignore(runs.flush(id))
    })

    /** Frees the idle model whose client has been quiet for longest. */
    const makeRoom = Effect.gen(function*() {
      let quietest: { readonly id: string; readonly quiet: Duration.Duration } | undefined
      for (const { id, open, sessionId } of models.values()) {
        if (open.size > 0) continue
        const quiet = (yield* sessions.quietFor(sessionId)) ?? Duration.infinity
        if (Duration.lessThan(quiet, quietest?.quiet ?? quietClient)) continue
        quietest = { id, quiet }
      }
      if (quietest !== undefined) {
        yield* unload(quietest.id, "its memory was needed, and its client had sent no heartbeat for 30 seconds")
      }
    })

    yield* sessions.onEnd((session) =>
      Effect.forEach(
        Array.from(models.values()).filter((model) => model.sessionId === session.id),
        (model) => unload(model.id, `session ${session.id} is over`),
        { discard: true }
      )
    )

    const report = (order: RequestOrder.RequestOrder<Future>) => () => {
      const paused = gate.report()
      if (paused !== undefined) return paused
      const missing = order.gap()
      return missing === undefined
        ? { state: "active" } as const
        : { state: "active", reason: `waiting for the request with seq_id ${missing} of this model` } as const
    }

    const offer = (model: Live, ready: ReadonlyArray<Future>) => Effect.asVoid(Queue.offerAll(model.queue, ready))

    const live = (id: string): Effect.Effect<Live, HttpFailure> => {
      const model = models.get(id)
      if (model !== undefined) return Effect.succeed(model)
      return runs.get(id) === undefined
        ? notFound(`Model ${id} not found`)
        : gone(`Model ${id} is no longer loaded; create one from a checkpoint of it`)
    }

    const repeated = (
      id: string,
      order: RequestOrder.RequestOrder<Future>,
      seqId: number | undefined,
      fingerprint: string
    ): Effect.Effect<Future | undefined, HttpFailure> => {
      const known = seqId === undefined ? undefined : order.find(seqId)
      return known === undefined || known.fingerprint === fingerprint
        ? Effect.succeed(known)
        : conflict(`seq_id ${seqId} of model ${id} was used for another request`)
    }

    return Models.of({
      count: () => models.size,
      create: Effect.fnUntraced(function*(options) {
        const existing = models.get(options.id)
        if (existing !== undefined) {
          return existing.created.fingerprint === options.fingerprint
            ? existing.created
            : yield* conflict(`Model ${options.id} exists already`)
        }
        if (runs.get(options.id) !== undefined) return yield* conflict(`Model ${options.id} exists already`)
        if (models.size >= maxModels) yield* makeRoom
        if (models.size >= maxModels) {
          return yield* tooMany(`${models.size} models are loaded; unload one, or end a session that no longer trains`)
        }
        const order = RequestOrder.make<Future>()
        const created = yield* futures.open({
          requestId: `${options.id}:0`,
          owner: options.owner,
          sessionId: options.sessionId,
          fingerprint: options.fingerprint,
          report: report(order)
        })
        const model: Live = {
          id: options.id,
          sessionId: options.sessionId,
          owner: options.owner,
          created,
          order,
          queue: yield* Queue.unbounded<Future>(),
          adapter: yield* Deferred.make<Adapter, string>(),
          worker: undefined,
          open: new Map([[created, undefined]])
        }
        models.set(model.id, model)
        const creation = Effect.zipRight(gate.wait, options.make).pipe(
          Effect.tap(({ adapter }) => Deferred.succeed(model.adapter, adapter)),
          Effect.map(({ outcome }) => outcome),
          toOutcome,
          Effect.tap((outcome) =>
            outcome._tag === "Failed" ? Deferred.fail(model.adapter, outcome.error) : Effect.void
          ),
          Effect.flatMap((outcome) => settle(model, created, outcome))
        )
        const work = Effect.forever(Effect.flatMap(Queue.take(model.queue), (future) => run(model, future)))
        model.worker = yield* Effect.forkIn(Effect.interruptible(Effect.zipRight(creation, work)), scope)
        return created
      }, Effect.uninterruptible),
      require: Effect.fnUntraced(function*(id, owner) {
        const model = yield* live(id)
        if (model.owner !== owner) return yield* notFound(`Model ${id} not found`)
        return model
      }),
      repeated: ({ id, order }, seqId, fingerprint) => repeated(id, order, seqId, fingerprint),
      submit: Effect.fnUntraced(function*({ id }, options) {
        const model = yield* live(id)
        const { order } = model
        const seq = options.seqId ?? order.free()
        if (seq < 1) return yield* badRequest(`seq_id must be at least 1, got ${seq}`)
        if (order.missed(seq)) return yield* conflict(`The turn of seq_id ${seq} of model ${id} is over`)
        if (queuedBytes > 0 && queuedBytes + options.bytes > limits.queuedBytes) {
          return yield* tooMany(`${queuedBytes} bytes of training requests are waiting; send more as they finish`)
        }
        const future = yield* futures.open({
          requestId: `${id}:${seq}`,
          owner: model.owner,
          sessionId: model.sessionId,
          fingerprint: options.fingerprint,
          report: report(order)
        })
        // Copies of one request may be prepared concurrently; the first to arrive here counts.
        const earlier = yield* repeated(id, order, seq, options.fingerprint)
        if (earlier !== undefined) return earlier
        const { bytes, name, run } = options
        model.open.set(future, { name, bytes, run })
        queuedBytes += bytes
        yield* offer(model, order.accept(seq, future))
        yield* runs.touch(id)
        return future
      }, Effect.uninterruptible),
      refuse: (model, seqId) => {
        const known = models.get(model.id)
        return known === undefined || seqId === undefined ? Effect.void : offer(known, known.order.refuse(seqId))
      },
      unloadAfter: (model, future) =>
        Deferred.await(future.settled).pipe(
          Effect.zipRight(unload(model.id, `model ${model.id} was unloaded`)),
          Effect.forkIn(scope),
          Effect.asVoid
        )
    })
  })
)
