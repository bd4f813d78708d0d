// The API reference of each publishable package, from its JSDoc, into docs/api; the examples in the JSDoc are compiled.
import { spawnSync } from "node:child_process"
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { publishable, root } from "./packages.mjs"

const compiler = {
  noEmit: true,
  strict: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: true,
  moduleResolution: "NodeNext",
  module: "NodeNext",
  target: "ES2022",
  lib: ["ES2022", "DOM", "DOM.Iterable"],
  customConditions: ["@effect-tinker/source"],
  types: ["node"]
}

rmSync(`${root}docs/api`, { recursive: true, force: true })
let failed = 0
for (const { dir, manifest, name } of publishable) {
  // docgen reads its settings, and a home page that this project does not have, from files beside the sources
  const stage = `${dir}/build/docgen`
  rmSync(stage, { recursive: true, force: true })
  cpSync(`${dir}/src`, `${stage}/src`, { recursive: true })
  writeFileSync(
    `${stage}/package.json`,
    JSON.stringify({ name: manifest.name, type: "module", homepage: "../../README.md" })
  )
  writeFileSync(
    `${stage}/docgen.json`,
    JSON.stringify({
      exclude: ["src/internal/**/*.ts", "src/**/internal/**/*.ts", "src/index.ts", "src/bin.ts"],
      outDir: "docs",
      parseCompilerOptions: compiler,
      // examples import the package by name, which docgen turns into a path without an extension
      examplesCompilerOptions: { ...compiler, module: "ESNext", moduleResolution: "Bundler" }
    })
  )
  const { status } = spawnSync("npx", ["docgen"], { cwd: stage, stdio: "inherit" })
  if (status !== 0) {
    failed++
    continue
  }
  mkdirSync(`${root}docs/api`, { recursive: true })
  cpSync(`${stage}/docs/modules`, `${root}docs/api/${name}`, { recursive: true })
}
process.exit(failed === 0 ? 0 : 1)
