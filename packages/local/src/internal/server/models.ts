/**
 * Models in training: each with its adapter, the order of its requests and the fiber that works on them.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import type { Adapter } from "../../LocalAdapter.js"
import type { HttpFailure } from "./failure.js"
import { badRequest, conflict, gone, notFound } from "./failure.js"
import type { Future, Outcome } from "./futures.js"
import { Futures } from "./futures.js"
import { Gate } from "./gate.js"
import type { OperationError } from "./outcomes.js"
import { toOutcome } from "./outcomes.js"
import { Runs } from "./runs.js"
import { Sessions } from "./sessions.js"
import { Trace } from "./trace.js"
import type { Turns } from "./turns.js"
import { makeTurns } from "./turns.js"

/** @internal */
export type Operation = (adapter: Adapter) => Effect.Effect<Outcome, OperationError>

interface Job {
  /** What it is called in a trace. */
  readonly name: string
  readonly run: Operation
}

/** @internal */
export interface Model {
  readonly id: string
  readonly sessionId: string
  readonly owner: string
  /** The future of its creation. */
  readonly created: Future
  readonly turns: Turns<Future>
}

interface Live extends Model {
  readonly queue: Queue.Queue<Future>
  readonly adapter: Deferred.Deferred<Adapter, string>
  worker: Fiber.RuntimeFiber<void> | undefined
  /** What has no outcome yet and, beside the creation, what is to be done for it: let go of when it is done. */
  readonly open: Map<Future, Job | undefined>
}

/** @internal */
export interface ModelsShape {
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
    readonly run: Operation
  }) => Effect.Effect<Future, HttpFailure>
  /** Turns a request away without holding up those behind it. */
  readonly refuse: (model: Model, seqId: number | undefined) => Effect.Effect<void>
  /** Frees a model when one of its futures is settled. */
  readonly unloadAfter: (model: Model, future: Future) => Effect.Effect<void>
}

/** @internal */
export class Models extends Context.Tag("@effect-tinker/local/Models")<Models, ModelsShape>() {}

/** @internal */
export const layer: Layer.Layer<Models, never, Futures | Gate | Runs | Sessions | Trace> = Layer.scoped(
  Models,
  Effect.gen(function*() {
    const futures = yield* Futures
    const gate = yield* Gate
    const runs = yield* Runs
    const sessions = yield* Sessions
    const trace = yield* Trace
    const scope = yield* Effect.scope
    const models = new Map<string, Live>()

    const settle = (model: Live, future: Future, outcome: Outcome) =>
      Effect.zipRight(Effect.sync(() => model.open.delete(future)), futures.settle(future, outcome))

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
      for (const future of model.open.keys()) yield* futures.settle(future, { _tag: "Gone", why })
      yield* Effect.ignore(runs.flush(id))
    })

    yield* sessions.onEnd((session) =>
      Effect.forEach(
        Array.from(models.values()).filter((model) => model.sessionId === session.id),
        (model) => unload(model.id, `session ${session.id} is over`),
        { discard: true }
      )
    )

    const report = (turns: Turns<Future>) => () => {
      const paused = gate.report()
      if (paused !== undefined) return paused
      const missing = turns.gap()
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
      turns: Turns<Future>,
      seqId: number | undefined,
      fingerprint: string
    ): Effect.Effect<Future | undefined, HttpFailure> => {
      const known = seqId === undefined ? undefined : turns.find(seqId)
      return known === undefined || known.fingerprint === fingerprint
        ? Effect.succeed(known)
        : conflict(`seq_id ${seqId} of model ${id} was used for another request`)
    }

    return Models.of({
      create: Effect.fnUntraced(function*(options) {
        const existing = models.get(options.id)
        if (existing !== undefined) {
          return existing.created.fingerprint === options.fingerprint
            ? existing.created
            : yield* conflict(`Model ${options.id} exists already`)
        }
        if (runs.get(options.id) !== undefined) return yield* conflict(`Model ${options.id} exists already`)
        const turns = makeTurns<Future>()
        const created = yield* futures.open({
          requestId: `${options.id}:0`,
          owner: options.owner,
          sessionId: options.sessionId,
          fingerprint: options.fingerprint,
          report: report(turns)
        })
        const model: Live = {
          id: options.id,
          sessionId: options.sessionId,
          owner: options.owner,
          created,
          turns,
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
      repeated: ({ id, turns }, seqId, fingerprint) => repeated(id, turns, seqId, fingerprint),
      submit: Effect.fnUntraced(function*({ id }, options) {
        const model = yield* live(id)
        const { turns } = model
        const seq = options.seqId ?? turns.free()
        if (seq < 1) return yield* badRequest(`seq_id must be at least 1, got ${seq}`)
        if (turns.missed(seq)) return yield* conflict(`The turn of seq_id ${seq} of model ${id} is over`)
        const future = yield* futures.open({
          requestId: `${id}:${seq}`,
          owner: model.owner,
          sessionId: model.sessionId,
          fingerprint: options.fingerprint,
          report: report(turns)
        })
        // Copies of one request may be prepared side by side; the first to come here is the one that counts.
        const earlier = yield* repeated(id, turns, seq, options.fingerprint)
        if (earlier !== undefined) return earlier
        model.open.set(future, { name: options.name, run: options.run })
        yield* offer(model, turns.accept(seq, future))
        yield* runs.touch(id)
        return future
      }, Effect.uninterruptible),
      refuse: (model, seqId) => {
        const known = models.get(model.id)
        return known === undefined || seqId === undefined ? Effect.void : offer(known, known.turns.refuse(seqId))
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
