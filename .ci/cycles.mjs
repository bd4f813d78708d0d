// Fails on an import cycle between source modules; imports of types alone are not counted, they leave no trace at run time.
import { build } from "esbuild"
import { readdirSync } from "node:fs"
import { packages, root } from "./packages.mjs"

/** The modules of a folder and what each of them imports of the others, as esbuild resolves it. */
const graph = async (folder) => {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: readdirSync(folder, { recursive: true }).filter((file) => /\.tsx?$/.test(file))
      .map((file) => `${folder}/${file}`),
    bundle: true,
    packages: "external",
    format: "esm",
    platform: "node",
    outdir: "unused",
    write: false,
    metafile: true,
    logLevel: "error"
  })
  return new Map(Object.entries(metafile.inputs).map(([file, { imports }]) => [file, imports.map(({ path }) => path)]))
}

/** The first cycle that is found from each module that is in one. */
const cycles = (modules) => {
  const found = []
  const done = new Set()
  const visit = (file, path) => {
    const at = path.indexOf(file)
    if (at >= 0) return found.push([...path.slice(at), file])
    if (done.has(file)) return
    for (const next of modules.get(file) ?? []) visit(next, [...path, file])
    done.add(file)
  }
  for (const file of modules.keys()) visit(file, [])
  return found
}

let found = 0
for (const { dir } of packages) {
  for (const cycle of cycles(await graph(`${dir}/src`))) {
    found++
    process.stderr.write(`import cycle: ${cycle.join(" -> ")}\n`)
  }
}
process.exit(found === 0 ? 0 : 1)
