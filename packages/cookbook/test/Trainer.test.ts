import { Dataset, Evaluator, Supervised } from "@effect-tinker/cookbook"
import type { Example, RunLog, Trainer } from "@effect-tinker/cookbook"
import { assert, describe, it } from "@effect/vitest"
import { Context, Data, Effect, Stream } from "effect"
import type { ServiceClient } from "effect-tinker"

class DataFailed extends Data.TaggedError("DataFailed") {}
class ScoreFailed extends Data.TaggedError("ScoreFailed") {}
class Archive extends Context.Tag("test/Archive")<Archive, object>() {}
class Scores extends Context.Tag("test/Scores")<Scores, object>() {}

declare const log: RunLog.Target<Scores>

/** Compiles where the two types are the same. */
const same = <A, B>(..._same: [A] extends [B] ? [B] extends [A] ? [] : ["different"] : ["different"]) => undefined

describe("types of trainers", () => {
  const data: Dataset.Dataset<Example.Example, DataFailed, Archive> = Dataset.make({
    rows: () => Stream.fail(new DataFailed())
  })
  const evaluator: Evaluator.Evaluator<ScoreFailed, Scores> = Evaluator.make("score", () => new ScoreFailed())
  const options = { model: "local/tiny", data, learningRate: 1e-3 }

  it("have the error and the requirement of the data", () => {
    const run = Supervised.train(options)
    same<Stream.Stream.Error<typeof run>, DataFailed | Trainer.TrainError>()
    same<Stream.Stream.Context<typeof run>, Archive | ServiceClient.ServiceClient>()
    assert.isTrue(Effect.isEffect(Stream.runDrain(run)))
  })

  it("unite those of parts that fail and need different things", () => {
    const make = () => Supervised.train({ ...options, evaluate: [evaluator], log })
    type Run = ReturnType<typeof make>
    same<Stream.Stream.Error<Run>, DataFailed | ScoreFailed | Trainer.TrainError>()
    same<Stream.Stream.Context<Run>, Archive | Scores | ServiceClient.ServiceClient>()
    assert.isFunction(make)
  })

  it("refuse options that a trainer does not have", () => {
    // @ts-expect-error: no such option
    const make = () => Supervised.train({ ...options, evaluate: [evaluator], log, learningRat: 1 })
    assert.isFunction(make)
  })
})
