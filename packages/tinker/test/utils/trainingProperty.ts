import { assert } from "@effect/vitest"
import { Deferred, Effect, Either, Exit, Fiber, FiberId, Layer, Option, Schedule } from "effect"
import * as fc from "effect/FastCheck"
import {
  Datum,
  Loss,
  RetryPolicy,
  ServiceClient,
  type TinkerError,
  TinkerFuture,
  TrainingClient
} from "../../src/index.js"
import * as Server from "./recordingServer.js"
import * as Training from "./trainingServer.js"

const models = 3

/** What one attempt of a request meets. */
const outcome = fc.oneof(
  { weight: 6, arbitrary: fc.constant("accept" as const) },
  { weight: 2, arbitrary: fc.constant("unavailable" as const) },
  { weight: 1, arbitrary: fc.constant("refuse" as const) },
  { weight: 1, arbitrary: fc.constant("turnAway" as const) },
  { weight: 1, arbitrary: fc.constant("hold" as const) }
)

const operation = fc.record({
  model: fc.nat({ max: models - 1 }),
  /** How many requests the operation takes: 0 is an optimizer step. */
  pieces: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 4 }) }),
  outcomes: fc.array(outcome, { minLength: 1, maxLength: 3 }),
  delay: fc.nat({ max: 4 }),
  poll: fc.constantFrom("none" as const, "result" as const, "failure" as const, "hold" as const),
  /** What the plan does after starting it. */
  pause: fc.nat({ max: 12 }),
  interrupt: fc.option(fc.nat({ max: 25 }), { freq: 2 }),
  release: fc.boolean()
})

/** At least 20 operations on several models. */
export const plan = fc.record({
  parallel: fc.boolean(),
  operations: fc.array(operation, { minLength: 20, maxLength: 26 })
})

export type Plan = typeof plan extends fc.Arbitrary<infer A> ? A : never

const settle = (n: number) => Effect.yieldNow().pipe(Effect.repeatN(n))

const datum = Either.getOrThrow(Datum.fromTokens([1, 2]))

/** What takes the number of a request that was not taken. */
const isPlaceholder = ({ pass }: Training.Numbered): boolean => pass?.forwardOnly === true

/** The operation a request belongs to: it travels as the learning rate, or as a setting of the loss. */
const ownerOf = ({ json, pass }: Training.Numbered): number => {
  const adam = json["adam_params"]
  if (pass !== undefined) return Number(pass.lossFnConfig?.["owner"])
  return typeof adam === "object" && adam !== null && "learning_rate" in adam ? Number(adam.learning_rate) : Number.NaN
}

/** Runs a plan and checks G1 to G4 on what the server has seen. */
export const check = Effect.fnUntraced(function*({ operations, parallel }: Plan) {
  const tries = new Map<string, number>()
  const busy = new Map<string, number>()
  /** What a gateway answered in the server's place. */
  const unseen = new Set<Server.Seen>()
  /** Numbers of each model the server has answered for good. */
  const used = new Map<string, Set<number>>()
  const use = ({ modelId, seqId }: Training.Numbered) => used.set(modelId, (used.get(modelId) ?? new Set()).add(seqId))
  let gate = yield* Deferred.make<void>()
  let free = false
  const held = Effect.suspend(() => free ? Effect.void : Deferred.await(gate))

  const server = Training.make({
    config: { fwdbwd_max_chunk_len: 1, parallel_fwdbwd_chunks: parallel },
    accept: (request) => {
      const owner = ownerOf(request)
      const own = operations[owner]
      if (own === undefined) {
        use(request)
        return undefined
      }
      const key = `${request.modelId}/${request.seqId}`
      const attempt = tries.get(key) ?? 0
      tries.set(key, attempt + 1)
      return Effect.gen(function*() {
        // The turn covers the send: nobody else of this model is on the wire.
        const other = busy.get(request.modelId)
        assert.isTrue(other === undefined || other === owner, `operation ${owner} overlaps ${other}`)
        busy.set(request.modelId, owner)
        yield* settle(own.delay)
        const met = own.outcomes[Math.min(attempt, own.outcomes.length - 1)]
        if (met === "hold") yield* held
        busy.delete(request.modelId)
        if (met === "unavailable") return Server.refuse(503)
        if (met === "turnAway") {
          unseen.add(request.seen)
          return Server.refuse(403, "<html>blocked</html>")
        }
        use(request)
        return met === "refuse" ? Server.refuse(422) : undefined
      }).pipe(Effect.ensuring(Effect.sync(() => busy.delete(request.modelId))))
    },
    result: (request) => {
      const own = request === undefined ? undefined : operations[ownerOf(request)]
      if (own?.poll === "failure") return Server.json({ error: "no", category: "server" })
      return own?.poll === "hold" ? Effect.as(held, undefined) : undefined
    }
  })

  const context = yield* Layer.build(server.leanService)
  const clients = yield* Effect.provide(
    Effect.replicateEffect(TrainingClient.makeLora({ baseModel: "base" }), models),
    context
  )
  const clientOf = (model: number) => Option.getOrThrow(Option.fromNullable(clients[model]))

  const start = (id: number): Effect.Effect<void, TinkerError.TinkerError> => {
    const own = operations[id]
    if (own === undefined) return Effect.void
    const client = clientOf(own.model)
    const wait = <A>(future: TinkerFuture.TinkerFuture<A>) =>
      Effect.zipRight(TinkerFuture.ignore(future), own.poll === "none" ? Effect.void : Effect.asVoid(future))
    return Effect.asVoid(
      own.pieces === 0
        ? Effect.flatMap(client.optimStep({ learningRate: id }), wait)
        : Effect.flatMap(
          client.forwardBackward(
            Array.from({ length: own.pieces }, () => datum),
            Loss.other("cross_entropy", { owner: id })
          ),
          wait
        )
    )
  }

  const fibers: Array<Fiber.RuntimeFiber<void, TinkerError.TinkerError>> = []
  const interrupted = new Set<number>()
  const queued = new Set<number>()
  for (let id = 0; id < operations.length; id++) {
    fibers.push(yield* Effect.fork(start(id)))
    const own = operations[id]
    if (own === undefined) continue
    yield* settle(own.pause)
    if (own.release) {
      const opened = gate
      gate = yield* Deferred.make<void>()
      yield* Deferred.succeed(opened, undefined)
    }
    const target = own.interrupt === null ? undefined : fibers[own.interrupt]
    if (own.interrupt === null || target === undefined || Option.isSome(yield* Fiber.poll(target))) continue
    const leaver = own.interrupt
    interrupted.add(leaver)
    // In one step, so that the line cannot move between the look and the interruption: somebody else of the same model
    // is on the wire, so this one is still in line.
    yield* Effect.sync(() => {
      const onWire = busy.get(clientOf(operations[leaver]?.model ?? 0).modelId)
      if (onWire !== undefined && onWire < leaver) queued.add(leaver)
      target.unsafeInterruptAsFork(FiberId.none)
    })
    yield* settle(40)
    // G2 G3: whoever leaves is gone at once, whatever the server does.
    assert.isTrue(Option.isSome(yield* Fiber.poll(target)), `operation ${leaver} did not leave`)
  }

  // G4: everything settles once the server lets go, and the next operation of each model is served.
  free = true
  yield* Deferred.succeed(gate, undefined)
  const exits = yield* Effect.forEach(fibers, Fiber.await)
  for (let model = 0; model < models; model++) {
    yield* Effect.flatten(clientOf(model).optimStep({ learningRate: 1000 }))
  }

  exits.forEach((exit, id) => {
    if (!interrupted.has(id)) assert.isFalse(Exit.isInterrupted(exit), `operation ${id} was lost`)
  })
  for (let model = 0; model < models; model++) {
    const { modelId } = clientOf(model)
    const arrived = server.log.filter((request) => request.modelId === modelId && !unseen.has(request.seen))
    // G4: the server waits for no number.
    const answered = [...(used.get(modelId) ?? [])].sort((a, b) => a - b)
    assert.deepStrictEqual(answered, answered.map((_, i) => i + 1))
    const requests = arrived.filter((request) => !isPlaceholder(request))
    const owners = new Map<number, number>()
    const keys = new Map<number, string>()
    for (const request of requests) {
      const owner = ownerOf(request)
      // G1: a number belongs to one operation, and a resend carries the same key.
      assert.strictEqual(owners.get(request.seqId) ?? owner, owner)
      assert.strictEqual(keys.get(request.seqId) ?? request.key, request.key)
      owners.set(request.seqId, owner)
      keys.set(request.seqId, request.key)
    }
    // G1: numbers are dense, and follow the order in which the operations started.
    const numbers = [...owners.keys()].sort((a, b) => a - b)
    const all = [...new Set(arrived.map(({ seqId }) => seqId))].sort((a, b) => a - b)
    assert.deepStrictEqual(all, all.map((_, i) => i + 1))
    const order = numbers.map((number) => owners.get(number) ?? -1)
    assert.deepStrictEqual(order, [...order].sort((a, b) => a - b))
    // Arrival, too: an operation comes after the one before. What got no answer may come once more, before the next.
    const arrivals = [...new Set(requests.map(ownerOf))]
    assert.deepStrictEqual(arrivals, [...arrivals].sort((a, b) => a - b))
    // G2: what left the line was never sent; what stayed was.
    const sent = new Set(server.log.filter((request) => request.modelId === modelId).map(ownerOf))
    operations.forEach((own, id) => {
      if (own.model !== model) return
      if (queued.has(id)) assert.isFalse(sent.has(id), `operation ${id} was sent after it had left the line`)
      if (!interrupted.has(id)) assert.isTrue(sent.has(id), `operation ${id} was never sent`)
    })
  }
  const polls = server.of("retrieve_future")
  assert.isTrue(polls.every(({ aborted, answered }) => aborted || answered))
  const service = yield* Effect.provide(ServiceClient.ServiceClient, context)
  assert.deepStrictEqual(yield* service.health, { _tag: "Alive" })
})

/** Retries without delays: the property is about order, not about time. */
export const atOnce = RetryPolicy.provide({
  submit: Schedule.recurs(2).pipe(Schedule.whileInput((error: TinkerError.TinkerError) => error._tag === "Unavailable"))
})
