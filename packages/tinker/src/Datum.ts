/**
 * One training example: what the model reads and the tensors its loss needs, position by position.
 *
 * @since 0.1.0
 */
import * as Arbitrary from "effect/Arbitrary"
import * as Either from "effect/Either"
import { dual } from "effect/Function"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { Key, strict } from "./internal/wire/json.js"
import * as numbers from "./internal/wire/numbers.js"
import * as ModelInput from "./ModelInput.js"
import * as TensorData from "./TensorData.js"
import { InvalidInput } from "./TinkerError.js"

/**
 * Unique identifier of {@link Datum}.
 *
 * @since 0.1.0
 * @category models
 */
export const TypeId: unique symbol = Symbol.for("effect-tinker/Datum")

/**
 * Unique identifier of {@link Datum}.
 *
 * @since 0.1.0
 * @category models
 */
export type TypeId = typeof TypeId

/**
 * Where a run of positions came from: `length` tokens of a sampled sequence (`sampled`) or of its prompt (`prompt`),
 * starting at `offset`.
 *
 * @since 0.1.0
 * @category models
 */
export interface ProvenanceSpan {
  readonly source: "prompt" | "sampled"
  /** The `sequenceId` of a sampled sequence. */
  readonly sequenceId: string
  /** Defaults to 0. */
  readonly offset?: number | undefined
  readonly length: number
}

/**
 * A training example. `modelInputSpans` and `lossFnInputSpans` are both set or both absent; they travel in protobuf only.
 *
 * @since 0.1.0
 * @category models
 */
export class Datum {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  /** @since 0.1.0 */
  readonly modelInput: ModelInput.ModelInput
  /**
   * Tensors by the names the loss knows, e.g. `target_tokens` and `weights`.
   *
   * @since 0.1.0
   */
  readonly lossFnInputs: Readonly<Record<string, TensorData.TensorData>>
  /**
   * Runs that tile the model's input.
   *
   * @since 0.1.0
   */
  readonly modelInputSpans: ReadonlyArray<ProvenanceSpan> | undefined
  /**
   * Runs that tile `target_tokens`.
   *
   * @since 0.1.0
   */
  readonly lossFnInputSpans: ReadonlyArray<ProvenanceSpan> | undefined

  /** @internal */
  constructor(parts: {
    readonly modelInput: ModelInput.ModelInput
    readonly lossFnInputs: Readonly<Record<string, TensorData.TensorData>>
    readonly modelInputSpans?: ReadonlyArray<ProvenanceSpan> | undefined
    readonly lossFnInputSpans?: ReadonlyArray<ProvenanceSpan> | undefined
  }) {
    this.modelInput = parts.modelInput
    this.lossFnInputs = parts.lossFnInputs
    this.modelInputSpans = parts.modelInputSpans
    this.lossFnInputSpans = parts.lossFnInputSpans
  }
}

/**
 * A datum known to have these loss inputs, as {@link make} and {@link fromTokens} return it. It can be used wherever
 * fewer are needed. A plain {@link Datum} can be used everywhere: its inputs are checked before it is sent.
 *
 * @since 0.1.0
 * @category models
 */
export interface With<in Inputs extends string> extends Datum {
  /** Only for the compiler: never set. */
  readonly "~inputs"?: (input: Inputs) => void
}

/**
 * Whether something is a {@link Datum}.
 *
 * @since 0.1.0
 * @category guards
 */
export const isDatum = (u: unknown): u is Datum => Predicate.hasProperty(u, TypeId)

/**
 * Input that becomes a tensor of a loss: a tensor, a typed array, or a plain list whose dtype follows from its key.
 *
 * @since 0.1.0
 * @category models
 */
export type LossFnInput = TensorData.TensorData | TensorData.TypedArray | TensorData.NestedArray

const invalid = (method: string, description: string) =>
  Either.left(new InvalidInput({ module: "Datum", method, description }))

/**
 * An example from what the model reads and the tensors of its loss. Plain lists are converted by key
 * (`TensorData.dtypeByKey`), typed arrays by their own type.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <const Inputs extends string = never>(options: {
  readonly modelInput: ModelInput.ModelInput | ModelInput.Tokens
  readonly lossFnInputs?: Readonly<Record<Inputs, LossFnInput>> | undefined
}): Either.Either<With<Inputs>, InvalidInput> => {
  const modelInput = options.modelInput instanceof ModelInput.ModelInput
    ? options.modelInput
    : ModelInput.fromInts(options.modelInput)
  const valid = ModelInput.validate(modelInput)
  if (Either.isLeft(valid)) return Either.left(valid.left)
  const inputs: Array<[string, TensorData.TensorData]> = []
  for (const [key, value] of Object.entries<LossFnInput>(options.lossFnInputs ?? {})) {
    if (TensorData.isTensorData(value)) inputs.push([key, value])
    else {
      const tensor = TensorData.fromArray(value, { key })
      if (Either.isLeft(tensor)) return Either.left(tensor.left)
      inputs.push([key, tensor.right])
    }
  }
  return Either.right(new Datum({ modelInput, lossFnInputs: Object.fromEntries(inputs) }))
}

/**
 * An example of next-token prediction: the model reads all tokens but the last and is scored on all but the first.
 * `weights` has one number per token and is shifted along; without it every target counts 1.
 *
 * @example
 * ```ts
 * import { Datum } from "effect-tinker"
 *
 * // learn the last two tokens, given the first two
 * const datum = Datum.fromTokens([1, 15, 27, 2], { weights: [0, 0, 1, 1] })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromTokens = (
  tokens: ModelInput.Tokens,
  options?: { readonly weights?: ArrayLike<number> | undefined }
): Either.Either<With<"target_tokens" | "weights">, InvalidInput> => {
  const ids = numbers.toInt32(tokens)
  if (ids === undefined) {
    const wrong = numbers.firstNotInt32(tokens)
    return invalid("fromTokens", `token ${wrong} (${tokens[wrong]}) is not a 32-bit integer`)
  }
  if (ids.length < 2) return invalid("fromTokens", `next-token prediction needs two tokens, not ${ids.length}`)
  const weights = options?.weights
  if (weights !== undefined && weights.length !== ids.length) {
    return invalid("fromTokens", `${weights.length} weights for ${ids.length} tokens`)
  }
  return make({
    modelInput: ids.subarray(0, -1),
    lossFnInputs: {
      target_tokens: ids.subarray(1),
      weights: weights === undefined ? new Float32Array(ids.length - 1).fill(1) : numbers.toFloat32(weights).subarray(1)
    }
  })
}

/**
 * {@link fromTokens} of many, such as what a renderer makes of conversations.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromExamples = (
  examples: Iterable<{ readonly tokens: ModelInput.Tokens; readonly weights?: ArrayLike<number> | undefined }>
): Either.Either<ReadonlyArray<With<"target_tokens" | "weights">>, InvalidInput> =>
  Either.all(Array.from(examples, ({ tokens, weights }) => fromTokens(tokens, { weights })))

const checkSpans = (
  field: string,
  spans: ReadonlyArray<ProvenanceSpan>,
  expected: number | undefined
): string | undefined => {
  let total = 0
  for (const { length, offset = 0, sequenceId } of spans) {
    if (sequenceId === "") return `${field}: a span has no sequenceId`
    if (!Number.isSafeInteger(offset) || offset < 0) return `${field}: offset ${offset} is not a position`
    if (!Number.isSafeInteger(length) || length < 0) return `${field}: length ${length} is not a count`
    total += length
  }
  return expected === undefined || expected === total
    ? undefined
    : `${field}: the spans cover ${total} positions of ${expected}`
}

/**
 * The example with where its positions came from: runs that tile the model's input, and runs that tile
 * `target_tokens`.
 *
 * @since 0.1.0
 * @category combinators
 */
export const withProvenance: {
  (spans: {
    readonly modelInput: ReadonlyArray<ProvenanceSpan>
    readonly lossFnInputs: ReadonlyArray<ProvenanceSpan>
  }): <Inputs extends string>(self: With<Inputs>) => Either.Either<With<Inputs>, InvalidInput>
  <Inputs extends string>(self: With<Inputs>, spans: {
    readonly modelInput: ReadonlyArray<ProvenanceSpan>
    readonly lossFnInputs: ReadonlyArray<ProvenanceSpan>
  }): Either.Either<With<Inputs>, InvalidInput>
} = dual(2, <Inputs extends string>(self: With<Inputs>, spans: {
  readonly modelInput: ReadonlyArray<ProvenanceSpan>
  readonly lossFnInputs: ReadonlyArray<ProvenanceSpan>
}): Either.Either<With<Inputs>, InvalidInput> => {
  const length = ModelInput.length(self.modelInput)
  if (Either.isLeft(length)) return Either.left(length.left)
  const targets = self.lossFnInputs["target_tokens"]?.shape
  const wrong = checkSpans("modelInput", spans.modelInput, length.right) ??
    checkSpans("lossFnInputs", spans.lossFnInputs, targets?.length === 1 ? targets[0] : undefined)
  return wrong === undefined
    ? Either.right(new Datum({ ...self, modelInputSpans: spans.modelInput, lossFnInputSpans: spans.lossFnInputs }))
    : invalid("withProvenance", wrong)
})

/**
 * A datum in its JSON shape.
 *
 * @since 0.1.0
 * @category models
 */
export interface Encoded {
  readonly model_input: typeof ModelInput.ModelInput.Encoded
  readonly loss_fn_inputs: { readonly [key: string]: TensorData.Encoded }
}

/**
 * An example in its JSON shape, which has no place for provenance.
 *
 * @since 0.1.0
 * @category schemas
 */
export const FromJson: Schema.Schema<Datum, Encoded> = Schema.transform(
  Schema.Struct({
    model_input: ModelInput.ModelInput,
    loss_fn_inputs: Schema.Record({ key: Key, value: TensorData.FromJson })
  }).annotations(strict[1]),
  Schema.declare(isDatum, {
    identifier: "Datum",
    arbitrary: () => (fc) =>
      fc.record({
        modelInput: Arbitrary.makeLazy(ModelInput.ModelInput)(fc),
        lossFnInputs: fc.dictionary(
          fc.string().filter((key) => key !== "__proto__"),
          Arbitrary.makeLazy(TensorData.FromJson)(fc),
          { maxKeys: 3 }
        )
      }).map((parts) => new Datum(parts))
  }),
  {
    strict: true,
    decode: (json) => new Datum({ modelInput: json.model_input, lossFnInputs: json.loss_fn_inputs }),
    encode: (datum) => ({ model_input: datum.modelInput, loss_fn_inputs: datum.lossFnInputs })
  }
)
