/**
 * From a user's loss to the two passes the server knows: a forward pass for the logprobs, and a cross entropy whose
 * weights are the negated gradients.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Autodiff from "../../Autodiff.js"
import type * as CustomLoss from "../../CustomLoss.js"
import * as Datum from "../../Datum.js"
import type * as ForwardBackward from "../../ForwardBackward.js"
import * as TensorData from "../../TensorData.js"
import { InvalidInput, MalformedResponse } from "../../TinkerError.js"
import * as Tape from "../autodiff/tape.js"

const context = { module: "TrainingClient", method: "forwardBackwardCustom" } as const

const invalid = (description: string, cause?: unknown) => new InvalidInput({ ...context, description, cause })

/** Only what a cross entropy takes goes to the server; everything else is for the user's function. */
const withInputs = (datum: Datum.Datum, targets: TensorData.TensorData, weights: TensorData.TensorData): Datum.Datum =>
  new Datum.Datum({ ...datum, lossFnInputs: { target_tokens: targets, weights } })

const tensor = (values: Float32Array, shape: ReadonlyArray<number>) => TensorData.fromArray(values, { shape })

/** @internal */
export const forwardData = (
  data: ReadonlyArray<Datum.Datum>
): Either.Either<ReadonlyArray<Datum.Datum>, InvalidInput> =>
  Either.all(data.map((datum, i) => {
    const targets = datum.lossFnInputs["target_tokens"]
    if (targets === undefined) return Either.left(invalid(`datum ${i} has no target_tokens`))
    const weights = datum.lossFnInputs["weights"]
    if (weights !== undefined) return Either.right(withInputs(datum, targets, weights))
    const zeros = new Float32Array(targets.shape.reduce((size, n) => size * n, 1))
    return Either.map(tensor(zeros, targets.shape), (none) => withInputs(datum, targets, none))
  }))

/** @internal */
export interface Evaluated {
  /** The data of the backward pass. */
  readonly data: ReadonlyArray<Datum.Datum>
  readonly loss: number
  readonly metrics: Readonly<Record<string, number>>
}

const leaves = (
  data: ReadonlyArray<Datum.Datum>,
  output: ForwardBackward.Output
): Either.Either<ReadonlyArray<Autodiff.Value>, MalformedResponse> => {
  const malformed = (description: string) => Either.left(new MalformedResponse({ ...context, description }))
  if (output.lossFnOutputs.length !== data.length) {
    return malformed(`${data.length} data were sent, ${output.lossFnOutputs.length} results came back`)
  }
  return Either.all(output.lossFnOutputs.map((record, i) => {
    const logprobs = record["logprobs"]
    if (logprobs === undefined) return malformed(`the result of datum ${i} has no logprobs`)
    return logprobs.shape.length > 2
      ? malformed(`the logprobs of datum ${i} have ${logprobs.shape.length} dimensions`)
      : Either.right(Autodiff.variableFromTensor(logprobs))
  }))
}

const differentiate = (
  outcome: CustomLoss.Outcome,
  logprobs: ReadonlyArray<Autodiff.Value>
): ReadonlyArray<ArrayLike<number> | undefined> => {
  if ("gradients" in outcome) return outcome.gradients
  const gradients = Tape.backward(outcome.loss)
  return logprobs.map((leaf) => gradients.get(leaf))
}

const negated = (gradient: ArrayLike<number>): Float32Array | undefined => {
  const weights = new Float32Array(gradient.length)
  for (let i = 0; i < weights.length; i++) {
    const value = gradient[i] ?? Number.NaN
    if (!Number.isFinite(value)) return undefined
    weights[i] = 0 - value
  }
  return weights
}

const backwardDatum = (
  datum: Datum.Datum,
  i: number,
  logprobs: Autodiff.Value | undefined,
  gradient: ArrayLike<number> | undefined
): Either.Either<Datum.Datum, InvalidInput> => {
  const targets = datum.lossFnInputs["target_tokens"]
  if (targets === undefined || logprobs === undefined || gradient === undefined) {
    return Either.left(invalid(`the loss does not depend on the logprobs of datum ${i}`))
  }
  if (gradient.length !== logprobs.values.length) {
    return Either.left(
      invalid(`datum ${i} has ${logprobs.values.length} logprobs and a gradient of ${gradient.length} numbers`)
    )
  }
  const weights = negated(gradient)
  if (weights === undefined) return Either.left(invalid(`the gradient of datum ${i} is not finite`))
  return Either.map(tensor(weights, logprobs.shape), (tensor) => withInputs(datum, targets, tensor))
}

/** @internal */
export const evaluate: <E, R>(
  loss: CustomLoss.CustomLoss<E, R>,
  data: ReadonlyArray<Datum.Datum>,
  output: ForwardBackward.Output
) => Effect.Effect<Evaluated, E | InvalidInput | MalformedResponse, R> = Effect.fnUntraced(function*<E, R>(
  loss: CustomLoss.CustomLoss<E, R>,
  data: ReadonlyArray<Datum.Datum>,
  output: ForwardBackward.Output
) {
  const logprobs = yield* leaves(data, output)
  const attempt = <A>(evaluate: () => A) =>
    Effect.try({
      try: evaluate,
      catch: (cause) =>
        cause instanceof InvalidInput ? cause : invalid(`the custom loss threw: ${String(cause)}`, cause)
    })
  const answer = yield* attempt(() => loss(data, logprobs))
  const outcome = Effect.isEffect(answer) ? yield* answer : answer
  const gradients = yield* attempt(() => differentiate(outcome, logprobs))
  if (gradients.length !== data.length) {
    return yield* invalid(`${gradients.length} gradients for ${data.length} data`)
  }
  const value = typeof outcome.loss === "number" ? outcome.loss : outcome.loss.values[0] ?? Number.NaN
  const backward = yield* Either.all(data.map((datum, i) => backwardDatum(datum, i, logprobs[i], gradients[i])))
  return { data: backward, loss: value, metrics: outcome.metrics ?? {} }
})

/**
 * The user's loss takes the place of the surrogate's, which moves aside.
 *
 * @internal
 */
export const mergeMetrics = (output: ForwardBackward.Output, evaluated: Evaluated): ForwardBackward.Output => {
  const { "loss:sum": surrogate, ...rest } = output.metrics
  return {
    ...output,
    metrics: {
      ...rest,
      ...evaluated.metrics,
      "loss:sum": evaluated.loss,
      ...(surrogate === undefined ? {} : { "surrogate_loss:sum": surrogate })
    }
  }
}
