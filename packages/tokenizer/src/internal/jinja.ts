/**
 * `@huggingface/jinja` with Python's habits where its own differ: the parsed template is rewritten so that printing,
 * `~`, `strip(chars)`, and the filters `tojson`, `string` and `trim` call functions of ours.
 */
import * as Jinja from "@huggingface/jinja"
import * as Predicate from "effect/Predicate"
import type { RuntimeValue } from "./python.js"
import * as python from "./python.js"

interface Node {
  readonly type: string
  [field: string]: unknown
}

// the library's own declarations do not resolve from ES modules; this is what is leaned on
const library: {
  readonly parse: (tokens: unknown) => Node
  readonly tokenize: (source: string, options: object) => unknown
  readonly Environment: new() => { readonly set: (name: string, value: unknown) => void }
  readonly Interpreter: new(environment: object) => {
    run(program: Node): { readonly value: string }
    evaluate(statement: unknown, environment: unknown): unknown
  }
} = Jinja

const isNode = (u: unknown): u is Node => Predicate.hasProperty(u, "type") && Predicate.isString(u.type)

/** Message of a template's own `raise_exception`. */
class Raised extends Error {}

/**
 * How far a render may go: a template is a program of others. Conversations of a megabyte take some hundred thousand
 * steps.
 *
 * @internal
 */
export interface Budget {
  /** Evaluated nodes, rounds of loops included. */
  readonly steps: number
  /** Characters of any one text, the result included. */
  readonly length: number
  /** Whether its time is over; asked now and then. */
  readonly isOver: () => boolean
}

/** @internal */
export const defaultBudget = { steps: 2_000_000, length: 16_777_216, time: 2000 }

const isTooLong = (value: unknown, length: number): boolean =>
  Predicate.hasProperty(value, "value") && typeof value.value === "string" && value.value.length > length

const tooLong = (length: number) => new Error(`the template writes more than ${length} characters`)

/** The library's interpreter, counting. */
class Interpreter extends library.Interpreter {
  private steps = 0

  constructor(environment: object, private readonly budget: Budget) {
    super(environment)
  }

  override evaluate(statement: unknown, environment: unknown): unknown {
    if (++this.steps > this.budget.steps) throw new Error(`the template takes more than ${this.budget.steps} steps`)
    // a step can go through a long list: counting them is not enough
    if (this.steps % 256 === 0 && this.budget.isOver()) throw new Error("the template takes too long")
    const value = super.evaluate(statement, environment)
    if (isTooLong(value, this.budget.length)) throw tooLong(this.budget.length)
    return value
  }
}

// names no template uses: they are not identifiers in the language
const names = {
  print: " print",
  concat: " concat",
  json: " tojson",
  string: " string",
  trim: " trim",
  strip: " strip",
  fits: " fits"
}

const identifier = (value: string): Node => ({ type: "Identifier", value })

/** A call that passes each argument in its own list, because a bare argument loses whether it was a float. */
const call = (name: string, args: ReadonlyArray<unknown>): Node => ({
  type: "CallExpression",
  callee: identifier(name),
  args: args.map((arg) =>
    isNode(arg) && arg.type !== "KeywordArgumentExpression" ? { type: "ArrayLiteral", value: [arg] } : arg
  )
})

const statements = new Set([
  "If",
  "For",
  "Break",
  "Continue",
  "Set",
  "Macro",
  "Comment",
  "FilterStatement",
  "CallStatement"
])

const rewriteList = (list: ReadonlyArray<unknown>, isBody: boolean): Array<unknown> =>
  list.map((item) => {
    const node = rewrite(item)
    return isBody && isNode(node) && !statements.has(node.type) && node.type !== "StringLiteral"
      ? call(names.print, [node])
      : node
  })

const rewrite = (input: unknown): unknown => {
  if (!isNode(input)) return input
  const node: Record<string, unknown> = {}
  for (const [field, value] of Object.entries(input)) {
    if (field === "operator") node[field] = value
    else if (Array.isArray(value)) {
      node[field] = rewriteList(value, field === "body" || field === "alternate" || field === "defaultBlock")
    } else if (value instanceof Map) {
      node[field] = new Map(Array.from(value, ([key, value]) => [rewrite(key), rewrite(value)]))
    } else node[field] = rewrite(value)
  }
  // a round of a loop is a step, even one that does nothing
  const body = node["body"]
  const result = input.type === "For" && Array.isArray(body)
    ? { ...node, type: input.type, body: [{ type: "StringLiteral", value: "" }, ...body] }
    : { ...node, type: input.type }
  return specialise(result)
}

const field = (node: unknown, name: string): unknown => Predicate.isRecord(node) ? node[name] : undefined

const specialise = (node: Node): Node => {
  if (node.type === "FilterExpression") {
    const filter = node["filter"]
    const isCall = field(filter, "type") === "CallExpression"
    const name = isCall ? field(field(filter, "callee"), "value") : field(filter, "value")
    const args = isCall ? field(filter, "args") : []
    if ((name === "tojson" || name === "string" || name === "trim") && Array.isArray(args)) {
      return call(name === "tojson" ? names.json : name === "string" ? names.string : names.trim, [
        node["operand"],
        ...args
      ])
    }
  }
  // texts that can grow out of all proportion in one step are measured before
  if (node.type === "FilterExpression" || node.type === "CallExpression") {
    const filter = node.type === "FilterExpression" ? node["filter"] : node
    const callee = field(filter, "type") === "CallExpression" ? field(filter, "callee") : filter
    const name = node.type === "FilterExpression" ? field(callee, "value") : field(field(callee, "property"), "value")
    const args = field(filter, "args")
    if ((name === "replace" || name === "join" || name === "indent") && Array.isArray(args)) {
      const plain = args.map((arg) => field(arg, "type") === "KeywordArgumentExpression" ? field(arg, "value") : arg)
      const subject = node.type === "FilterExpression" ? node["operand"] : field(callee, "object")
      const check = call(names.fits, [{ type: "StringLiteral", value: name }, subject, ...plain])
      return { type: "Ternary", condition: check, trueExpr: node, falseExpr: { type: "StringLiteral", value: "" } }
    }
  }
  if (node.type === "BinaryExpression" && field(node["operator"], "value") === "~") {
    return call(names.concat, [node["left"], node["right"]])
  }
  if (node.type === "CallExpression" && Array.isArray(node["args"])) {
    const callee = node["callee"]
    const method = field(field(callee, "property"), "value")
    if (
      field(callee, "type") === "MemberExpression" && field(callee, "computed") === false &&
      (method === "strip" || method === "lstrip" || method === "rstrip")
    ) {
      return call(names.strip, [{ type: "StringLiteral", value: method }, field(callee, "object"), ...node["args"]])
    }
  }
  return node
}

const isRuntimeValue = (u: unknown): u is RuntimeValue =>
  Predicate.hasProperty(u, "type") && Predicate.isString(u.type) && Predicate.hasProperty(u, "value")

const undefinedValue: RuntimeValue = { type: "UndefinedValue", value: undefined }

/** The value in the list a rewritten call passes it in. */
const unwrap = (arg: unknown): RuntimeValue => {
  const value: unknown = Array.isArray(arg) ? arg[0] : undefined
  return isRuntimeValue(value) ? value : undefinedValue
}

const optionalChars = (arg: unknown): string | undefined => {
  const { type, value } = unwrap(arg)
  if (type === "StringValue") return String(value)
  if (type === "NullValue" || type === "UndefinedValue") return undefined
  throw new Error("strip arg must be None or str")
}

const keyword = (args: ReadonlyArray<unknown>, name: string, position: number): RuntimeValue => {
  const last = args.at(-1)
  if (last instanceof Map) {
    const value: unknown = last.get(name)
    if (isRuntimeValue(value)) return value
  }
  return unwrap(args[position])
}

const jsonOptions = (args: ReadonlyArray<unknown>): python.JsonOptions => {
  // transformers: tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)
  const indent = keyword(args, "indent", 2)
  const separators = keyword(args, "separators", 3).value
  const [item, key] = Array.isArray(separators) ? separators.map((part) => field(part, "value")) : []
  return {
    ensureAscii: keyword(args, "ensure_ascii", 1).value === true,
    indent: indent.type === "IntegerValue" ? Math.max(0, Math.min(widest, Number(indent.value))) : undefined,
    separators: typeof item === "string" && typeof key === "string" ? [item, key] : undefined,
    sortKeys: keyword(args, "sort_keys", 4).value === true
  }
}

/** As in Jinja's sandbox. */
const longestRange = 100_000

const range = (first: number, second?: number, step = 1): Array<number> => {
  const [from, to] = second === undefined ? [0, first] : [first, second]
  if (step === 0) throw new Error("range() arg 3 must not be zero")
  const length = Math.max(0, Math.ceil((to - from) / step))
  // above 2⁵³ the next number may be the same one
  if (!(length <= longestRange) || !Number.isSafeInteger(from) || !Number.isSafeInteger(from + step * length)) {
    throw new Error(`range too big: more than ${longestRange} numbers`)
  }
  return Array.from({ length }, (_, i) => from + i * step)
}

const widest = 1_000

const textLength = ({ value }: RuntimeValue): number => typeof value === "string" ? value.length : 0

/** Whether what a filter or method would write is within the budget. */
const fits = (length: number) => (name: unknown, subject: unknown, first: unknown, second: unknown): boolean => {
  const of = unwrap(subject)
  const size = textLength(of)
  const items: ReadonlyArray<unknown> = Array.isArray(of.value) ? of.value : []
  const total = items.reduce((sum: number, item) => sum + (isRuntimeValue(item) ? textLength(item) : 0), size)
  const wanted = String(unwrap(name).value)
  const grown = wanted === "replace"
    ? size + (size / Math.max(1, textLength(unwrap(first))) + 1) * textLength(unwrap(second))
    : wanted === "join"
    ? total + items.length * textLength(unwrap(first))
    : size * (1 + Math.max(Number(unwrap(first).value) || 4, Number(unwrap(second).value) || 4))
  if (grown > length && (wanted !== "indent" || size > widest)) throw tooLong(length)
  if (wanted === "indent" && [first, second].some((width) => Number(unwrap(width).value) > widest)) {
    throw tooLong(length)
  }
  return true
}

const functions: Readonly<Record<string, (...args: ReadonlyArray<unknown>) => unknown>> = {
  [names.string]: (value) => python.str(unwrap(value)),
  [names.trim]: (value, chars) => python.strip(python.str(unwrap(value)), "both", optionalChars(chars)),
  [names.json]: (...args) => python.json(unwrap(args[0]), jsonOptions(args)),
  [names.strip]: (method, value, chars) => {
    const text = unwrap(value)
    const name = String(unwrap(method).value)
    if (text.type !== "StringValue") throw new Error(`${text.type} has no attribute '${name}'`)
    const side = name === "strip" ? "both" : name === "lstrip" ? "left" : "right"
    return python.strip(String(text.value), side, optionalChars(chars))
  },
  raise_exception: (message) => {
    throw new Raised(String(message))
  }
}

/** @internal */
export interface Compiled {
  readonly render: (variables: Readonly<Record<string, unknown>>, now: Date, budget: Budget) => string
}

/** Longer sources are not templates. */
const longestSource = 1_048_576

/**
 * Throws what the parser throws.
 *
 * @internal
 */
export const compile = (source: string): Compiled => {
  if (source.length > longestSource) throw new Error(`the template has more than ${longestSource} characters`)
  // Jinja2 reads every end of a line as one kind
  const lines = source.replace(/\r\n?/g, "\n")
  const program = rewrite(library.parse(library.tokenize(lines, { lstrip_blocks: true, trim_blocks: true })))
  if (!isNode(program)) throw new Error("nothing was parsed")
  return {
    render: (variables, now, budget) => {
      let written = 0
      const environment = new library.Environment()
      const globals: Record<string, unknown> = {
        true: true,
        True: true,
        false: false,
        False: false,
        none: null,
        None: null,
        range,
        strftime_now: (format: unknown) => python.strftime(now, String(format)),
        ...functions,
        [names.print]: (value: unknown) => {
          const text = python.str(unwrap(value))
          written += text.length
          if (written > budget.length) throw tooLong(budget.length)
          return text
        },
        [names.concat]: (left: unknown, right: unknown) => {
          const [before, after] = [python.str(unwrap(left)), python.str(unwrap(right))]
          if (before.length + after.length > budget.length) throw tooLong(budget.length)
          return before + after
        },
        [names.fits]: fits(budget.length),
        ...variables
      }
      for (const [name, value] of Object.entries(globals)) environment.set(name, value)
      return new Interpreter(environment, budget).run(program).value
    }
  }
}

/**
 * The words of a failure: a template's own, where it raised it.
 *
 * @internal
 */
export const describe = (cause: unknown): string => cause instanceof Error ? cause.message : String(cause)
