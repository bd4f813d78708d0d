/**
 * Expressions of one or two variables, read from plain text or LaTeX and compared by their values.
 *
 * Hand-written: the libraries that read LaTeX (compute-engine 2.6 MB, mathjs 9 MB) are parts of computer algebra systems, of which
 * grading needs one question. Each answer is at most some thousand characters, and depth is bounded.
 */

// =============================================================================
// complex numbers: roots and powers of negative numbers are values, too
// =============================================================================

type Complex = readonly [re: number, im: number]

const real = (value: number): Complex => [value, 0]
const plus = (a: Complex, b: Complex): Complex => [a[0] + b[0], a[1] + b[1]]
const minus = (a: Complex, b: Complex): Complex => [a[0] - b[0], a[1] - b[1]]
const times = (a: Complex, b: Complex): Complex => [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
const size = (a: Complex): number => Math.hypot(a[0], a[1])
const over = (a: Complex, b: Complex): Complex => {
  const bottom = b[0] * b[0] + b[1] * b[1]
  return [(a[0] * b[0] + a[1] * b[1]) / bottom, (a[1] * b[0] - a[0] * b[1]) / bottom]
}
const exp = (a: Complex): Complex => [Math.exp(a[0]) * Math.cos(a[1]), Math.exp(a[0]) * Math.sin(a[1])]
const log = (a: Complex): Complex => [Math.log(size(a)), Math.atan2(a[1], a[0])]
const power = (a: Complex, b: Complex): Complex => {
  if (a[1] === 0 && b[1] === 0 && (a[0] >= 0 || Number.isInteger(b[0]))) return real(a[0] ** b[0])
  return size(a) === 0 ? real(0) : exp(times(b, log(a)))
}
const sine = (a: Complex): Complex => [Math.sin(a[0]) * Math.cosh(a[1]), Math.cos(a[0]) * Math.sinh(a[1])]
const cosine = (a: Complex): Complex => [Math.cos(a[0]) * Math.cosh(a[1]), -Math.sin(a[0]) * Math.sinh(a[1])]

const functions: Readonly<Record<string, (a: Complex) => Complex>> = {
  sqrt: (a) => power(a, real(0.5)),
  sin: sine,
  cos: cosine,
  tan: (a) => over(sine(a), cosine(a)),
  cot: (a) => over(cosine(a), sine(a)),
  sec: (a) => over(real(1), cosine(a)),
  csc: (a) => over(real(1), sine(a)),
  exp,
  log,
  ln: log
}

const constants: Readonly<Record<string, Complex>> = { pi: real(Math.PI) }

// =============================================================================
// reading
// =============================================================================

type Values = ReadonlyMap<string, Complex>
type Node = (values: Values) => Complex

const maxDepth = 100

const factorial = (value: Complex): Complex => {
  const [n] = value
  if (value[1] !== 0 || !Number.isInteger(n) || n < 0 || n > 170) return [NaN, NaN]
  let product = 1
  for (let i = 2; i <= n; i++) product *= i
  return real(product)
}

const token =
  /\s*(?:(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)|(sqrt|sin|cos|tan|cot|sec|csc|exp|log|ln|pi)|(\p{L})|(\*\*|[-+*/^()!]))/uy

/** Tree of an expression, or nothing where it is not one. Letters are variables. */
const parse = (text: string): { readonly node: Node; readonly variables: ReadonlySet<string> } | undefined => {
  const tokens: Array<string> = []
  token.lastIndex = 0
  for (let at = 0; at < text.length; at = token.lastIndex) {
    token.lastIndex = at
    const match = token.exec(text)
    if (match === null) return undefined
    tokens.push(match[0].trim())
  }
  const variables = new Set<string>()
  let at = 0
  let depth = 0
  const peek = () => tokens[at]
  const ahead = (...wanted: ReadonlyArray<string>) => {
    const next = peek()
    return next !== undefined && wanted.includes(next)
  }

  const atom = (): Node | undefined => {
    const next = tokens[at++]
    if (next === undefined || ++depth > maxDepth) return undefined
    if (next === "(") {
      const inner = sum()
      if (inner === undefined || tokens[at++] !== ")") return undefined
      depth--
      return inner
    }
    depth--
    if (/^[\d.]/.test(next)) {
      const value = real(Number(next))
      return () => value
    }
    const constant = constants[next]
    if (constant !== undefined) return () => constant
    const apply = functions[next]
    if (apply !== undefined) {
      const argument = ahead("(") ? atom() : powered()
      return argument === undefined ? undefined : (values) => apply(argument(values))
    }
    if (!/^\p{L}$/u.test(next)) return undefined
    variables.add(next)
    return (values) => values.get(next) ?? [NaN, NaN]
  }
  const postfix = (): Node | undefined => {
    let node = atom()
    while (node !== undefined && ahead("!")) {
      at++
      const inner = node
      node = (values) => factorial(inner(values))
    }
    return node
  }
  const powered = (): Node | undefined => {
    const base = postfix()
    if (base === undefined || !ahead("^", "**")) return base
    at++
    if (++depth > maxDepth) return undefined
    const exponent = signed()
    depth--
    return exponent === undefined ? undefined : (values) => power(base(values), exponent(values))
  }
  const signed = (): Node | undefined => {
    let negative = false
    while (ahead("-", "+")) if (tokens[at++] === "-") negative = !negative
    const node = powered()
    return node === undefined || !negative ? node : (values) => minus(real(0), node(values))
  }
  const product = (): Node | undefined => {
    let node = signed()
    for (;;) {
      const next = peek()
      if (node === undefined || next === undefined || ["+", "-", ")", "!", "^", "**"].includes(next)) return node
      if (next === "*" || next === "/") at++
      const left: Node = node
      const right = next === "*" || next === "/" ? signed() : powered()
      const combine = next === "/" ? over : times
      node = right === undefined ? undefined : (values) => combine(left(values), right(values))
    }
  }
  const sum = (): Node | undefined => {
    let node = product()
    while (node !== undefined && ahead("+", "-")) {
      const combine = tokens[at++] === "+" ? plus : minus
      const left = node
      const right = product()
      node = right === undefined ? undefined : (values) => combine(left(values), right(values))
    }
    return node
  }
  const node = sum()
  return node === undefined || at < tokens.length ? undefined : { node, variables }
}

// =============================================================================
// comparing
// =============================================================================

/** No two of them are related by a small formula. */
const points = [[0.7310585, 1.9459101], [2.2360679, 0.3678794], [1.2020569, 3.1462643], [4.6692016, 0.5671432]] as const

/** Rounding errors of a few hundred operations. */
const tolerance = 1e-11

/**
 * Whether two expressions have the same value, wherever their variables are. What cannot be read is the same as nothing.
 *
 * @internal
 */
export const same = (first: string, second: string): boolean => {
  const [a, b] = [parse(first), parse(second)]
  if (a === undefined || b === undefined) return false
  const names = Array.from(new Set([...a.variables, ...b.variables])).sort()
  return (names.length === 0 ? points.slice(0, 1) : points).every((point) => {
    const values = new Map(names.map((name, i) => [name, real((point[i % 2] ?? 1) + Math.floor(i / 2))]))
    const [left, right] = [a.node(values), b.node(values)]
    const scale = Math.max(1, size(left), size(right))
    return Number.isFinite(scale) && size(minus(left, right)) <= tolerance * scale
  })
}

// =============================================================================
// LaTeX
// =============================================================================

const symbols: Readonly<Record<string, string>> = {
  pi: "pi",
  infty: "inf",
  cdot: "*",
  times: "*",
  div: "/",
  cup: "U",
  le: "≤",
  leq: "≤",
  ge: "≥",
  geq: "≥",
  ne: "≠",
  neq: "≠",
  pm: "±",
  alpha: "α",
  beta: "β",
  gamma: "γ",
  delta: "δ",
  theta: "θ",
  lambda: "λ",
  mu: "μ",
  phi: "ϕ",
  omega: "ω",
  sin: "sin",
  cos: "cos",
  tan: "tan",
  cot: "cot",
  sec: "sec",
  csc: "csc",
  log: "log",
  ln: "ln",
  exp: "exp",
  quad: " ",
  ",": " ",
  ";": " ",
  ":": " ",
  " ": " ",
  "{": "{",
  "}": "}",
  "%": "%",
  "$": "$",
  "|": "‖"
}

/** Numbers and single letters need no parentheses around them. */
const grouped = (text: string): string => /^(?:[\d.]*|\p{L}|pi|-?\d+)$/u.test(text) ? text : `(${text})`

/**
 * LaTeX as plain text: fractions as quotients, roots as `sqrt(…)`. Markup without a meaning of its own is left out.
 *
 * @internal
 */
export const fromLatex = (latex: string): string => {
  let at = 0
  /** The argument of a command: a group, a command, or one character. */
  const argument = (depth: number): string => {
    while (latex[at] === " ") at++
    const next = latex[at]
    if (next === undefined) return ""
    if (next === "{") {
      at++
      return read("}", depth + 1)
    }
    if (next === "\\") return command(depth + 1)
    at++
    return next
  }
  const command = (depth: number): string => {
    const match = /^\\([a-zA-Z]+|[^a-zA-Z])/.exec(latex.slice(at, at + 40))
    if (match === null || depth > maxDepth) {
      at = latex.length
      return ""
    }
    at += match[0].length
    const name = match[1] ?? ""
    if (/^[td]?frac$/.test(name)) {
      const [top, bottom] = [argument(depth), argument(depth)]
      // a space, so that 7\frac{3}{4} is read as 7 and three quarters
      return ` ${grouped(top)}/${grouped(bottom)}`
    }
    if (name === "sqrt") {
      while (latex[at] === " ") at++
      if (latex[at] !== "[") return `sqrt(${argument(depth)})`
      at++
      const degree = read("]", depth + 1)
      return `((${argument(depth)})^(1/(${degree})))`
    }
    // what follows letters is separated from them in LaTeX by spaces that mean nothing
    if (/^[a-zA-Z]/.test(name)) { while (latex[at] === " ") at++ }
    return symbols[name] ?? ""
  }
  const read = (until: string, depth: number): string => {
    let text = ""
    while (at < latex.length && depth <= maxDepth) {
      const next = latex[at] ?? ""
      if (next === until) {
        at++
        return text
      }
      if (next === "\\") text += command(depth)
      else if (next === "{") {
        at++
        const inner = read("}", depth + 1)
        text += text.endsWith("^") ? grouped(inner) : inner
      } else {
        at++
        text += next === "√" ? "sqrt" : next === "·" || next === "×" ? "*" : next
      }
    }
    return text
  }
  return read("", 0).trim()
}
