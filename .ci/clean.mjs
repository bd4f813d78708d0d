import { rmSync } from "node:fs"
import { packages } from "./packages.mjs"

for (const { dir } of packages) {
  for (const output of ["dist", "build"]) rmSync(`${dir}/${output}`, { recursive: true, force: true })
}
