// npm run effect4: how far the SDK, the tokenizers and the cookbook are from Effect 4. Copies their sources into a temporary directory,
// installs the newest Effect 4 there, applies the codemod in effect4.json, type-checks, and prints the errors by kind.
// The counts are the output: the exit code is 0 however many there are. `--keep` leaves the directory, `--list` prints
// every error. What is planned is in docs/effect-4.md.
import { spawnSync } from "node:child_process"
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, relative } from "node:path"
import ts from "typescript"
import { packages, root } from "./packages.mjs"

const moved = ["platform", "tinker", "tokenizer", "cookbook"]
const codemod = JSON.parse(readFileSync(new URL("effect4.json", import.meta.url), "utf8"))

/** Rewritten calls, by the shape that effect4.json names. `undefined` leaves the call as it is. */
const shapes = {
  array: (callee, args) => args.length === 1 && args[0].startsWith("[") ? undefined : `${callee}([${args.join(", ")}])`,
  literals: (callee, args) => args.length < 2 ? undefined : `${callee}s([${args.join(", ")}])`,
  timeout: (callee, args, nodes) => {
    const options = nodes.find(ts.isObjectLiteralExpression)
    const failure = options?.properties.find((property) => property.name?.getText() === "onTimeout")?.initializer
    if (failure === undefined) return undefined
    const wrapped = options.properties.map((property) =>
      property.name?.getText() === "onTimeout"
        ? `orElse: () => Effect.fail((${failure.getText()})())`
        : property.getText()
    )
    return `${callee}(${args.map((text, i) => nodes[i] === options ? `{ ${wrapped.join(", ")} }` : text).join(", ")})`
  },
  record: (callee, args, [node]) => {
    const value = (name) =>
      node.properties.find((property) => property.name?.getText() === name)?.initializer?.getText() ?? name
    return args.length === 1 && ts.isObjectLiteralExpression(node)
      ? `${callee}(${value("key")}, ${value("value")})`
      : undefined
  },
  optional: (callee, args) => {
    const [schema, options = ""] = args
    const inner = /nullable: true/.test(options) ? `Schema.NullOr(${schema})` : schema
    const fallback = /default: (?:\(\) => )?([\s\S]*?)(?:, nullable: true)?\s*\}$/.exec(options)?.[1]
    return fallback === undefined
      ? /exact: true/.test(options) ? `Schema.optionalKey(${inner})` : `Schema.optional(${inner})`
      : `Schema.optional(${inner}).pipe(Schema.withDecodingDefaultType(Effect.sync(() => ${fallback})))`
  }
}

const shapeOf = Object.fromEntries(
  Object.entries(codemod.calls).flatMap(([shape, names]) => names.map((n) => [n, shape]))
)
const applied = { modules: 0, members: 0, calls: 0, text: 0 }

/** One pass over a file: the innermost edits first, so that nested calls are rewritten by the next pass. */
const rewrite = (file, text, pass) => {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const namespaces = new Map()
  const edits = []
  const edit = (node, replacement, kind) => {
    edits.push([node.getStart(), node.getEnd(), replacement])
    applied[kind]++
  }
  for (const statement of source.statements) {
    if (!ts.isImportDeclaration(statement)) continue
    const specifier = statement.moduleSpecifier.text
    const bindings = statement.importClause?.namedBindings
    if (bindings !== undefined && ts.isNamespaceImport(bindings)) namespaces.set(bindings.name.text, specifier)
    const target = codemod.modules[specifier]
    if (pass === "names" && target !== undefined) edit(statement.moduleSpecifier, JSON.stringify(target), "modules")
  }
  const visit = (node) => {
    if (pass === "names" && (ts.isPropertyAccessExpression(node) || ts.isQualifiedName(node))) {
      const [left, right] = ts.isQualifiedName(node) ? [node.left, node.right] : [node.expression, node.name]
      const specifier = ts.isIdentifier(left) ? namespaces.get(left.text) : undefined
      const name = codemod.members[specifier]?.[right.text]
      if (name !== undefined) edit(right, name, "members")
    }
    ts.forEachChild(node, visit)
    if (pass !== "calls" || !ts.isCallExpression(node)) return
    const callee = node.expression.getText()
    const shape = Object.hasOwn(shapeOf, callee) ? shapes[shapeOf[callee]] : undefined
    const rewritten = shape?.(callee, node.arguments.map((argument) => argument.getText()), node.arguments)
    // A call inside a rewritten call waits for the next pass.
    if (rewritten !== undefined && !edits.some(([from]) => from >= node.getStart())) edit(node, rewritten, "calls")
  }
  visit(source)
  return edits.sort(([a], [b]) => b - a).reduce((out, [from, to, by]) => out.slice(0, from) + by + out.slice(to), text)
}

const migrate = (file, text) => {
  let out = rewrite(file, text, "names")
  for (const { replace, search } of codemod.text) {
    out = out.replaceAll(new RegExp(search, "g"), (...match) => {
      applied.text++
      return replace.replaceAll(/\$(\d)/g, (_, group) => match[Number(group)])
    })
  }
  for (let before = ""; before !== out;) {
    before = out
    out = rewrite(file, out, "calls")
  }
  // Defaults are Effects, and semaphores have a module, in files that had neither.
  for (const name of ["Effect", "Semaphore"]) {
    const uses = new RegExp(`\\b${name}\\.\\w`).test(out)
    const imports = new RegExp(`import (?:type )?\\* as ${name} from`).test(out)
    if (uses && !imports) out = `import * as ${name} from "effect/${name}"\n${out}`
  }
  return out
}

const table = (title, rows) => {
  process.stdout.write(`\n${title}\n`)
  for (const [count, ...cells] of rows) process.stdout.write(`${String(count).padStart(6)}  ${cells.join("  ")}\n`)
}

const counted = (keys) => {
  const counts = new Map()
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1)
  return [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).map(([key, count]) => [count, key])
}

const stage = mkdtempSync(join(tmpdir(), "effect-tinker-effect4-"))
try {
  const dependencies = Object.assign(
    { effect: "^4", "@types/node": "20" },
    ...packages.filter(({ name }) => moved.includes(name)).map(({ manifest }) => manifest.dependencies),
    // Optional, and loaded where they are needed; their types are asked for.
    { franc: "^6.2.0", hyparquet: "^1.31.1", "quickjs-wasi": "^3.6.2" }
  )
  for (const { manifest, name } of packages) if (moved.includes(name)) delete dependencies[manifest.name]
  writeFileSync(join(stage, "package.json"), JSON.stringify({ private: true, type: "module", dependencies }))
  const install = spawnSync("npm", ["install", "--no-legacy-peer-deps", "--ignore-scripts", "--no-audit", "--silent"], {
    cwd: stage,
    stdio: ["ignore", "ignore", "inherit"]
  })
  if (install.status !== 0) {
    process.stderr.write("Effect 4 could not be installed: nothing was counted.\n")
    process.exit(1)
  }
  const version = JSON.parse(readFileSync(join(stage, "node_modules/effect/package.json"), "utf8")).version
  const files = []
  for (const name of moved) {
    cpSync(`${root}packages/${name}/src`, join(stage, name), { recursive: true })
    for (const entry of readdirSync(join(stage, name), { recursive: true })) {
      if (!entry.endsWith(".ts")) continue
      const file = join(stage, name, entry)
      writeFileSync(file, migrate(file, readFileSync(file, "utf8")))
      files.push(file)
    }
  }
  const base =
    ts.parseConfigFileTextToJson("tsconfig.base.json", readFileSync(`${root}tsconfig.base.json`, "utf8")).config
  const { options } = ts.convertCompilerOptionsFromJson({
    ...base.compilerOptions,
    customConditions: [],
    declaration: false,
    declarationMap: false,
    incremental: false,
    noEmit: true,
    // They import each other from their copies.
    paths: Object.fromEntries(
      packages.filter(({ name }) => moved.includes(name)).flatMap(({ manifest, name }) => [
        [`${manifest.name}/*`, [join(stage, name, "*.ts")]],
        [manifest.name, [join(stage, name, "index.ts")]]
      ])
    ),
    sourceMap: false,
    typeRoots: [join(stage, "node_modules/@types")]
  }, stage)
  const program = ts.createProgram(files, options)
  const errors = ts.getPreEmitDiagnostics(program).map((diagnostic) => ({
    code: `TS${diagnostic.code}`,
    file: diagnostic.file === undefined ? "(options)" : relative(stage, diagnostic.file.fileName),
    line: diagnostic.file?.getLineAndCharacterOfPosition(diagnostic.start).line ?? 0,
    text: ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n").split("\n")[0]
  }))

  const means = {
    TS2304: "no such name",
    TS2305: "no such export",
    TS2307: "no such module",
    TS2314: "number of type arguments",
    TS2322: "type not assignable",
    TS2339: "no such member",
    TS2344: "type argument does not fit",
    TS2345: "argument does not fit",
    TS2353: "no such property in an object literal",
    TS2367: "comparison without overlap",
    TS2375: "type not assignable, optional properties",
    TS2379: "argument does not fit, optional properties",
    TS2551: "no such member, one is similar",
    TS2554: "number of arguments",
    TS2558: "number of type arguments",
    TS2694: "no such type in a namespace",
    TS2707: "number of type arguments",
    TS2724: "no such export, one is similar",
    TS2769: "no overload fits",
    TS7006: "parameter without a type: follows from another error",
    TS7031: "binding without a type: follows from another error",
    TS18046: "value of type unknown: follows from another error",
    TS18047: "possibly null",
    TS18048: "possibly undefined"
  }
  // Paths of declarations are shown as the module they belong to.
  const short = (text) =>
    text.replaceAll(/import\("[^"]*node_modules\/([^"]*?)(?:\.d\.ts)?"\)/g, "$1").replaceAll("/dist/", "/")
  const missing = errors.flatMap(({ code, text }) => {
    const message = short(text)
    const member = /^Property '(\w+)' does not exist on type 'typeof (effect\/[\w/]+)'/.exec(message) ??
      /^Property '(\w+)' does not exist on type '.*?(effect\/[\w/]+)/.exec(message)
    if (member !== null) return [`${member[2]}.${member[1]}`]
    const type = /^Namespace '"?.*?node_modules\/(effect\/[\w/]+).*? has no exported member '(\w+)'/.exec(text) ??
      /^'"?.*?node_modules\/(effect\/[\w/]+).*?has no exported member (?:named )?'(\w+)'/.exec(text)
    if (type !== null) return [`${type[1].replace("/dist/", "/")}.${type[2]}`]
    return code === "TS2307" ? [/module '([^']+)'/.exec(text)?.[1] ?? text] : []
  })
  const touched = new Set(errors.map(({ file }) => file))
  const follow = errors.filter(({ code }) => /follows/.test(means[code] ?? "")).length

  process.stdout.write(
    `Effect ${version}: ${errors.length} type errors in ${touched.size} of ${files.length} files of ${`${
      moved.slice(0, -1).join(", ")
    } and ${moved.at(-1)}`}` +
      `, ${follow} of them follow from others\n` +
      `the codemod changed ${applied.modules} imports, ${applied.members} names, ${applied.calls} calls, ${applied.text} declarations\n`
  )
  table(
    "by kind",
    counted(errors.map(({ code }) => code)).slice(0, 16).map(([n, code]) => [n, code.padEnd(8), means[code] ?? ""])
  )
  table("by module", counted(errors.map(({ file }) => file)).slice(0, 16))
  table("missing names, most used first", counted(missing).slice(0, 30))
  if (process.argv.includes("--list")) {
    process.stdout.write("\nall\n")
    for (const { code, file, line, text } of errors) {
      process.stdout.write(`${file}:${line + 1} ${code} ${short(text)}\n`)
    }
  }
} finally {
  if (process.argv.includes("--keep")) process.stdout.write(`\nkept: ${stage}\n`)
  else rmSync(stage, { recursive: true, force: true })
}
