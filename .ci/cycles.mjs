// Fails on an import cycle between source modules; imports of types alone are not counted, they leave no trace at run time.
import madge from "madge"
import { packages } from "./packages.mjs"

let found = 0
for (const { dir, name } of packages) {
  const graph = await madge(`${dir}/src`, {
    fileExtensions: ["ts"],
    detectiveOptions: { ts: { skipTypeImports: true } }
  })
  for (const cycle of graph.circular()) {
    found++
    process.stderr.write(`import cycle in packages/${name}: ${[...cycle, cycle[0]].join(" -> ")}\n`)
  }
}
process.exit(found === 0 ? 0 : 1)
