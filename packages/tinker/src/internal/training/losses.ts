/**
 * From a user's loss to the two passes the server knows: a forward pass for the logprobs, and a cross entropy whose
 * weights are the negated gradients.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Autodiff from "../../Autodiff.js"
import type * as CustomLoss from "../../CustomLoss.js"
import * as Datum from "../../Datum.js"
import * as TensorData from "../../TensorData.js"
import * as TinkerError from "../../TinkerError.js"
import { InvalidInput, MalformedResponse } from "../../TinkerError.js"
import type { Options, UploadedLoss } from "../../UploadedLoss.js"
import * as Api from "../../wire/Api.js"
import * as CustomLossGraph from "../../wire/CustomLossGraph.js"
import type * as ForwardBackward from "../../wire/ForwardBackward.js"
import * as Tape from "../autodiff/tape.js"
import * as Poll from "../polling/poll.js"
import type { ServiceContext } from "../session/session.js"
import * as Errors from "../transport/errors.js"
import * as Creation from "./creation.js"

// -----------------------------------------------------------------------------
// Uploads a user's loss to the server, after checking it.
// -----------------------------------------------------------------------------

const from = { module: "UploadedLoss", method: "make" }
const invalidUpload = (description: string) => new TinkerError.InvalidInput({ ...from, description })

const maxInputs = 16
const inputName = /^[a-z_][a-z0-9_]{0,63}$/

/** A reason for which every server would refuse. */
const problem = ({ graph, inputs }: Options): string | undefined => {
  const [logprobs] = inputs
  if (logprobs?.name !== "logprobs") return "the first input must be logprobs"
  if (logprobs.rank === 0) return "logprobs has rank 1, or 2 for several targets a position"
  if (inputs.length > maxInputs) return `a loss takes at most ${maxInputs} inputs, not ${inputs.length}`
  const names = inputs.map(({ name }) => name)
  const odd = names.find((name, i) => !inputName.test(name) || names.indexOf(name) !== i)
  if (odd !== undefined) return `the input ${JSON.stringify(odd)} is not a unique lower-case name`
  const known = new Set<string>()
  for (const { name } of graph) {
    if (known.has(name)) return `two nodes are named ${JSON.stringify(name)}`
    known.add(name)
  }
  const placeholders = graph.filter(({ op }) => op === "placeholder").map(({ target }) => target)
  if (placeholders.join() !== names.join()) {
    return `the placeholders (${placeholders.join(", ")}) are not the inputs (${names.join(", ")})`
  }
  return graph.at(-1)?.op === "output" ? undefined : "the last node must be the output"
}

const decoder = Poll.fromSchema(CustomLossGraph.CreateCustomLossResponse)

/** @internal */
export const upload: (
  service: ServiceContext,
  options: Options
) => Effect.Effect<UploadedLoss, TinkerError.TinkerError> = Effect.fnUntraced(
  function*(service, options) {
    const wrong = problem(options)
    if (wrong !== undefined) return yield* invalidUpload(wrong)
    const { customLossServerSide } = yield* service.clientConfig
    if (!customLossServerSide) {
      return yield* invalidUpload(
        "this server does not support uploaded losses; pass a function to forwardBackwardCustom"
      )
    }
    const started = yield* Clock.currentTimeMillis
    const sessionId = yield* service.sessionId
    const { api, nextCustomLossSeqId } = service
    const body = yield* Errors.buildRequest(from, () =>
      new CustomLossGraph.CreateCustomLossRequest({
        sessionId,
        customLossSeqId: nextCustomLossSeqId(),
        name: options.name,
        inputs: options.inputs.map((input) => new CustomLossGraph.CustomLossInput(input)),
        graph: new CustomLossGraph.CustomLossGraph({
          nodes: options.graph.map(({ args = [], kwargs = {}, ...node }) =>
            new CustomLossGraph.CustomLossNode({ ...node, args, kwargs })
          )
        })
      }))
    const accepted = yield* api.call(Api.createCustomLoss, body, { from })
    const { lossId } = yield* Creation.result({
      service,
      accepted,
      started,
      from,
      requestType: "CreateCustomLoss",
      label: `Uploading the loss ${options.name}`,
      decoder
    })
    return { lossId, name: "custom", config: { loss_id: lossId } }
  }
)

// -----------------------------------------------------------------------------
// Custom losses.
// -----------------------------------------------------------------------------

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
 * The user's loss replaces that of the surrogate, which is reported under another name.
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
