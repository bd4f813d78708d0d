/**
 * Losses that clients upload as graphs: rebuilt from operations we know, and differentiated by the log probabilities.
 */
import * as Autodiff from "effect-tinker/Autodiff"
import type { TensorData } from "effect-tinker/TensorData"
import type { CreateCustomLossRequest, CustomLossNode } from "effect-tinker/wire/CustomLossGraph"
import * as Either from "effect/Either"

/** Result of a loss for one example. @internal */
export interface LossValue {
  readonly loss: number
  /** By the log probabilities, in their layout. */
  readonly gradient: Float64Array
  readonly metrics: Readonly<Record<string, number>>
}

/** @internal */
export interface Loss {
  readonly id: string
  /** The keys of the example's inputs it reads, after the log probabilities. */
  readonly inputs: ReadonlyArray<string>
  readonly evaluate: (logprobs: TensorData, inputs: ReadonlyArray<TensorData>) => Either.Either<LossValue, string>
}

type Argument = unknown

class Unknown extends Error {}

const refuse = (what: string): never => {
  throw new Unknown(what)
}

const isOperand = (u: unknown): u is Autodiff.Operand => typeof u === "number" || Autodiff.isValue(u)

const operand = (u: Argument): Autodiff.Operand => {
  if (typeof u === "boolean") return u ? 1 : 0
  return isOperand(u) ? u : refuse(`a number or tensor is needed, not ${JSON.stringify(u)}`)
}

const value = (u: Argument): Autodiff.Value => {
  const given = operand(u)
  return Autodiff.isValue(given) ? given : Autodiff.constant(given)
}

const number = (u: Argument): number | undefined =>
  u === undefined || u === null ? undefined : typeof u === "number" ? u : refuse("a plain number is needed")

const axisOf = (u: Argument, self: Autodiff.Value): Autodiff.Axis | undefined => {
  const axis = number(Array.isArray(u) ? u[0] : u)
  if (axis === undefined) return undefined
  const counted = axis < 0 ? axis + self.shape.length : axis
  return counted === 0 || counted === 1 ? counted : refuse(`there is no dimension ${axis}`)
}

type Arguments = (position: number, name: string) => Argument
type Operation = (arg: Arguments) => Argument

const unary = (op: (self: Autodiff.Operand) => Autodiff.Value): Operation => (arg) => op(operand(arg(0, "input")))

const binary = (op: (self: Autodiff.Operand, that: Autodiff.Operand) => Autodiff.Value): Operation => (arg) =>
  op(operand(arg(0, "input")), operand(arg(1, "other")))

const along = (
  op: (self: Autodiff.Operand, options?: { readonly axis?: Autodiff.Axis | undefined }) => Autodiff.Value
): Operation =>
(arg) => {
  const self = value(arg(0, "input"))
  return op(self, { axis: axisOf(arg(1, "dim"), self) })
}

/** Smallest or largest: of a tensor, or of two element by element. */
const extreme = (
  reduce: typeof Autodiff.min,
  pairwise: (self: Autodiff.Operand, that: Autodiff.Operand) => Autodiff.Value
): Operation =>
(arg) => {
  const that = arg(1, "other")
  return Autodiff.isValue(that) ? pairwise(operand(arg(0, "input")), that) : along(reduce)(arg)
}

const clamp: Operation = (arg) => {
  const low = arg(1, "min")
  const high = arg(2, "max")
  const raised = low === undefined || low === null
    ? value(arg(0, "input"))
    : Autodiff.maximum(value(arg(0, "input")), operand(low))
  return high === undefined || high === null ? raised : Autodiff.minimum(raised, operand(high))
}

const filled = (fill: number): Operation => (arg) => {
  const { shape, values } = value(arg(0, "input"))
  return Autodiff.constant(new Float64Array(values.length).fill(fill), shape)
}

const getitem: Operation = (arg) => {
  const self = value(arg(0, "input"))
  const index = arg(1, "index")
  if (typeof index === "number") return Autodiff.at(self, index)
  if (typeof index === "object" && index !== null && "slice" in index && Array.isArray(index.slice)) {
    const [start, stop, step] = index.slice
    if (number(step) !== undefined && step !== 1) return refuse("slices with steps")
    return Autodiff.slice(self, number(start) ?? 0, number(stop))
  }
  return refuse("this kind of index")
}

const listOf = (u: Argument): ReadonlyArray<Autodiff.Operand> =>
  Array.isArray(u) ? u.map(operand) : refuse("a list is needed")

const operations: Readonly<Record<string, Operation>> = {
  add: binary(Autodiff.add),
  sub: binary(Autodiff.sub),
  rsub: (arg) => Autodiff.sub(operand(arg(1, "other")), operand(arg(0, "input"))),
  mul: binary(Autodiff.mul),
  truediv: binary(Autodiff.div),
  div: binary(Autodiff.div),
  pow: (arg) => Autodiff.pow(operand(arg(0, "input")), operand(arg(1, "exponent"))),
  gt: binary(Autodiff.gt),
  ge: binary(Autodiff.gte),
  lt: binary(Autodiff.lt),
  le: binary(Autodiff.lte),
  eq: binary(Autodiff.eq),
  minimum: binary(Autodiff.minimum),
  maximum: binary(Autodiff.maximum),
  neg: unary(Autodiff.neg),
  exp: unary(Autodiff.exp),
  expm1: unary(Autodiff.expm1),
  log: unary(Autodiff.log),
  log1p: unary(Autodiff.log1p),
  sqrt: unary(Autodiff.sqrt),
  square: unary(Autodiff.square),
  abs: unary(Autodiff.abs),
  tanh: unary(Autodiff.tanh),
  relu: unary(Autodiff.relu),
  sigmoid: unary(Autodiff.sigmoid),
  softplus: unary(Autodiff.softplus),
  logsigmoid: unary(Autodiff.logSigmoid),
  detach: unary(Autodiff.detach),
  float: (arg) => arg(0, "input"),
  to: (arg) => arg(0, "input"),
  sum: along(Autodiff.sum),
  mean: along(Autodiff.mean),
  logsumexp: along(Autodiff.logSumExp),
  softmax: along(Autodiff.softmax),
  log_softmax: along(Autodiff.logSoftmax),
  cumsum: along(Autodiff.cumsum),
  min: extreme(Autodiff.min, Autodiff.minimum),
  max: extreme(Autodiff.max, Autodiff.maximum),
  clamp,
  clip: clamp,
  where: (arg) => Autodiff.where(operand(arg(0, "condition")), operand(arg(1, "input")), operand(arg(2, "other"))),
  stack: (arg) => Autodiff.stack(listOf(arg(0, "tensors"))),
  cat: (arg) => Autodiff.concat(listOf(arg(0, "tensors"))),
  zeros_like: filled(0),
  ones_like: filled(1),
  getitem
}

const operationOf = (node: CustomLossNode): Operation | undefined => {
  const name = node.target.replace(/^(torch(\.nn\.functional|\._C\._nn|\.Tensor|\.special)?|operator|math)\./, "")
  return Object.hasOwn(operations, name) ? operations[name] : undefined
}

const entriesOf = (u: unknown): ReadonlyArray<readonly [string, unknown]> =>
  typeof u === "object" && u !== null ? Object.entries(u) : []

const decodeArgument = (encoded: unknown, known: ReadonlyMap<string, Argument>): Argument => {
  if (Array.isArray(encoded)) return encoded.map((item) => decodeArgument(item, known))
  if (typeof encoded !== "object" || encoded === null) return encoded
  const [kind, content] = Object.entries(encoded)[0] ?? []
  switch (kind) {
    case "ref":
      return known.get(String(content))
    case "tuple":
      return decodeArgument(content, known)
    case "dict":
      return Object.fromEntries(
        entriesOf(content).map(([key, item]) => [key, decodeArgument(item, known)])
      )
    case "slice":
      return { slice: decodeArgument(content, known) }
    case "float":
      return content === "inf" ? Infinity : content === "-inf" ? -Infinity : NaN
    default:
      // data types and devices: there is one of each here
      return undefined
  }
}

const run = (nodes: ReadonlyArray<CustomLossNode>, inputs: ReadonlyArray<Autodiff.Value>): Argument => {
  const known = new Map<string, Argument>()
  let placeholders = 0
  for (const node of nodes) {
    const args = node.args.map((arg) => decodeArgument(arg, known))
    switch (node.op) {
      case "placeholder":
        known.set(node.name, inputs[placeholders++])
        break
      case "call_function":
      case "call_method": {
        const named = (name: string) => decodeArgument(node.kwargs[name], known)
        const operation = operationOf(node) ?? refuse(node.target)
        known.set(node.name, operation((position, name) => args[position] ?? named(name)))
        break
      }
      case "output":
        return args[0]
      default:
        return refuse(node.op)
    }
  }
  return refuse("a graph without an output")
}

const attempt = <A>(f: () => A): Either.Either<A, string> =>
  Either.try({ try: f, catch: (error) => error instanceof Error ? error.message : String(error) })

/** The loss of an upload, or what in it is not known here. @internal */
export const compile = (id: string, request: CreateCustomLossRequest): Either.Either<Loss, string> => {
  const { graph: { nodes }, inputs } = request
  for (const node of nodes) {
    if (node.op === "call_module" || node.op === "get_attr") return Either.left(`${node.op} nodes are not allowed`)
    if ((node.op === "call_function" || node.op === "call_method") && operationOf(node) === undefined) {
      return Either.left(`the operation ${node.target} is not supported`)
    }
  }
  if (inputs[0]?.name !== "logprobs") return Either.left("the first input must be logprobs")
  if (!nodes.some(({ op }) => op === "output")) return Either.left("the graph has no output")
  return Either.right({
    id,
    inputs: inputs.slice(1).map(({ name }) => name),
    evaluate: (logprobs, given) =>
      attempt(() => {
        const variable = Autodiff.variableFromTensor(logprobs)
        const output = run(nodes, [variable, ...given.map((tensor) => Autodiff.fromTensor(tensor))])
        const [loss, metrics]: ReadonlyArray<unknown> = Array.isArray(output) ? output : []
        const total = value(loss)
        return {
          loss: Autodiff.toNumber(total),
          gradient: Autodiff.gradients(total, [variable])[0] ?? new Float64Array(variable.values.length),
          metrics: Object.fromEntries(
            entriesOf(metrics).map(([key, metric]) => [key, Autodiff.toNumber(value(metric))])
          )
        }
      })
  })
}
