import { assert, describe, it } from "@effect/vitest"
import { Either, Schema } from "effect"
import type { TensorData } from "effect-tinker"
import { Checkpoint, Datum, ModelInput } from "effect-tinker"
import type { ForwardBackward } from "effect-tinker/wire"
import { TelemetryEvent, TopkLogprobs } from "effect-tinker/wire"
import * as ConsoleUrl from "../../cli/src/internal/consoleUrl.js"
import * as Batches from "../../tinker/src/internal/training/batches.js"
import { combine } from "../../tinker/src/internal/training/batches.js"
import { compareValue } from "../src/vectors/compare.js"
import * as corpus from "../src/vectors/corpus.js"

const vectors = corpus.helpers()

const name = (input: unknown): string => JSON.stringify(input).slice(0, 80)

const same = <A>(outcome: corpus.Outcome<unknown>, ours: Either.Either<A, unknown>): void => {
  if (outcome.error !== undefined) return assert.isTrue(Either.isLeft(ours), "not refused")
  assert.isTrue(Either.isRight(ours), `refused: ${String(Either.isLeft(ours) ? ours.left : "")}`)
  if (Either.isRight(ours)) assert.isUndefined(compareValue(outcome.output, ours.right))
}

describe("paths", () => {
  it.each(vectors.paths)("$input", (vector) => same(vector, Checkpoint.parsePath(vector.input)))
})

describe("inputs", () => {
  it.each(vectors.inputs.map((vector) => ({ ...vector, name: name(vector.input) })))("$name", (vector) => {
    const input = Schema.decodeUnknownSync(ModelInput.ModelInput)(vector.input)
    same(vector.length, ModelInput.length(input))
    same(vector.ints, ModelInput.toInts(input))
  })
})

/** Where we mean to differ when a list becomes a tensor. */
const isNumeric = (value: ReadonlyArray<unknown>): boolean =>
  value.every((item) => typeof item !== "string" && (!Array.isArray(item) || isNumeric(item)))

describe("lists as tensors", () => {
  it.each(vectors.coercions.map((vector) => ({ ...vector, name: `${vector.key} ${name(vector.input)}` })))(
    "$name",
    (vector) => {
      const list = vector.input as TensorData.NestedArray
      const datum = Datum.make({ modelInput: ModelInput.empty, lossFnInputs: { [vector.key]: list } })
      // numbers as text are a mistake
      if (!isNumeric(vector.input)) return assert.isTrue(Either.isLeft(datum), "not refused")
      same(vector, Either.map(datum, (datum) => datum.lossFnInputs[vector.key]))
    }
  )
})

describe("likeliest tokens as lists", () => {
  it.each(vectors.topk.map((vector) => ({ ...vector, name: name(vector.input) })))("$name", ({ input, output }) => {
    const lists = TopkLogprobs.toLists({
      tokenIds: Int32Array.from(input.token_ids.flat()),
      logprobs: Float32Array.from(input.logprobs.flat()),
      k: input.token_ids[0]?.length ?? 0,
      length: input.token_ids.length
    })
    assert.isUndefined(compareValue(output, lists))
  })
})

describe("results combined", () => {
  it.each(vectors.combinations.map((vector) => ({ ...vector, name: name(vector.input) })))("$name", (vector) => {
    const combined = combine(
      vector.input.map(({ metrics, outputs }, i): ForwardBackward.Output => ({
        lossFnOutputType: `T${i}`,
        lossFnOutputs: Array.from({ length: outputs }, () => ({})),
        metrics: Object.fromEntries(Object.entries(metrics).map(([key, value]) => [key, Number(value)]))
      }))
    )
    // Python divides by zero, or fails on the name: the metrics it can combine are no worse for that
    if (vector.output === undefined) return assert.isObject(combined.metrics)
    // a reduction this version of the SDK no longer knows, and older ones do
    if (vector.input.some(({ metrics }) => "a:hash_unordered" in metrics)) return
    assert.isUndefined(
      compareValue(vector.output, {
        loss_fn_output_type: combined.lossFnOutputType,
        loss_fn_outputs: combined.lossFnOutputs.length,
        metrics: combined.metrics
      })
    )
  })
})

describe("batches in chunks", () => {
  it.each(vectors.splits.map((vector) => ({ ...vector, name: name(vector.lengths) })))("$name", (vector) => {
    const data = vector.lengths.map((length) => {
      const tokens = Array.from({ length }, (_, i) => i)
      return Either.getOrThrow(
        Datum.make({
          modelInput: ModelInput.fromInts(tokens),
          lossFnInputs: { target_tokens: tokens, weights: tokens.map(() => 1) }
        })
      )
    })
    const batches = Batches.split(data, { maxCount: vector.max_chunk_len, maxBytes: vector.max_chunk_bytes })
    assert.deepStrictEqual(batches.map((batch) => ({ datums: batch.data.length, bytes: batch.bytes })), [
      ...vector.output
    ])
  })
})

describe("durations", () => {
  it.each(vectors.durations)("$millis ms", ({ millis, output }) => {
    assert.strictEqual(TelemetryEvent.formatDuration(millis), output)
  })
})

const links: Readonly<Record<string, (...args: ReadonlyArray<string>) => string>> = {
  api_key_console_url: (id = "") => ConsoleUrl.apiKey(id),
  checkpoint_console_url: (run = "", id = "") => ConsoleUrl.checkpoint(run, id),
  checkpoint_playground_url: (path = "") => ConsoleUrl.playground(path),
  new_api_key_console_url: (name = "") => ConsoleUrl.newApiKey(name),
  session_console_url: (id = "") => ConsoleUrl.session(id),
  sessions_console_url: () => ConsoleUrl.sessions,
  training_run_console_url: (id = "") => ConsoleUrl.trainingRun(id)
}

describe("links into the console", () => {
  it.each(vectors.urls)("$output", ({ args, function: name, output }) => {
    assert.strictEqual(links[name]?.(...args), output)
  })
})
