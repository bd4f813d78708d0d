/**
 * Function calls that a model wrote, held against the calls that are right: the rules of the Berkeley Function Calling
 * Leaderboard for Python, in which every parameter has a list of values that count.
 *
 * @since 0.2.0
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as JsonText from "./JsonText.js"

/**
 * A function, described as models are told of it.
 *
 * @since 0.2.0
 * @category models
 */
export interface Signature {
  readonly name: string
  readonly parameters: {
    readonly properties: Readonly<Record<string, Parameter>>
    readonly required?: ReadonlyArray<string> | undefined
  }
}

/**
 * The type of a parameter.
 *
 * @since 0.2.0
 * @category models
 */
export interface Parameter {
  readonly type: string
  readonly items?: { readonly type?: string | undefined } | undefined
}

/**
 * A call: the name of the function, and its arguments.
 *
 * @since 0.2.0
 * @category models
 */
export interface Call {
  readonly name: string
  readonly arguments: Readonly<Record<string, unknown>>
}

/**
 * The right call, with the values of each parameter that count. An empty text among them means that it may be left out.
 *
 * @since 0.2.0
 * @category models
 */
export type Accepted = Readonly<Record<string, Readonly<Record<string, ReadonlyArray<unknown>>>>>

/** Spelling that does not count in text. */
const spelled = (text: string): string => text.replace(/[ ,./\-_*^]/g, "").toLowerCase().replaceAll("'", "\"")

const standard = (value: unknown): unknown => typeof value === "string" ? spelled(value) : value

/** Equality of JSON values. */
const equal = (a: unknown, b: unknown): boolean => {
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((one, i) => equal(one, b[i]))
  }
  if (!Predicate.isRecord(a) || !Predicate.isRecord(b)) return a === b
  const names = Object.keys(a)
  return names.length === Object.keys(b).length &&
    names.every((name) => Object.hasOwn(b, name) && equal(a[name], b[name]))
}

const includes = (accepted: ReadonlyArray<unknown>, value: unknown): boolean =>
  accepted.some((one) => equal(one, value))

type Kind = "text" | "integer" | "number" | "boolean" | "list" | "record" | "null"

const kinds: Readonly<Record<string, Kind>> = {
  string: "text",
  any: "text",
  integer: "integer",
  float: "number",
  boolean: "boolean",
  array: "list",
  tuple: "list",
  dict: "record"
}

/** JSON has one kind of number: a whole one is an integer. */
const kindOf = (value: unknown): Kind => {
  if (value === null || value === undefined) return "null"
  if (Array.isArray(value)) return "list"
  switch (typeof value) {
    case "string":
      return "text"
    case "boolean":
      return "boolean"
    case "number":
      return Number.isInteger(value) ? "integer" : "number"
    default:
      return "record"
  }
}

const fits = (value: unknown, kind: Kind): boolean => {
  const found = kindOf(value)
  return found === kind || (kind === "number" && found === "integer")
}

/** The kind of the values that count; where they differ from the parameter's, a variable is what was asked for. */
const acceptedKind = (accepted: ReadonlyArray<unknown>): Kind | undefined => {
  const first = accepted.find((value) => value !== "")
  return first === undefined ? undefined : kindOf(first)
}

const isRecordAccepted = (value: unknown, accepted: ReadonlyArray<unknown>): boolean =>
  Predicate.isRecord(value) && accepted.some((one) =>
    Predicate.isRecord(one) &&
    Object.entries(value).every(([key, item]) => {
      const values = one[key]
      return Array.isArray(values) && includes(values.map(standard), standard(item))
    }) &&
    Object.entries(one).every(([key, values]) =>
      Object.hasOwn(value, key) || (Array.isArray(values) && values.includes(""))
    )
  )

const isArgument = (value: unknown, parameter: Parameter, accepted: ReadonlyArray<unknown>): boolean => {
  const kind = kinds[parameter.type] ?? "text"
  const inner = kind === "list" ? kinds[parameter.items?.type ?? "any"] : undefined
  const asked = acceptedKind(accepted)
  const isVariable = asked !== undefined && asked !== kind && !(kind === "number" && asked === "integer")
  if (!fits(value, kind)) return asked !== undefined && kindOf(value) === asked && includes(accepted, value)
  if (isVariable) return includes(accepted, value)
  if (kind === "text") return includes(accepted.map(standard), standard(value))
  if (kind === "record") return isRecordAccepted(value, accepted)
  if (kind !== "list" || !Array.isArray(value)) return includes(accepted, value)
  // nothing, for what may be left out
  if (value.length === 0 && accepted.includes("")) return true
  if (
    inner !== undefined &&
    !accepted.some((one) => !Array.isArray(one) || value.every((item) => fitsWithin(item, inner, one)))
  ) {
    return false
  }
  return inner === "record"
    ? accepted.some((one) =>
      Array.isArray(one) && one.length === value.length && value.every((item, i) => isRecordAccepted(item, [one[i]]))
    )
    : accepted.some((one) => Array.isArray(one) && equal(one.map(standard), value.map(standard)))
}

/** An element has the kind of the parameter's elements, or of those that count. */
const fitsWithin = (item: unknown, kind: Kind, accepted: ReadonlyArray<unknown>): boolean =>
  fits(item, kind) || kindOf(item) === acceptedKind(accepted)

/**
 * Whether a call is the right one.
 *
 * @since 0.2.0
 * @category grading
 */
export const isCall = (call: Call, signature: Signature, accepted: Accepted): boolean => {
  const answers = Object.values(accepted)[0] ?? {}
  const { properties, required = [] } = signature.parameters
  if (call.name !== signature.name) return false
  if (required.some((name) => !Object.hasOwn(call.arguments, name))) return false
  return Object.entries(call.arguments).every(([name, value]) => {
    const parameter = Object.hasOwn(properties, name) ? properties[name] : undefined
    const values = Object.hasOwn(answers, name) ? answers[name] : undefined
    return parameter !== undefined && values !== undefined && isArgument(value, parameter, values)
  }) && Object.entries(answers).every(([name, values]) => Object.hasOwn(call.arguments, name) || values.includes(""))
}

/**
 * Whether calls are the right ones, in any order.
 *
 * @since 0.2.0
 * @category grading
 */
export const areCalls = (
  calls: ReadonlyArray<Call>,
  signatures: ReadonlyArray<Signature>,
  accepted: ReadonlyArray<Accepted>
): boolean => {
  if (calls.length !== accepted.length) return false
  const left = [...calls]
  return accepted.every((one) => {
    const signature = signatures.find(({ name }) => name === Object.keys(one)[0])
    const at = signature === undefined ? -1 : left.findIndex((call) => isCall(call, signature, one))
    if (at < 0) return false
    left.splice(at, 1)
    return true
  })
}

const isCallShaped = (u: unknown): u is { readonly name: string; readonly arguments: unknown } =>
  Predicate.isRecord(u) && typeof u["name"] === "string" && Predicate.isRecord(u["arguments"] ?? u["parameters"])

/**
 * Calls in the text of an answer: an object, or a list of them, with `name` and `arguments`, alone or in a code block.
 *
 * @since 0.2.0
 * @category combinators
 */
export const find = (answer: string): Option.Option<ReadonlyArray<Call>> => {
  const block = /```(?:json)?\s*\n([\s\S]*?)\n```/.exec(answer)?.[1] ?? answer
  const start = block.search(/[[{]/)
  const end = Math.max(block.lastIndexOf("]"), block.lastIndexOf("}"))
  if (start < 0 || end < start) return Option.none()
  return Option.flatMap(Either.getRight(JsonText.parse(block.slice(start, end + 1))), (json) => {
    const list: ReadonlyArray<unknown> = Array.isArray(json) ? json : [json]
    const calls = list.filter(isCallShaped).map((call): Call => {
      const given: unknown = call.arguments ?? Reflect.get(call, "parameters")
      return { name: call.name, arguments: Predicate.isRecord(given) ? given : {} }
    })
    return calls.length === list.length ? Option.some(calls) : Option.none()
  })
}
