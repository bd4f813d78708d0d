import { Dataset } from "@effect-tinker/cookbook"
import { assert, describe, it } from "@effect/vitest"
import { Workflow, WorkflowEngine } from "@effect/workflow"
import { Effect, Layer, Logger, Option, Queue, Schema } from "effect"
import type { Attempts } from "../src/internal/durable/attempts.js"
import * as Body from "../src/internal/durable/body.js"
import type { Event, Outcome, Segment } from "../src/internal/durable/segment.js"

const checkpoint = (step: number) => ({
  name: `s${step}`,
  step,
  position: Dataset.start(),
  statePath: `tinker://run/weights/s${step}`
})

const advanced = (step: number, complete = false): Segment => ({
  _tag: "Advanced",
  checkpoint: checkpoint(step),
  complete
})

/** The body over segments that end as a test says, in an engine in memory. */
const run = Effect.fnUntraced(function*(segments: ReadonlyArray<Segment>, evaluateEvery: number) {
  const events = yield* Queue.unbounded<Event>()
  const froms: Array<readonly [n: number, from: number]> = []
  const evaluated: Array<number> = []
  const recorded: Array<number> = []
  let completed = 0
  let ended: Outcome | undefined
  const attempts: Attempts<never> = {
    attempt: (n, from) =>
      Effect.suspend(() => {
        froms.push([n, from])
        const segment = segments[n - 1]
        return segment === undefined ? Effect.dieMessage(`there is no segment ${n}`) : Effect.succeed(segment)
      }),
    signal: () => Effect.void,
    stop: Effect.void,
    isStopping: () => false,
    has: () => true,
    failure: () => Option.none(),
    close: Effect.void
  }
  const body = Body.make({
    run: "run",
    attempts,
    session: {
      advance: () => Effect.dieMessage("attempts advance"),
      record: ({ step }) => Effect.sync(() => void recorded.push(step)),
      measured: [],
      close: Effect.void,
      complete: Effect.sync(() => void completed++)
    },
    events,
    measurements: [
      {
        name: "even",
        measure: ({ step }) =>
          Effect.suspend(() => {
            evaluated.push(step)
            return step % 4 === 0 ? Effect.fail("no result") : Effect.succeed({ value: step })
          })
      }
    ],
    evaluateEvery
  })
  const workflow = Workflow.make({
    name: "body",
    payload: { run: Schema.String },
    idempotencyKey: ({ run }) => run,
    success: Schema.Void
  })
  yield* workflow.toLayer(() =>
    Effect.map(body, (outcome) => {
      ended = outcome
    })
  ).pipe((layer) => Effect.provide(Effect.exit(workflow.execute({ run: "run" })), layer))
  const halted = Array.from(yield* Queue.takeAll(events)).flatMap((event) =>
    event._tag === "Halted" ? [[event.n, event.segment._tag, event.step] as const] : []
  )
  return { froms, evaluated, recorded, completed, ended, halted }
  // A measurement fails on purpose.
}, Effect.provide(Layer.merge(WorkflowEngine.layerMemory, Logger.remove(Logger.defaultLogger))))

describe("the body of a durable run", () => {
  it.live("goes on from each checkpoint, evaluates every so many of them, and the last one", () =>
    Effect.gen(function*() {
      const segments = [advanced(2), advanced(4), advanced(6), advanced(8), advanced(10, true)]
      const every = yield* run(segments, 1)
      assert.deepStrictEqual(every.froms, [[1, 0], [2, 2], [3, 4], [4, 6], [5, 8]])
      assert.deepStrictEqual(every.evaluated, [2, 4, 6, 8, 10])
      // A measurement that failed is not recorded, and the run goes on.
      assert.deepStrictEqual(every.recorded, [2, 6, 10])
      assert.strictEqual(every.completed, 1)
      assert.deepStrictEqual(every.ended, { outcome: "complete", checkpoint: checkpoint(10) })
      assert.deepStrictEqual((yield* run(segments, 2)).evaluated, [4, 8, 10])
      assert.deepStrictEqual((yield* run(segments, 3)).evaluated, [6, 10])
      assert.deepStrictEqual((yield* run(segments, 100)).evaluated, [10])
    }))

  it.live("a wait is no checkpoint; a run that is cancelled ends where it was", () =>
    Effect.gen(function*() {
      const found = yield* run([
        { _tag: "Waiting", millis: 1 },
        advanced(2),
        { _tag: "Waiting", millis: 1 },
        advanced(4),
        { _tag: "Cancelled" }
      ], 2)
      assert.deepStrictEqual(found.evaluated, [4])
      assert.deepStrictEqual(found.halted, [[1, "Waiting", 0], [3, "Waiting", 2], [5, "Cancelled", 4]])
      assert.deepStrictEqual(found.ended, { outcome: "cancelled", checkpoint: checkpoint(4) })
      assert.strictEqual(found.completed, 0)
    }))
})
