/**
 * A run that can be watched: where it stands, why it waits, which spans it opens and what it counts.
 */
import { TinkerLocal } from "@effect-tinker/local"
import { NodeRuntime } from "@effect/platform-node"
import { Array, Console, Effect, Layer, Metric, Tracer } from "effect"
import { Datum, Metrics, Progress, TinkerFuture, TrainingClient } from "effect-tinker"

const model = "local/small"
const learningRate = 4e-4

/** A tracer that keeps what it sees. In an app it is that of OpenTelemetry; see the guide. */
const spans: Array<Tracer.Span> = []
const Recording = Layer.unwrapEffect(Effect.map(Effect.tracer, (tracer) =>
  Layer.setTracer(Tracer.make({
    span: (...args) => {
      const span = tracer.span(...args)
      spans.push(span)
      return span
    },
    context: tracer.context
  }))))

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 8, seed: 1 })
  const batch = [yield* Datum.fromTokens([3, 1, 4, 1, 5, 9, 2, 6])]
  const adam = { learningRate }

  // Where it stands. Whoever looks does not hold the loop up.
  const progress = yield* Progress.make({
    totalSteps: 3,
    render: (snapshot) => Console.log(Progress.describe(snapshot))
  })
  for (let step = 1; step <= 3; step++) {
    const future = yield* training.trainStep(batch, "cross_entropy", adam)
    const { pass } = yield* progress.await(future) // shows the queue's reasons while it waits
    yield* progress.step({ loss: pass.metrics["loss:sum"] ?? NaN }, { tokens: 8 })
  }
  yield* progress.end
  yield* training.saveState("watched").pipe(TinkerFuture.await)

  // What was counted, over all clients of this process.
  const { count } = yield* Metric.value(Metrics.operationTime.pipe(Metric.tagged("operation", "OptimStep")))
  const tokens = yield* Metric.value(Metrics.tokensIn.pipe(Metric.tagged("operation", "ForwardBackward")))
  yield* Console.log(`${count} optimizer steps, ${tokens.count} tokens trained on`)

  // What a tracer saw of the save.
  const save = spans.find(({ name }) => name === "TrainingClient.saveState")
  const inside = spans.filter(({ parent }) => parent._tag === "Some" && parent.value.spanId === save?.spanId)
  yield* Console.log(`${save?.name}: ${Array.dedupe(inside.map(({ name }) => name)).join(", ")}`)
})

NodeRuntime.runMain(
  program.pipe(Effect.scoped, Effect.provide(TinkerLocal.layer().pipe(Layer.provideMerge(Recording))))
)
