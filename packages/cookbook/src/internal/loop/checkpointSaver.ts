/**
 * Checkpoints of a run: when one is due, its name and how long it is kept, the save itself, its record in the journal, and
 * the warning before the latest one expires.
 */
import * as RestClient from "effect-tinker/RestClient"
import type * as TinkerError from "effect-tinker/TinkerError"
import type * as TrainingClient from "effect-tinker/TrainingClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as Option from "effect/Option"
import * as CheckpointPolicy from "../../CheckpointPolicy.js"
import type * as Cost from "../../Cost.js"
import type * as Dataset from "../../Dataset.js"
import * as RunEntry from "../../RunEntry.js"
import * as RunLog from "../../RunLog.js"
import * as Notes from "./notes.js"

/** State of a run after so many steps, as a checkpoint records it. @internal */
export interface Snapshot {
  readonly step: number
  readonly position: Dataset.Position
  readonly cost: Cost.Totals
  /** State of the trainer beside the weights and the position. */
  readonly state: unknown
}

type SaveError = TinkerError.TinkerError | RunLog.RunLogError

/** A save that the server has accepted: waits for it and records it. @internal */
export type Save = Effect.Effect<RunEntry.Checkpoint, SaveError>

type Policy = ReturnType<typeof CheckpointPolicy.resolve>

// =============================================================================
// cadence
// =============================================================================

/** Steps and tokens since a point in time. */
interface Counter {
  readonly steps: number
  readonly tokens: number
  readonly at: number
}

/** What has happened since the last checkpoint of each cadence. @internal */
export interface Counters {
  readonly periodic: Counter
  readonly rolling: Counter
}

const zero = (at: number): Counter => ({ steps: 0, tokens: 0, at })

/** @internal */
export const startCounters = (at: number): Counters => ({ periodic: zero(at), rolling: zero(at) })

/** Counts a step; a checkpoint that is due starts its counter again, a periodic one both. @internal */
export const countStep = (
  policy: Pick<Policy, "periodic" | "rolling">,
  { periodic, rolling }: Counters,
  tokens: number,
  now: number
): { readonly due: Option.Option<"periodic" | "rolling">; readonly counters: Counters } => {
  const plus = (counter: Counter): Counter => ({
    steps: counter.steps + 1,
    tokens: counter.tokens + tokens,
    at: counter.at
  })
  const counters = { periodic: plus(periodic), rolling: plus(rolling) }
  const isDue = (kind: "periodic" | "rolling") => {
    const { at, steps, tokens } = counters[kind]
    return CheckpointPolicy.isDue(policy[kind], { steps, tokens, millis: now - at })
  }
  if (isDue("periodic")) return { due: Option.some("periodic"), counters: startCounters(now) }
  if (isDue("rolling")) return { due: Option.some("rolling"), counters: { ...counters, rolling: zero(now) } }
  return { due: Option.none(), counters }
}

// =============================================================================
// names
// =============================================================================

/** Name of a checkpoint: those of one kind sort by their steps. @internal */
export const nameOf = (kind: RunEntry.CheckpointKind, step: number): string => {
  if (kind === "final") return "final"
  const number = String(step).padStart(6, "0")
  return kind === "periodic" ? number : `${kind}-${number}`
}

const ttlOf = (policy: Policy, kind: RunEntry.CheckpointKind): number | undefined =>
  kind === "final" ? undefined : kind === "rolling" ? policy.rollingTtl : policy.ttl

// =============================================================================
// the saver
// =============================================================================

/** @internal */
export interface Options extends Notes.Options {
  readonly training: Pick<TrainingClient.Service, "saveState" | "saveWeightsForSampler">
  readonly policy: Policy
  /** Steps the run begins or goes on with. */
  readonly step: number
}

/** @internal */
export const make = Effect.fnUntraced(function*(options: Options) {
  const { log, policy, training } = options
  const rest = yield* Effect.serviceOption(RestClient.RestClient)
  const background = yield* FiberSet.make<void, SaveError>()
  const recorded: Array<RunEntry.Checkpoint> = Option.match(log.resumed, {
    onNone: () => [],
    onSome: ({ run }) => [...run.checkpoints]
  })
  const warned = new Set<string>()
  let counters = startCounters(yield* Clock.currentTimeMillis)
  let lastSaved = options.step
  /** The rolling checkpoint that the next one takes the place of. */
  let rolling = Option.none<RunEntry.Checkpoint>()

  const remove = ({ name, statePath }: RunEntry.Checkpoint) =>
    Option.match(rest, {
      onNone: () => Effect.void,
      onSome: (client) =>
        client.deleteCheckpoint(statePath).pipe(
          Effect.tapError((error) =>
            Notes.annotated(options.trainer)(Effect.logWarning(`${name} was not deleted: ${error.message}`))
          ),
          Effect.ignore
        )
    })

  const record = Effect.fnUntraced(function*(entry: Omit<RunEntry.Checkpoint, "time" | "_tag">) {
    yield* log.append({ ...entry, _tag: "Checkpoint" })
    const saved = new RunEntry.Checkpoint({ ...entry, time: yield* Clock.currentTimeMillis })
    recorded.push(saved)
    lastSaved = Math.max(lastSaved, saved.step)
    if (entry.kind === "rolling") {
      const previous = rolling
      rolling = Option.some(saved)
      if (Option.isSome(previous)) yield* remove(previous.value)
    }
    return saved
  })

  /** Submits a save of the steps submitted so far. */
  const save = Effect.fnUntraced(function*(kind: RunEntry.CheckpointKind, snapshot: Snapshot) {
    const { cost, position, state, step } = snapshot
    const ttl = ttlOf(policy, kind)
    const name = nameOf(kind, step)
    const settings = ttl === undefined ? {} : { ttlSeconds: Math.max(1, Math.round(ttl / 1000)) }
    const expiresAt = ttl === undefined ? undefined : (yield* Clock.currentTimeMillis) + ttl
    const weights = yield* training.saveState(name, settings)
    const sampler = kind === "periodic" || kind === "final"
      ? Option.some(yield* training.saveWeightsForSampler(name, settings))
      : Option.none()
    const accepted: Save = Effect.gen(function*() {
      const { path: statePath } = yield* weights
      const samplerPath = Option.isSome(sampler) ? (yield* sampler.value).path : undefined
      return yield* record({ name, kind, step, position, statePath, samplerPath, expiresAt, cost, state })
    })
    return accepted
  })

  return {
    save,

    /** Submits a save behind a step of so many tokens, if one is due. */
    saveIfDue: Effect.fnUntraced(function*(tokens: number, snapshot: Snapshot) {
      const { counters: counted, due } = countStep(policy, counters, tokens, yield* Clock.currentTimeMillis)
      counters = counted
      return Option.isNone(due) ? Option.none<Save>() : Option.some(yield* save(due.value, snapshot))
    }),

    /** Waits for a save, or lets it go on in the background. */
    settle: (accepted: Save): Effect.Effect<void, SaveError> =>
      policy.background
        ? Effect.asVoid(FiberSet.run(background, Effect.asVoid(accepted)))
        : Effect.asVoid(accepted),

    /** Waits for the saves in the background. */
    awaitBackground: FiberSet.awaitEmpty(background),

    /** Fails when a save in the background does; never ends otherwise. */
    backgroundFailure: FiberSet.join(background),

    /** Steps of the newest checkpoint. */
    lastSaved: () => lastSaved,

    /** The newest checkpoint of fewer steps that is still there. */
    latestBefore: (step: number): Effect.Effect<Option.Option<RunEntry.Checkpoint>> =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const newest = Math.max(...recorded.map((found) => found.kind === "rolling" ? found.step : 0))
        const kept = recorded.filter((found) =>
          found.step < step && (found.kind !== "rolling" || found.step === newest)
        )
        return RunLog.latestCheckpoint({ checkpoints: kept }, now)
      }),

    /** Warns once when the latest checkpoint is about to expire. */
    warnOfExpiry: Effect.fnUntraced(function*(step: number) {
      const time = yield* Clock.currentTimeMillis
      for (const found of RunLog.expiring({ checkpoints: recorded }, time, Infinity)) {
        const left = (found.expiresAt ?? Infinity) - time
        if (warned.has(found.name) || left > policy.warnBefore((found.expiresAt ?? Infinity) - found.time)) continue
        warned.add(found.name)
        const minutes = Math.round(left / 60_000)
        yield* Notes.warn(options, step, `the latest checkpoint, ${found.name}, expires in ${minutes} minutes`)
      }
    })
  }
})
