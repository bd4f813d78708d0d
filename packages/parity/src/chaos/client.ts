/**
 * A program that trains several models, samples, lists and reports at once, and writes down how every call ended.
 * Arguments: a JSON object. Run with `--expose-gc`.
 */
import { NodeRuntime } from "@effect/platform-node"
import type { Scope } from "effect"
import { Cause, Effect, Either, Exit, Fiber, Layer, Logger, LogLevel, Option, Schema } from "effect"
import {
  Datum,
  ModelInput,
  RestClient,
  RetryPolicy,
  SamplingClient,
  ServiceClient,
  Tinker,
  TinkerError,
  TrainingClient
} from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { PCGRandom } from "effect/Utils"
import { openSync, writeSync } from "node:fs"
import * as JumpingClock from "./clock.js"
import * as Plan from "./plan.js"

export const Arguments = Schema.parseJson(Schema.Struct({
  baseUrl: Schema.String,
  journal: Schema.String,
  ops: Schema.Int,
  seed: Schema.Int
}))

const { baseUrl, journal, ops, seed } = Schema.decodeSync(Arguments)(process.argv[2] ?? "")

const trainers = 4
const window = 8
const samplers = 24
/** How many of them draw long samples. */
const slow = 2
const callers = 3

/** How many calls of each sort; what is left over is training. */
const share = { sample: Math.floor(ops * 0.4), rest: Math.floor(ops * 0.1) }

/** Samples that are left when nobody waits for anything else. */
const partings = Math.min(8, share.sample)

const unhandled: Array<string> = []
process.on("unhandledRejection", (reason) => unhandled.push(`rejection: ${String(reason)}`))
process.on("uncaughtException", (error) => unhandled.push(`exception: ${error.stack ?? error.message}`))
process.on("warning", (warning) => unhandled.push(`warning: ${warning.message}`))

const file = openSync(journal, "a")
const clock = JumpingClock.make()
const time = new PCGRandom(seed, 1)
const heap: Array<number> = []
const open = new Map<number, { readonly what: string; readonly since: number }>()
const left = {
  sample: share.sample - partings,
  parting: partings,
  rest: share.rest,
  train: ops - share.sample - share.rest
}
let begun = 0
let jumps = 0
let nextJump = 1 + time.integer(Math.ceil(ops / 10))

const collect = () => {
  if (global.gc === undefined) return
  global.gc()
  const { external, heapUsed } = process.memoryUsage()
  heap.push(heapUsed + external)
}

/** The number of a new call, while there are any to make. */
const begin = (sort: keyof typeof left, kind: Plan.Settled["kind"], line: string): number | undefined => {
  if (left[sort] === 0) return undefined
  left[sort]--
  const op = ++begun
  open.set(op, { what: `${kind} ${op} of ${line}`, since: performance.now() })
  if (op % Math.ceil(ops / 40) === 0) collect()
  if (op >= nextJump) {
    clock.jump((time.number() < 0.5 ? -1 : 1) * 3_600_000 * time.number())
    jumps++
    nextJump = op + 1 + time.integer(Math.ceil(ops / 10))
  }
  if (op % 100 === 0) writeSync(1, `progress ${op}\n`)
  return op
}

const sinceBegin = (op: number): number => performance.now() - (open.get(op)?.since ?? NaN)

const nameOf = (exit: Exit.Exit<unknown, unknown>): { readonly exit: string; readonly note?: string } => {
  if (Exit.isSuccess(exit)) return { exit: "ok" }
  if (Cause.isInterruptedOnly(exit.cause)) return { exit: "interrupted" }
  const failure = Cause.failureOption(exit.cause)
  return Option.isSome(failure) && TinkerError.isTinkerError(failure.value)
    ? { exit: failure.value._tag, note: failure.value.message }
    : { exit: "defect", note: Cause.pretty(exit.cause) }
}

type Details = Partial<Pick<Plan.Settled, "requests" | "parts" | "tokens" | "note">>

const settle = (
  op: number,
  kind: Plan.Settled["kind"],
  line: string,
  exit: Exit.Exit<unknown, unknown>,
  details: Details = {}
) => {
  const entry: Plan.Settled = {
    op,
    kind,
    line,
    requests: [],
    parts: 1,
    millis: Math.round(sinceBegin(op)),
    ...nameOf(exit),
    ...details
  }
  open.delete(op)
  writeSync(file, `${JSON.stringify(entry)}\n`)
}

/** A wrong answer is a defect, whatever the server or the network does. */
const expect = (holds: boolean, what: string): Effect.Effect<void> => holds ? Effect.void : Effect.dieMessage(what)

/** Whether the next call is left in the middle. */
const leaves = (random: PCGRandom): boolean => random.number() < 0.04

/** Leaves a call after some milliseconds, if it has not ended by then. */
const leave = <A, E>(millis: number, self: Effect.Effect<A, E>): Effect.Effect<Exit.Exit<A, E>> =>
  Effect.gen(function*() {
    const fiber = yield* Effect.fork(self)
    yield* Effect.sleep(millis)
    const start = performance.now()
    const exit = yield* Fiber.interrupt(fiber)
    const took = performance.now() - start
    return took > Plan.leaveMillis ? Exit.die(`left only after ${Math.round(took)} ms`) : exit
  })

/** Runs a call to its end, or leaves it in the middle. */
const leaving = <A, E>(random: PCGRandom, self: Effect.Effect<A, E>): Effect.Effect<Exit.Exit<A, E>> =>
  leaves(random) ? leave(random.integer(40), self) : Effect.exit(self)

const isLost = (exit: Exit.Exit<unknown, TinkerError.TinkerError>): boolean =>
  Exit.isFailure(exit) && Option.exists(Cause.failureOption(exit.cause), ({ _tag }) => _tag === "NotFound")

/** Checkpoints nobody resumes from any more. */
const disposable: Array<string> = []

/** One model until it is lost or there is nothing left to do. */
const train = Effect.fnUntraced(function*(
  client: TrainingClient.Service,
  line: string,
  random: PCGRandom,
  saved: (path: string) => void
) {
  const places = yield* Effect.makeSemaphore(window)
  let lost = false

  const operation = (kind: Plan.Settled["kind"], op: number, details: { requests: ReadonlyArray<string> }) =>
    Effect.gen(function*() {
      switch (kind) {
        case "step": {
          const future = yield* client.optimStep({ learningRate: Plan.rateOf(op) })
          details.requests = future.requestIds
          const { metrics } = yield* future
          return yield* expect(metrics !== undefined, "a step without metrics")
        }
        case "save": {
          const name = `op${op}`
          const future = yield* client.saveState(name)
          details.requests = future.requestIds
          const { path } = yield* future
          yield* expect(path.endsWith(`/${name}`), `${name} was saved as ${path}`)
          return saved(path)
        }
        default: {
          const data = Array.from(
            { length: 1 + op % 3 },
            (_, part) => Either.getOrThrow(Datum.fromTokens(Plan.mark(op, part, (op + part) % 5)))
          )
          const future = yield* client.forwardBackward(data, "cross_entropy")
          details.requests = future.requestIds
          const result = yield* future
          yield* expect(result.lossFnOutputs.length === data.length, "a pass with other outputs than examples")
          for (const [part, output] of result.lossFnOutputs.entries()) {
            const length = output["logprobs"]?.data.length
            yield* expect(length === 4 + (op + part) % 5, `${length} logprobs for example ${part}`)
          }
        }
      }
    })

  const run = (kind: Plan.Settled["kind"], op: number) =>
    Effect.gen(function*() {
      const details = { requests: [] as ReadonlyArray<string>, parts: kind === "pass" ? 1 + op % 3 : 1 }
      // Without retries a lost response is final for its caller, and the number must still reach the server.
      const sent = random.number() < 0.06
        ? RetryPolicy.provide({ submit: RetryPolicy.never })(operation(kind, op, details))
        : operation(kind, op, details)
      const exit = yield* leaving(random, sent)
      settle(op, kind, line, exit, details)
      if (isLost(exit)) lost = true
    }).pipe(Effect.ensuring(places.release(1)))

  for (let n = 0; !lost; n++) {
    yield* places.take(1)
    const kind = n % 60 === 59 ? "save" : n % 2 === 0 ? "pass" : "step"
    const op = begin("train", kind, line)
    if (op === undefined) {
      yield* places.release(1)
      break
    }
    yield* Effect.fork(run(kind, op))
    // The next one starts after this one has, and often long before it is accepted.
    yield* random.number() < 0.7 ? Effect.yieldNow() : Effect.sleep(random.integer(5))
  }
  yield* places.take(window)
})

const trainer = Effect.fnUntraced(function*(id: number) {
  const random = new PCGRandom(seed, 100 + id)
  let checkpoint: string | undefined
  for (let life = 0;; life++) {
    const line = `model ${id}.${life}`
    const op = begin("train", "create", line)
    if (op === undefined) return
    const path = checkpoint
    yield* Effect.scoped(Effect.gen(function*() {
      const exit = yield* Effect.exit(
        path === undefined
          ? TrainingClient.makeLora({ baseModel: Plan.baseModel, rank: 4, seed: id })
          : TrainingClient.makeFromState({ path, withOptimizer: true })
      )
      settle(op, "create", line, exit)
      if (Exit.isFailure(exit)) return yield* Effect.sleep("200 millis")
      yield* train(exit.value, line, random, (saved) => {
        if (checkpoint !== undefined) disposable.push(checkpoint)
        checkpoint = saved
      })
    })).pipe(
      // A call that was left may have failed later: closing says so, and this program meant to leave it.
      Effect.catchSomeDefect((defect) =>
        defect instanceof TinkerError.UnobservedFailure ? Option.some(Effect.void) : Option.none()
      )
    )
  }
})

/** A client that samples, however often it takes to open it. */
const samplingClient: Effect.Effect<
  SamplingClient.Service,
  never,
  ServiceClient.ServiceClient | Scope.Scope
> = Effect.suspend(() => SamplingClient.make({ baseModel: Plan.baseModel })).pipe(
  Effect.catchAll(() => Effect.zipRight(Effect.sleep("500 millis"), samplingClient))
)

const sampler = Effect.fnUntraced(function*(client: SamplingClient.Service, id: number) {
  const random = new PCGRandom(seed, 200 + id)
  for (;;) {
    const op = begin("sample", "sample", "sampler")
    if (op === undefined) return
    const isLeft = leaves(random)
    const { numSamples, seed, tokens, ...short } = Plan.sampleOf(op)
    // One that will be left is long: it is accepted by then, and the server still at it. And a server that is killed is always
    // at some.
    const isLong = isLeft || id < slow
    const maxTokens = isLong ? Plan.longSample : short.maxTokens
    let drawn: ReadonlyArray<number> = []
    const sample = Effect.flatMap(
      client.sample({ prompt: ModelInput.fromInts(tokens), numSamples, maxTokens, seed, stop: [] }),
      ({ sequences }) => {
        drawn = sequences.flatMap((sequence) => Array.from(sequence.tokens))
        return expect(
          sequences.length === numSamples && drawn.length === numSamples * maxTokens,
          `${sequences.length} sequences of ${drawn.length} tokens`
        )
      }
    )
    const exit = yield* isLeft ? leave(random.integer(200), sample) : Effect.exit(sample)
    const isCompared = !isLong && drawn.length > 0 && op % 10 === 0
    settle(op, "sample", "sampler", exit, isCompared ? { tokens: drawn } : {})
  }
})

/**
 * Leaves a sample that the server has not finished, with no other call that could end the shared poll: no restart of the
 * server, no failure of the poll itself. Only someone who still waits for this sample can keep the poll going after it.
 */
const part = Effect.fnUntraced(function*(client: SamplingClient.Service, id: number) {
  const random = new PCGRandom(seed, 400 + id)
  const op = begin("parting", "sample", "sampler")
  if (op === undefined) return
  const { tokens, ...asked } = Plan.partingOf(op)
  const exit = yield* leave(
    200 + random.integer(400),
    client.sample({ prompt: ModelInput.fromInts(tokens), ...asked, stop: [] })
  )
  settle(op, "sample", "sampler", exit)
})

const caller = Effect.fnUntraced(function*(rest: RestClient.Service, service: ServiceClient.Service, id: number) {
  const random = new PCGRandom(seed, 300 + id)
  const calls: ReadonlyArray<() => Effect.Effect<unknown, TinkerError.TinkerError>> = [
    () => rest.listTrainingRuns({ limit: 5 }),
    () => rest.listUserCheckpoints({ limit: 5 }),
    () => rest.listSessions({ limit: 5 }),
    () => rest.getServerCapabilities,
    () => rest.getApiKey,
    () => Effect.flatMap(service.sessionId, (session) => rest.getSession(session)),
    () => {
      const path = disposable.pop()
      return path === undefined ? rest.getAuditLog() : rest.deleteCheckpoint(path)
    }
  ]
  for (;;) {
    const op = begin("rest", "rest", "rest")
    if (op === undefined) return
    const call = calls[random.integer(calls.length)]
    if (call !== undefined) settle(op, "rest", "rest", yield* leaving(random, Effect.suspend(call)))
    yield* Effect.sleep(random.integer(20))
  }
})

const brief = { base: "50 millis", cap: "2 seconds", budget: "30 seconds" } as const
const policies: RetryPolicy.Policies = {
  ...RetryPolicy.defaults,
  submit: RetryPolicy.backoff(brief),
  poll: RetryPolicy.backoff({
    ...brief,
    while: (error) => error._tag !== "FutureExpired" && TinkerError.isRetryable(error)
  }),
  sample: RetryPolicy.backoff({
    ...brief,
    while: (error) => error._tag !== "RateLimited" && TinkerError.isRetryable(error)
  }),
  restRead: RetryPolicy.backoff(brief),
  restWrite: RetryPolicy.backoff(brief),
  startup: RetryPolicy.backoff(brief)
}

const summary = (hung: ReadonlyArray<string>): Plan.Summary => {
  const { system, user } = process.cpuUsage()
  return { begun, hung, unhandled, clockJumps: jumps, heap, cpuSeconds: (system + user) / 1e6 }
}

const tell = (hung: ReadonlyArray<string>) => writeSync(1, `summary ${JSON.stringify(summary(hung))}\n`)

const overdue = (bound: number): ReadonlyArray<string> =>
  Array.from(open.values()).flatMap(({ since, what }) => {
    const seconds = (performance.now() - since) / 1000
    return seconds * 1000 > bound ? [`${what} for ${Math.round(seconds)} s`] : []
  })

// on the real clock, and outside of everything it watches
const watchdog = setInterval(() => {
  const hung = overdue(Plan.boundMillis)
  if (hung.length === 0) return
  tell(hung)
  process.exit(1)
}, 1_000)

const main = Effect.gen(function*() {
  const service = yield* ServiceClient.ServiceClient
  const rest = yield* RestClient.RestClient
  const sampling = yield* samplingClient
  const many = <A, E, R>(count: number, run: (id: number) => Effect.Effect<A, E, R>) =>
    Effect.forEach(Array.from({ length: count }, (_, id) => id), run, { concurrency: "unbounded", discard: true })
  yield* Effect.all([
    many(trainers, trainer),
    many(samplers, (id) => sampler(sampling, id)),
    many(callers, (id) => caller(rest, service, id))
  ], { concurrency: "unbounded", discard: true })
  yield* many(partings, (id) => part(sampling, id))
  // Nothing is left to wait for: from here to the end the shared poll of the samples must be silent.
  writeSync(1, "quiet\n")
  yield* Effect.sleep(Plan.quietMillis)
  writeSync(1, "over\n")
}).pipe(Effect.scoped)

const options = { baseUrl, apiKey: Plan.apiKey, timeout: "3 seconds" } as const

const clients = Tinker.layer(options).pipe(
  Layer.provide(NodeTinker.layer()),
  Layer.provide(Layer.succeed(RetryPolicy.RetryPolicy, policies)),
  Layer.provideMerge(Layer.setClock(clock.clock)),
  Layer.provide(Logger.minimumLogLevel(LogLevel.None))
)

NodeRuntime.runMain(
  main.pipe(
    Effect.provide(clients),
    Effect.tapErrorCause((cause) => Effect.sync(() => unhandled.push(`main: ${Cause.pretty(cause)}`))),
    Effect.ensuring(Effect.sync(() => {
      clearInterval(watchdog)
      tell(overdue(0))
    }))
  )
)
