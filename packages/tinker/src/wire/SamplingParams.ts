/**
 * How tokens are drawn.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { optional, strict, withDefault } from "../internal/wire/json.js"

/**
 * Where a sample ends: texts, or token ids. An empty list disables every stop, the model's own end of sequence
 * included; leaving it out keeps the model's own.
 *
 * @since 0.1.0
 * @category models
 */
export type Stop = ReadonlyArray<string> | ReadonlyArray<number>

const isStop = (u: unknown): u is Stop =>
  Array.isArray(u) &&
  (u.every((item) => typeof item === "string") || u.every((item) => Number.isSafeInteger(item)))

const StopList: Schema.Schema<Stop> = Schema.declare(isStop, {
  title: "ReadonlyArray<string> | ReadonlyArray<int>",
  arbitrary: () => (fc) => fc.oneof(fc.array(fc.string()), fc.array(fc.nat()))
})

/**
 * Stops of a sample. A bare text is read as a list of one, which is how it goes out: some servers take lists only.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Stop: Schema.Schema<Stop, string | Stop> = Schema.transform(
  Schema.Union(Schema.String, StopList),
  StopList,
  {
    strict: true,
    decode: (stop) => typeof stop === "string" ? [stop] : stop,
    encode: (stop) => stop
  }
)

/**
 * How tokens are drawn.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SamplingParams extends Schema.Class<SamplingParams>("effect-tinker/SamplingParams")({
  /** Most tokens to generate. The service decides when absent. */
  maxTokens: optional(Schema.Int, "max_tokens"),
  /** Makes draws repeatable. */
  seed: optional(Schema.Int, "seed"),
  /** Where to end before `maxTokens`. Defaults to the model's own end of sequence. */
  stop: optional(Stop, "stop"),
  /** `0` is greedy. Defaults to `1`. */
  temperature: withDefault(Schema.JsonNumber, "temperature", () => 1),
  /** Draw among this many tokens; `-1` does not limit. Defaults to `-1`. */
  topK: withDefault(Schema.Int, "top_k", () => -1),
  /** Draw among the likeliest tokens of this total probability. Defaults to `1`. */
  topP: withDefault(Schema.JsonNumber, "top_p", () => 1)
}, strict) {}
