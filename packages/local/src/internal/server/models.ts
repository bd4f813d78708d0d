/**
 * Models in training: each with its adapter, the order of its requests, and the fiber that works on them.
 */
import { parseJson } from "effect-tinker/wire/Endpoint"
import type { UntypedFuture } from "effect-tinker/wire/Future"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as EngineError from "../../EngineError.js"
import type { Adapter, Snapshot } from "../../LocalAdapter.js"
import type { Future, OperationError, Outcome } from "./futures.js"
import { accepted, Futures, Gate, toOutcome } from "./futures.js"
import { fingerprint } from "./identity.js"
import type { Usage } from "./ledger.js"
import type { HttpFailure } from "./message.js"
import { badRequest, conflict, gone, notFound, tooMany } from "./message.js"
import type { Call, Failure } from "./router.js"
import type { RunRecord } from "./runs.js"
import { Runs } from "./runs.js"
import { Sessions } from "./sessions.js"
import { Settings } from "./settings.js"
import { Trace } from "./trace.js"

/**
 * The order of one model's requests. Each has a number; they run 1, 2, 3, … however they arrive, and a missing number
 * holds back those after it.
 *
 * @internal
 */
export interface Turns<A> {
  /** Operation accepted under a number. */
  readonly find: (seq: number) => A | undefined
  /** Whether the number was skipped: later ones have run. */
  readonly missed: (seq: number) => boolean
  /** Accepts a request; returns those whose turn has come, in order. */
  readonly accept: (seq: number, value: A) => ReadonlyArray<A>
  /** Releases the number of a refused request, so that later ones do not wait for it. */
  readonly refuse: (seq: number) => ReadonlyArray<A>
  /** The number for a request that has none. */
  readonly free: () => number
  /** The number the others wait for, if any do. */
  readonly gap: () => number | undefined
}

// A request is repeated soon or never: this many that have had their turn are remembered.
const remembered = 10_000

/** @internal */
export const makeTurns = <A>(): Turns<A> => {
  const accepted = new Map<number, A>()
  const refused = new Set<number>()
  let next = 1
  let last = 0

  const advance = (): ReadonlyArray<A> => {
    const ready: Array<A> = []
    while (next <= last) {
      const value = accepted.get(next)
      if (value !== undefined) ready.push(value)
      else if (!refused.has(next)) break
      accepted.delete(next - remembered)
      refused.delete(next - remembered)
      next++
    }
    return ready
  }

  return {
    find: (seq) => accepted.get(seq),
    missed: (seq) => seq < next && !accepted.has(seq),
    accept: (seq, value) => {
      accepted.set(seq, value)
      refused.delete(seq)
      last = Math.max(last, seq)
      return advance()
    },
    // not counted in `last`: until something follows, the number may be used again
    refuse: (seq) => {
      if (!accepted.has(seq) && seq < next + remembered) refused.add(seq)
      return advance()
    },
    free: () => {
      let seq = Math.max(next, last + 1)
      while (refused.has(seq)) seq++
      return seq
    },
    gap: () => next <= last ? next : undefined
  }
}

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
  readonly turns: Turns<Future>
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
        if (queuedBytes > 0 && queuedBytes + options.bytes > limits.queuedBytes) {
          return yield* tooMany(`${queuedBytes} bytes of training requests are waiting; send more as they finish`)
        }
        const future = yield* futures.open({
          requestId: `${id}:${seq}`,
          owner: model.owner,
          sessionId: model.sessionId,
          fingerprint: options.fingerprint,
          report: report(turns)
        })
        // Copies of one request may be prepared concurrently; the first to arrive here counts.
        const earlier = yield* repeated(id, turns, seq, options.fingerprint)
        if (earlier !== undefined) return earlier
        const { bytes, name, run } = options
        model.open.set(future, { name, bytes, run })
        queuedBytes += bytes
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

/** View of a model from its operations. @internal */
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
      bytes: call.body.length,
      run: operation
    })
  })
  const future = yield* Effect.tapError(
    submit,
    // a request that is to be tried again keeps its number
    (error) => error._tag === "HttpFailure" && error.status === 429 ? Effect.void : models.refuse(model, request.seqId)
  )
  return accepted(future, { modelId: model.id })
})

const varint = (bytes: Uint8Array, from: number): readonly [value: number, next: number] => {
  let value = 0
  for (let at = from, scale = 1; at < bytes.length && at < from + 10; at++, scale *= 128) {
    const byte = bytes[at] ?? 0
    value += (byte & 0x7f) * scale
    if (byte < 0x80) return [value, at + 1]
  }
  return [value, bytes.length]
}

/** The model and the number of a request in protobuf, fields 1 and 2, whatever else is wrong with it. */
const readIds = (bytes: Uint8Array): { readonly modelId: unknown; readonly seqId: unknown } => {
  let modelId: string | undefined
  let seqId: number | undefined
  for (let at = 0; at < bytes.length && (modelId === undefined || seqId === undefined);) {
    const [tag, start] = varint(bytes, at)
    const [value, next] = varint(bytes, start)
    if (tag === 16) seqId = value
    if (tag === 10) modelId = new TextDecoder().decode(bytes.subarray(next, next + value))
    if ((tag & 7) !== 0 && (tag & 7) !== 2) break
    at = (tag & 7) === 2 ? next + value : next
  }
  return { modelId, seqId }
}

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

/** Where the squares of weights overflow in 32 bits, nothing the model computes is finite any more. */
const largestWeight = 1e18

const checkTensor = ({ data, name }: Snapshot["weights"][number]): Effect.Effect<void, EngineError.NotFinite> => {
  for (let i = 0; i < data.length; i++) {
    // NaN compares false
    if (!(Math.abs(data[i] ?? 0) < largestWeight)) {
      return new EngineError.NotFinite({ description: `the weights have diverged: ${name} holds ${data[i]}` })
    }
  }
  return Effect.void
}

/** Fails when the weights are not finite, or so large that nothing computed from them is. @internal */
export const checkWeights = (
  snapshot: Pick<Snapshot, "weights">
): Effect.Effect<void, EngineError.NotFinite> => Effect.forEach(snapshot.weights, checkTensor, { discard: true })
