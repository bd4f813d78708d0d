// Runs the program behind a root script from source; a program that does not exist yet is a failure that says so.
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { root } from "./packages.mjs"

const programs = {
  quickstart: ["packages/local/examples/quickstart.ts", "a small model fine-tuned on the embedded backend"],
  bench: ["packages/bench/src/main.ts", "benchmarks"],
  parity: ["packages/parity/src/main.ts", "the comparison with the Python SDK"],
  chaos: ["packages/parity/src/chaos.ts", "the chaos run"],
  docs: [".ci/docs.mjs", "the API reference"]
}

const [name, ...args] = process.argv.slice(2)
const [program, subject] = programs[name]
if (!existsSync(`${root}${program}`)) {
  process.stderr.write(`npm run ${name}: ${subject} is not part of this project yet.\n`)
  process.exit(1)
}
const tsx = program.endsWith(".ts") ? ["--conditions=@effect-tinker/source", "--import", "tsx"] : []
const { signal, status } = spawnSync(process.execPath, [...tsx, `${root}${program}`, ...args], { stdio: "inherit" })
process.exit(signal === "SIGINT" ? 130 : status ?? 1)
