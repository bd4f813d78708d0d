/**
 * A loss of one's own that the server runs: handed over once as a graph of operations, then named like any other loss,
 * without the extra pass that `forwardBackwardCustom` needs.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Api from "./Api.js"
import * as CustomLossGraph from "./CustomLossGraph.js"
import type { LossId } from "./Id.js"
import * as Creation from "./internal/creation.js"
import * as Input from "./internal/input.js"
import * as Decoder from "./internal/poll/decoder.js"
import * as ServiceClient from "./ServiceClient.js"
import * as TinkerError from "./TinkerError.js"

/**
 * What to hand over.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** For people. */
  readonly name: string
  /** What the loss is given, in this order: `logprobs`, then entries of a datum's `lossFnInputs`. */
  readonly inputs: ReadonlyArray<{ readonly name: string; readonly rank: 0 | 1 | 2 }>
  /**
   * Operations in the order they run: one `placeholder` per input, what is computed from them, and an `output` of a pair:
   * the loss of one datum, and its metrics by names such as `custom/entropy:mean`.
   */
  readonly graph: ReadonlyArray<{
    readonly op: CustomLossGraph.CustomLossNode["op"]
    readonly name: string
    readonly target: string
    readonly args?: CustomLossGraph.CustomLossNode["args"] | undefined
    readonly kwargs?: CustomLossGraph.CustomLossNode["kwargs"] | undefined
  }>
}

/**
 * A loss the server has. It is what `trainStep` takes; `forwardBackward` takes its two parts. It belongs to the session.
 *
 * @since 0.1.0
 * @category models
 */
export interface UploadedLoss {
  readonly lossId: LossId
  readonly name: "custom"
  readonly config: { readonly loss_id: LossId }
}

const from = { module: "UploadedLoss", method: "make" }
const invalid = (description: string) => new TinkerError.InvalidInput({ ...from, description })

const maxInputs = 16
const inputName = /^[a-z_][a-z0-9_]{0,63}$/

/** What every server would refuse. */
const problem = ({ graph, inputs }: Options): string | undefined => {
  const [logprobs] = inputs
  if (logprobs?.name !== "logprobs") return "the first input has to be logprobs"
  if (logprobs.rank === 0) return "logprobs has rank 1, or 2 for several targets a position"
  if (inputs.length > maxInputs) return `a loss takes at most ${maxInputs} inputs, not ${inputs.length}`
  const names = inputs.map(({ name }) => name)
  const odd = names.find((name, i) => !inputName.test(name) || names.indexOf(name) !== i)
  if (odd !== undefined) return `the input ${JSON.stringify(odd)} is not a lower-case name of its own`
  const known = new Set<string>()
  for (const { name } of graph) {
    if (known.has(name)) return `two nodes are named ${JSON.stringify(name)}`
    known.add(name)
  }
  const placeholders = graph.filter(({ op }) => op === "placeholder").map(({ target }) => target)
  if (placeholders.join() !== names.join()) {
    return `the placeholders (${placeholders.join(", ")}) are not the inputs (${names.join(", ")})`
  }
  return graph.at(-1)?.op === "output" ? undefined : "the last node has to be the output"
}

const decoder = Decoder.fromSchema(CustomLossGraph.CreateCustomLossResponse)

/**
 * Hands a loss over and waits until the server has it. A server that does not run losses of its users is not asked:
 * there, `forwardBackwardCustom` takes a function.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (
  options: Options
) => Effect.Effect<UploadedLoss, TinkerError.TinkerError, ServiceClient.ServiceClient> = Effect.fnUntraced(
  function*(options) {
    const service = yield* ServiceClient.ServiceClient
    const wrong = problem(options)
    if (wrong !== undefined) return yield* invalid(wrong)
    const { customLossServerSide } = yield* service.clientConfig
    if (!customLossServerSide) {
      return yield* invalid("this server does not run losses of its users; pass a function to forwardBackwardCustom")
    }
    const started = yield* Clock.currentTimeMillis
    const sessionId = yield* service.sessionId
    const { nextCustomLossSeqId, transport } = service[ServiceClient.TypeId]
    const body = yield* Input.request(from, () =>
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
    const accepted = yield* transport.call(Api.createCustomLoss, body, { from })
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
