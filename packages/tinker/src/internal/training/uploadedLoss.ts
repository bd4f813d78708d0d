/**
 * Hands a user's loss over to the server, checked before it is sent.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Api from "../../Api.js"
import * as CustomLossGraph from "../../CustomLossGraph.js"
import * as TinkerError from "../../TinkerError.js"
import type { Options, UploadedLoss } from "../../UploadedLoss.js"
import * as Decoder from "../polling/decoder.js"
import type { ServiceContext } from "../session/serviceContext.js"
import * as Input from "../transport/input.js"
import * as Creation from "./creation.js"

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

/** @internal */
export const upload: (
  service: ServiceContext,
  options: Options
) => Effect.Effect<UploadedLoss, TinkerError.TinkerError> = Effect.fnUntraced(
  function*(service, options) {
    const wrong = problem(options)
    if (wrong !== undefined) return yield* invalid(wrong)
    const { customLossServerSide } = yield* service.clientConfig
    if (!customLossServerSide) {
      return yield* invalid("this server does not run losses of its users; pass a function to forwardBackwardCustom")
    }
    const started = yield* Clock.currentTimeMillis
    const sessionId = yield* service.sessionId
    const { api, nextCustomLossSeqId } = service
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
