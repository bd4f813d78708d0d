/**
 * A model on one thread: passes over parts of a batch, and samples. Passes have one set of buffers and samples another,
 * so that a sample runs beside a pass; each set has one user at a time, in the order of asking.
 */
import * as Permits from "@effect-tinker/platform/Permits"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { Result, Slice } from "../../LocalSampler.js"
import type { LoraSettings } from "./architecture.js"
import { makeLora } from "./architecture.js"
import type { Adapted } from "./factors.js"
import { makeTrainingInstaller } from "./factors.js"
import type { Native } from "./native.js"
import { addPart, failPass, gradientOf, partAt, takePart } from "./parts.js"
import type { SharedPass } from "./parts.js"
import { pass } from "./pass.js"
import type { Query, Task } from "./requests.js"
import { drawStep, makeSampleRun, makeSamplingThread, together } from "./sampling.js"
import type { RunWeights, SampleRun, TokenBytes } from "./sampling.js"
import type { Slices } from "./slices.js"
import type { Space, Work } from "./space.js"
import { makeAddInto } from "./vectors.js"

/** An adapter's factors; `key` stands for these values and no others, so that a thread knows which weights it has ready. @internal */
export interface AdapterJob {
  readonly key: number
  readonly lora: LoraSettings
  readonly values: Float32Array
}

/** A pass, which the threads that are given it share. All of it can be sent to another thread. @internal */
export interface PassJob {
  readonly adapter: AdapterJob
  readonly task: Pick<Task, "config" | "forwardOnly" | "loss">
  readonly shared: SharedPass
}

/** Weights that samples follow. @internal */
export interface Live {
  /** Which weights: publishing replaces those of all running samples with the same number. */
  readonly target: number
  /** Samples with the same number share the keys and values of what they read, whatever weights made them. */
  readonly namespace: number
}

/** @internal */
export interface SampleJob {
  /** Absent: the frozen weights. */
  readonly adapter: AdapterJob | undefined
  /** Set when the weights may be replaced while the sample runs. */
  readonly live?: Live | undefined
  readonly query: Query
  readonly seed: number
}

/** A model on a thread; `E` is how the way to the thread can fail. @internal */
export interface ModelThread<out E = never> {
  /** Computes parts until all are taken. */
  readonly pass: (job: PassJob) => Effect.Effect<void, E>
  /** Draws to the end; undefined when the weights give no probabilities any more. */
  readonly sample: (job: SampleJob) => Effect.Effect<Result | undefined, E>
  /** The same tokens while they are drawn. */
  readonly stream: (job: SampleJob) => Stream.Stream<Slice, E>
  /** Replaces the weights of a target from the next token on; running samples go on, and nothing waits for them. */
  readonly publish: (target: number, adapter: AdapterJob) => Effect.Effect<void>
  /** Prompt tokens that did not have to be read again. */
  readonly reused: Effect.Effect<number, E>
}

/** A run that waits for tokens. */
interface Drawing {
  readonly run: SampleRun
  /** How many are still to be drawn. */
  tokens: number
  leads: boolean
  /** To lead, or that everything is drawn. */
  readonly call: Deferred.Deferred<"lead" | "drawn">
}

// Tokens per turn: enough to be worth bringing the weights into place, few enough that others wait only milliseconds.
const tokensPerTurn = 16

// A reader sees words grow, at the price of more turns.
const tokensPerSlice = 4

// Much less than a part takes.
const untilAdded = "1 millis"

/** @internal */
export const makeModelThread = (
  slices: Slices,
  space: Space,
  tokenBytes: TokenBytes,
  native: Native | undefined
): ModelThread => {
  const { architecture } = space
  const addInto = makeAddInto(native)
  const training = Permits.unsafeMake(1).withPermits(1)
  const sampling = Permits.unsafeMake(1).withPermits(1)
  const installer = makeTrainingInstaller(space)
  const samples = makeSamplingThread(space, tokenBytes)
  let roomFreed = Deferred.unsafeMake<void>(FiberId.none)
  const released = Effect.suspend(() => {
    const before = roomFreed
    roomFreed = Deferred.unsafeMake<void>(FiberId.none)
    return Deferred.succeed(before, undefined)
  })
  // the layout of an adapter is looked up for every part and sample
  const adaptedOf = ({ key, lora, values }: AdapterJob): Adapted => ({
    key,
    lora: makeLora(architecture, lora),
    values
  })
  /** Targets that samples follow now. Later samples bring their weights with them. */
  const targets = new Map<number, { adapted: Adapted; followers: number }>()
  const publish = (target: number, adapter: AdapterJob): void => {
    const known = targets.get(target)
    // keys grow: what arrives late replaces nothing
    if (known !== undefined && known.adapted.key < adapter.key) known.adapted = adaptedOf(adapter)
  }
  const follow = ({ namespace, target }: Live, adapter: AdapterJob): RunWeights => {
    const known = targets.get(target) ?? { adapted: adaptedOf(adapter), followers: 0 }
    targets.set(target, known)
    known.followers++
    publish(target, adapter)
    return { namespace, current: () => known.adapted }
  }
  const leave = ({ target }: Live): void => {
    const known = targets.get(target)
    if (known !== undefined && --known.followers === 0) targets.delete(target)
  }
  const weightsOf = ({ adapter, live }: SampleJob): RunWeights => {
    if (adapter !== undefined && live !== undefined) return follow(live, adapter)
    const adapted = adapter === undefined ? undefined : adaptedOf(adapter)
    // the frozen weights have the number 0
    return { namespace: adapted?.key ?? 0, current: () => adapted }
  }
  const acquire = (job: SampleJob) =>
    Effect.sync((): SampleRun => {
      const run = makeSampleRun(samples, weightsOf(job), job.query, job.seed)
      const { live } = job
      return live === undefined ? run : {
        ...run,
        release: () => {
          leave(live)
          run.release()
        }
      }
    })
  const release = (run: SampleRun) => Effect.zipRight(Effect.sync(run.release), released)
  /** Runs whose fibers wait for tokens, in the order of asking. One of the fibers leads: it draws for all of them. */
  const drawing = new Set<Drawing>()
  const standDown = (one: Drawing) =>
    Effect.sync(() => {
      drawing.delete(one)
      if (!one.leads) return
      const [next] = drawing
      if (next === undefined) return
      next.leads = true
      Deferred.unsafeDone(next.call, Effect.succeed("lead"))
    })
  /** One token for all that can be computed together; broken off with its leader, it is done again by the next. */
  const step = (leader: Drawing) =>
    Effect.suspend(() => {
      const others = Array.from(drawing).filter((one) => one !== leader)
      const runs = new Map([leader, ...others].map((one) => [one.run, one]))
      const chosen = together(samples, Array.from(runs.keys()))
      return Effect.zipRight(
        slices.run(() => drawStep(samples, chosen)),
        Effect.sync(() => {
          for (const run of chosen) {
            const one = runs.get(run)
            if (one === undefined) continue
            one.tokens--
            if (one.tokens > 0 && run.active().length > 0) continue
            one.tokens = 0
            drawing.delete(one)
            if (one !== leader) Deferred.unsafeDone(one.call, Effect.succeed("drawn"))
          }
        })
      )
    })
  const lead = (one: Drawing): Effect.Effect<void> =>
    Effect.suspend(() => one.tokens === 0 ? Effect.void : Effect.zipRight(step(one), lead(one)))
  /**
   * Draws so many tokens of each completion of a run, or fewer if all end. A run that is interrupted leaves the line, at
   * whichever operation: otherwise the others would wait for a leader that no longer exists.
   */
  const drawSome = (run: SampleRun, tokens: number): Effect.Effect<void> =>
    Effect.uninterruptibleMask((restore) => {
      const one: Drawing = { run, tokens, leads: drawing.size === 0, call: Deferred.unsafeMake(FiberId.none) }
      drawing.add(one)
      const called = one.leads ? Effect.succeed("lead" as const) : Deferred.await(one.call)
      return Effect.ensuring(
        restore(Effect.flatMap(called, (call) => call === "lead" ? sampling(lead(one)) : Effect.void)),
        standDown(one)
      )
    })
  /** Advances by so many tokens, once there is room to. */
  const advance = (run: SampleRun, tokens: number): Effect.Effect<"more" | "done"> =>
    Effect.suspend(() => {
      if (run.active().length > 0) {
        return Effect.map(drawSome(run, tokens), () => run.isDone() ? "done" : "more")
      }
      const room = Deferred.await(roomFreed)
      return Effect.flatMap(
        sampling(slices.run(run.prepare)),
        (state) => state === "no room" ? Effect.zipRight(room, advance(run, tokens)) : Effect.succeed(state)
      )
    })
  const complete = (run: SampleRun): Effect.Effect<Result | undefined> =>
    Effect.flatMap(advance(run, tokensPerTurn), (state) => {
      if (run.hasReadPrompt() && !run.healthy()) return Effect.succeed(undefined)
      return state === "done" ? Effect.sync(run.result) : complete(run)
    })
  function* computePart({ adapter, shared, task }: PassJob, part: number): Work<void> {
    const gradient = gradientOf(shared, part)
    const isFinite = yield* pass(
      space,
      installer,
      adaptedOf(adapter),
      task,
      shared.batch,
      partAt(shared, part),
      gradient
    )
    if (isFinite) yield* addPart(shared, part, addInto)
    else failPass(shared)
  }
  /** Parts of other passes have their turn between those of this one. */
  const computeNext = (job: PassJob) =>
    training(Effect.suspend(() => {
      const part = takePart(job.shared)
      return typeof part === "string"
        ? Effect.succeed(part)
        : Effect.as(slices.run(() => computePart(job, part)), "computed")
    }))
  return {
    pass: Effect.fnUntraced(function*(job) {
      for (;;) {
        const state = yield* computeNext(job)
        if (state === "none") return
        if (state === "full") yield* Effect.sleep(untilAdded)
      }
    }),
    sample: (job) => Effect.acquireUseRelease(acquire(job), complete, release),
    stream: (job) =>
      Stream.unwrapScoped(Effect.map(
        Effect.acquireRelease(acquire(job), release),
        (run) =>
          Stream.paginateChunkEffect(undefined, () =>
            Effect.map(advance(run, tokensPerSlice), (state) => [
              Chunk.unsafeFromArray(run.take()),
              state === "done" ? Option.none() : Option.some(undefined)
            ]))
      )),
    publish: (target, adapter) => Effect.sync(() => publish(target, adapter)),
    reused: Effect.sync(samples.cache.reused)
  }
}
