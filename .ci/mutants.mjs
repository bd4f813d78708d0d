// Mutants made from the sources: every place of a file where one small change makes code that runs do something else, and
// the tests that reach the file. Types, messages, spans and logging are left alone: nobody computes with them.
import { createHash } from "node:crypto"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import ts from "typescript"
import { packages, root } from "./packages.mjs"

/** What an operator becomes. */
const binary = new Map([
  ["+", "-"],
  ["-", "+"],
  ["*", "/"],
  ["/", "*"],
  ["%", "*"],
  ["**", "*"],
  ["<", "<="],
  ["<=", "<"],
  [">", ">="],
  [">=", ">"],
  ["===", "!=="],
  ["!==", "==="],
  ["&&", "||"],
  ["||", "&&"],
  ["+=", "-="],
  ["-=", "+="],
  ["*=", "/="],
  ["/=", "*="]
])

/** What a function of `Math` becomes; the others become their argument. */
const mathFunctions = new Map([
  ["max", "min"],
  ["min", "max"],
  ["floor", "ceil"],
  ["ceil", "floor"],
  ["round", "floor"],
  ["trunc", "ceil"]
])

/** Calls that are left out: what they are called on is what remains. */
const narrowing = new Set(["filter", "slice", "subarray", "reverse", "toReversed", "sort", "toSorted"])

/** Where strings for people are made, and what is only watched. */
const silentCalls =
  /^(?:Effect|Stream|Console|console|Metric|Logger)\.(?:log\w*|annotate\w*|withSpan|withLogSpan|error|warn|info|debug|increment\w*|update\w*|trackDuration\w*|counter|gauge|histogram)$/
const silentProperties = new Set([
  "cause",
  "description",
  "documentation",
  "hint",
  "identifier",
  "label",
  "message",
  "method",
  "title"
])
const silentMembers = new Set(["message", "toString", "toJSON"])

const isText = (node) =>
  ts.isStringLiteralLike(node) || ts.isTemplateExpression(node) ||
  (ts.isParenthesizedExpression(node) && isText(node.expression)) ||
  (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken &&
    (isText(node.left) || isText(node.right)))

const isSilent = (node, source) =>
  ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node) ||
  ts.isImportDeclaration(node) || ts.isExportDeclaration(node) || ts.isDecorator(node) ||
  ts.isTemplateExpression(node) || ts.isThrowStatement(node) ||
  ts.isCallExpression(node) && silentCalls.test(node.expression.getText(source)) ||
  ts.isNewExpression(node) && /(?:Error|Failed|Unavailable|BadRequest)$/.test(node.expression.getText(source)) ||
  ts.isPropertyAssignment(node) && silentProperties.has(node.name.getText(source)) ||
  (ts.isGetAccessor(node) || ts.isMethodDeclaration(node)) && silentMembers.has(node.name.getText(source))

/** Whether a number decides something: an operand, a place in a list, or what `Math` is asked about. */
const decides = (node, source) => {
  const { parent } = node
  if (ts.isPrefixUnaryExpression(parent)) return decides(parent, source)
  // what stands for an element that is always there decides nothing: the compiler asks for it
  if (ts.isBinaryExpression(parent)) {
    return parent.operatorToken.kind !== ts.SyntaxKind.QuestionQuestionToken ||
      !ts.isElementAccessExpression(parent.left)
  }
  if (ts.isElementAccessExpression(parent)) return parent.argumentExpression === node
  if (ts.isVariableDeclaration(parent) || ts.isConditionalExpression(parent) || ts.isReturnStatement(parent)) {
    return true
  }
  if (ts.isArrowFunction(parent)) return parent.body === node
  if (!ts.isCallExpression(parent) || parent.expression === node) return false
  const called = parent.expression.getText(source)
  return called.startsWith("Math.") || /\.(?:slice|subarray|at|fill|reduce|indexOf|set|push|repeat)$/.test(called)
}

/** The mutants of one file: where, what stands there, and what takes its place. */
export const mutantsOf = (file) => {
  const text = readFileSync(join(root, file), "utf8")
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const lines = text.split("\n")
  const found = []
  const put = (node, replacement, from = node.getStart(source), to = node.getEnd()) => {
    const { line } = source.getLineAndCharacterOfPosition(from)
    const before = text.slice(from, to)
    if (before === replacement) return
    // an operator or a number alone says little: with what is around it
    const small = to - from < 12 && node.parent !== undefined ? node.parent : node
    const [start, end] = [Math.min(from, small.getStart(source)), Math.max(to, small.getEnd())]
    const short = (code) => code.replaceAll(/\s+/g, " ").trim().slice(0, 90) || "(nothing)"
    const after = text.slice(start, from) + replacement + text.slice(to, end)
    found.push({
      file,
      line: line + 1,
      at: lines[line].trim(),
      from,
      to,
      replacement,
      change: `${short(text.slice(start, end))} -> ${short(after)}`
    })
  }
  const visit = (node) => {
    if (isSilent(node, source)) return
    if (ts.isBinaryExpression(node)) {
      const token = node.operatorToken
      const operator = token.getText(source)
      const other = binary.get(operator)
      if (other !== undefined && !(operator.startsWith("+") && (isText(node.left) || isText(node.right)))) {
        // parentheses are not needed: what is exchanged binds as strongly, but for && and ||
        if (operator === "&&" || operator === "||") {
          put(node, `((${node.left.getText(source)}) ${other} (${node.right.getText(source)}))`)
        } else put(token, other)
      }
      if (operator === "??") put(node, `(${node.right.getText(source)})`)
    }
    if (ts.isNumericLiteral(node) && decides(node, source)) {
      const value = Number(node.text.replaceAll("_", ""))
      if (value === 0) put(node, "1")
      else if (value === 1) put(node, "0")
      else if (value <= 16 || !Number.isInteger(value)) put(node, String(value + 1))
    }
    if (ts.isIfStatement(node)) put(node.expression, `!(${node.expression.getText(source)})`)
    if (ts.isConditionalExpression(node)) put(node.condition, `!(${node.condition.getText(source)})`)
    if (ts.isPrefixUnaryExpression(node)) {
      const operand = node.operand.getText(source)
      if (node.operator === ts.SyntaxKind.ExclamationToken) put(node, `!!${operand}`)
      if (node.operator === ts.SyntaxKind.MinusToken && !ts.isNumericLiteral(node.operand)) put(node, `(${operand})`)
    }
    if (
      (ts.isPrefixUnaryExpression(node) || ts.isPostfixUnaryExpression(node)) && !ts.isForStatement(node.parent) &&
      (node.operator === ts.SyntaxKind.PlusPlusToken || node.operator === ts.SyntaxKind.MinusMinusToken)
    ) put(node, node.operand.getText(source))
    if (node.kind === ts.SyntaxKind.TrueKeyword || node.kind === ts.SyntaxKind.FalseKeyword) {
      put(node, node.kind === ts.SyntaxKind.TrueKeyword ? "false" : "true")
    }
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      const on = node.expression.expression
      const name = node.expression.name.text
      const [first, second] = node.arguments
      if (on.getText(source) === "Math") {
        const other = mathFunctions.get(name)
        if (other !== undefined) put(node.expression.name, other)
        else if (first !== undefined) put(node, `(${first.getText(source)})`)
        if ((name === "max" || name === "min") && second !== undefined && !ts.isSpreadElement(first)) {
          put(node, `(${first.getText(source)})`)
          if (node.arguments.length === 2) put(node, `(${second.getText(source)})`)
        }
      } else if (narrowing.has(name) && !(ts.isIdentifier(on) && /^[A-Z]/.test(on.text))) put(node, on.getText(source))
    }
    if (ts.isArrayLiteralExpression(node) && node.elements.length > 0 && !ts.isBinaryExpression(node.parent)) {
      put(node, "[]")
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

/** A mutant's name, which stays when lines above it come and go. */
export const keyOf = ({ at, change, file }) => `${file} | ${at} | ${change}`

/**
 * Some of the mutants, drawn by a seed: those whose names hash lowest. A change elsewhere in the package leaves most of the
 * draw as it was.
 */
export const draw = (mutants, { count, seed }) => {
  const times = new Map()
  return mutants.map((mutant) => {
    const key = keyOf(mutant)
    const n = times.get(key) ?? 0
    times.set(key, n + 1)
    return { mutant, rank: createHash("sha256").update(`${seed} | ${n} | ${key}`).digest("hex") }
  }).sort((a, b) => a.rank < b.rank ? -1 : 1).slice(0, count).map(({ mutant }) => mutant)
}

const filesUnder = (folder) =>
  existsSync(folder)
    ? readdirSync(folder, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile() && entry.name.endsWith(".ts") && !entry.name.endsWith(".d.ts"))
      .map((entry) => relative(root, join(entry.parentPath ?? entry.path, entry.name)))
      .filter((path) => !path.includes("node_modules"))
    : []

/** The sources of a package that have something to mutate. */
export const sourcesOf = (name) =>
  filesUnder(join(root, "packages", name, "src")).filter((path) => !path.endsWith("/index.ts")).sort()

/** What a barrel's names stand for. */
const barrels = new Map(packages.map(({ manifest, name }) => {
  const path = join(root, "packages", name, "src/index.ts")
  const text = existsSync(path) ? readFileSync(path, "utf8") : ""
  return [
    manifest.name,
    {
      src: `packages/${name}/src`,
      names: new Map([...text.matchAll(/export \* as (\w+) from "\.\/(.+)\.js"/g)].map(([, as, file]) => [as, file]))
    }
  ]
}))

const cache = new Map()
/** The files that a file loads, with the barrels seen through. */
const importsOf = (file) => {
  const known = cache.get(file)
  if (known !== undefined) return known
  const source = ts.createSourceFile(file, readFileSync(join(root, file), "utf8"), ts.ScriptTarget.Latest, true)
  const found = new Set()
  const add = (path) => {
    if (existsSync(join(root, path))) found.add(path)
  }
  const visit = (node) => {
    if (
      ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword &&
      node.arguments[0] !== undefined && ts.isStringLiteral(node.arguments[0])
    ) resolve(node.arguments[0].text, undefined)
    ts.forEachChild(node, visit)
  }
  const resolve = (specifier, names) => {
    if (specifier.startsWith(".")) return add(join(dirname(file), specifier).replace(/\.js$/, ".ts"))
    const owner = [...barrels.keys()].find((name) => specifier === name || specifier.startsWith(`${name}/`))
    if (owner === undefined) return
    const { names: modules, src } = barrels.get(owner)
    if (specifier !== owner) return add(`${src}/${specifier.slice(owner.length + 1)}.ts`)
    for (const name of names ?? modules.keys()) {
      const module = modules.get(name)
      if (module !== undefined) add(`${src}/${module}.ts`)
    }
  }
  for (const statement of source.statements) {
    if (!(ts.isImportDeclaration(statement) || ts.isExportDeclaration(statement))) continue
    if (statement.moduleSpecifier === undefined) continue
    const clause = ts.isImportDeclaration(statement) ? statement.importClause : undefined
    if (clause?.isTypeOnly === true || statement.isTypeOnly === true) continue
    const named = clause?.namedBindings
    resolve(
      statement.moduleSpecifier.text,
      named !== undefined && ts.isNamedImports(named)
        ? named.elements.filter((one) => !one.isTypeOnly).map((one) => (one.propertyName ?? one.name).text)
        : undefined
    )
  }
  visit(source)
  cache.set(file, found)
  return found
}

/** For every test file of a package that spawns nothing: how many imports away each file is. */
const distances = (name) => {
  const all = new Map()
  for (const test of filesUnder(join(root, "packages", name, "test"))) {
    if (!test.endsWith(".test.ts") || /\.(?:e2e|integration)\.test\.ts$/.test(test)) continue
    const reached = new Map([[test, 0]])
    for (const [file, distance] of reached) {
      for (const next of importsOf(file)) if (!reached.has(next)) reached.set(next, distance + 1)
    }
    all.set(test, reached)
  }
  return all
}

/** The tests of a package by file: those next to it, and those further away. */
export const testsBySource = (name) => {
  const tests = distances(name)
  return (file) => {
    const reaching = [...tests].flatMap(([test, reached]) => {
      const distance = reached.get(file)
      return distance === undefined ? [] : [{ test, distance }]
    })
    const nearest = Math.min(...reaching.map(({ distance }) => distance))
    const isNear = ({ distance }) => distance <= Math.max(1, nearest)
    return [reaching.filter(isNear), reaching.filter((one) => !isNear(one))]
      .map((some) => some.map(({ test }) => test))
      .filter((some) => some.length > 0)
  }
}
