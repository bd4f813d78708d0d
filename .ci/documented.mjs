// Fails on a public export without a JSDoc that says what it is, with @since and @category, and on a module without a header.
import { readdirSync, readFileSync } from "node:fs"
import ts from "typescript"
import { publishable } from "./packages.mjs"

let found = 0
const report = (where, what) => {
  found++
  process.stderr.write(`${where}: ${what}\n`)
}

const names = (statement) =>
  ts.isVariableStatement(statement)
    ? statement.declarationList.declarations.map(({ name }) => name.getText())
    : [statement.name?.getText() ?? statement.getText().split("\n")[0]]

for (const { dir, name } of publishable) {
  // What `exports` lets users reach: modules named after a concept, also those in a folder of its name, and wire types.
  const modules = readdirSync(`${dir}/src`, { recursive: true }).filter((file) =>
    /^(wire\/)?([A-Z]\w*\/)?[A-Z]\w*\.ts$/.test(file)
  )
  for (const file of modules) {
    const text = readFileSync(`${dir}/src/${file}`, "utf8")
    const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
    const where = `packages/${name}/src/${file}`
    if (!/^\/\*\*[\s\S]*?@since[\s\S]*?\*\//.test(text)) report(where, "the module has no header with @since")
    for (const statement of source.statements) {
      const exported = ts.canHaveModifiers(statement) &&
        ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
      // What is passed on is documented where it comes from.
      if (!exported) continue
      const tags = new Set(ts.getJSDocTags(statement).map(({ tagName }) => tagName.text))
      // Overloads are documented once, by the first.
      const overload = ts.isFunctionDeclaration(statement) && (statement.jsDoc ?? []).length === 0
      if (tags.has("internal") || overload) continue
      const [doc] = ts.getJSDocCommentsAndTags(statement)
      if (!doc?.comment) report(`${where}: ${names(statement).join(", ")}`, "no sentence that says what it is")
      for (const tag of ["since", "category"]) {
        if (!tags.has(tag)) report(`${where}: ${names(statement).join(", ")}`, `no @${tag}`)
      }
    }
  }
}
process.exit(found === 0 ? 0 : 1)
