// The examples in the JSDoc of the publishable packages: compiled as a user's program would be, then loaded, which runs
// what they do at the top level. One that declares what its reader has is only compiled.
import { spawnSync } from "node:child_process"
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import ts from "typescript"
import { publishable, root } from "./packages.mjs"

const succeeds = (args) => spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" }).status === 0

/** The fenced blocks after each `@example` of a source file. */
const examplesOf = (file, text) => {
  const found = []
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const visit = (node) => {
    for (const doc of node.jsDoc ?? []) {
      for (const tag of doc.tags ?? []) {
        if (tag.tagName.text !== "example") continue
        const body = tag.getText().replaceAll(/^\s*\* ?/gm, "")
        for (const [, code] of body.matchAll(/```ts\n([\s\S]*?)```/g)) found.push(code)
      }
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

let count = 0
let loadable = 0
const folders = []
for (const { dir } of publishable) {
  // Inside the package, so that what it may import is what the example may import.
  const folder = `${dir}/build/examples`
  rmSync(folder, { recursive: true, force: true })
  const files = readdirSync(`${dir}/src`, { recursive: true }).filter((file) => /\.tsx?$/.test(file)).sort()
  const written = files.flatMap((file) =>
    examplesOf(file, readFileSync(`${dir}/src/${file}`, "utf8")).map((code, i) => ({
      name: `${file.replaceAll("/", "-").replace(/\.tsx?$/, "")}-${i + 1}`,
      code
    }))
  )
  if (written.length === 0) continue
  mkdirSync(folder, { recursive: true })
  for (const { code, name } of written) writeFileSync(`${folder}/${name}.ts`, `${code}export {}\n`)
  const complete = written.filter(({ code }) => !/^declare /m.test(code))
  writeFileSync(`${folder}/all.ts`, `${complete.map(({ name }) => `import "./${name}.js"\n`).join("")}export {}\n`)
  folders.push(folder)
  count += written.length
  loadable += complete.length
}

const config = `${root}node_modules/.cache/examples/tsconfig.json`
mkdirSync(`${root}node_modules/.cache/examples`, { recursive: true })
writeFileSync(
  config,
  JSON.stringify({
    extends: `${root}tsconfig.base.json`,
    compilerOptions: {
      // An example ends where it has shown what it shows.
      noUnusedLocals: false,
      noUnusedParameters: false,
      noEmit: true,
      incremental: true,
      tsBuildInfoFile: `${root}node_modules/.cache/examples/tsbuildinfo`,
      typeRoots: [`${root}node_modules/@types`]
    },
    include: folders,
    // Their declarations are checked already: only the examples are left to be.
    references: publishable.map(({ dir }) => ({ path: `${dir}/tsconfig.src.json` }))
  })
)
const loaded = (folder) => succeeds(["--conditions=@effect-tinker/source", "--import", "tsx", `${folder}/all.ts`])
if (!succeeds([`${root}.ci/tsc.mjs`, config]) || !folders.every(loaded)) process.exit(1)
process.stdout.write(`${count} examples in the JSDoc compile, ${loadable} of them load\n`)
