// Runs the program behind a root script from source; a program that does not exist yet is a failure that says so.
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { root } from "./packages.mjs"

const programs = {
  quickstart: ["examples/shared/run.ts", "a small model fine-tuned on the embedded backend", "quickstart"],
  bench: ["packages/bench/src/main.ts", "benchmarks"],
  parity: ["packages/parity/src/main.ts", "the comparison with the Python SDK"],
  chaos: ["packages/parity/src/chaos.ts", "the chaos run"],
  example: ["examples/shared/run.ts", "the examples"],
  recipe: ["recipes/shared/run.ts", "the recipes"],
  tinker: ["packages/cli/src/bin.ts", "the command"],
  docs: [".ci/docs.mjs", "the documentation"],
  pretrain: ["packages/local/pretrain/main.ts", "the pretraining of local/chat"]
}

const [name, ...args] = process.argv.slice(2)
const [program, subject, ...first] = programs[name]
if (!existsSync(`${root}${program}`)) {
  process.stderr.write(`npm run ${name}: ${subject} is not part of this project yet.\n`)
  process.exit(1)
}
// What is measured is what users run: the compiled modules, not a loader's version of them.
if (name === "bench") {
  const build = spawnSync(process.execPath, [`${root}.ci/tsc.mjs`, "tsconfig.build.json"], { stdio: "inherit" })
  if (build.status !== 0) process.exit(build.status ?? 1)
}
// Its page is not in the repository.
if (name === "tinker" && args.includes("studio")) await import(`${root}packages/studio/page/build.mjs`)
// These are bundled first, which takes seconds on a slow machine.
if (name === "quickstart" || name === "example") process.stderr.write(`Preparing ${subject} ...\n`)
const entry = name === "bench" ? program.replace("/src/", "/dist/").replace(/\.ts$/, ".js") : program
const tsx = entry.endsWith(".ts") ? ["--conditions=@effect-tinker/source", "--import", "tsx"] : []
const { signal, status } = spawnSync(process.execPath, [...tsx, `${root}${entry}`, ...first, ...args], {
  stdio: "inherit"
})
process.exit(signal === "SIGINT" ? 130 : status ?? 1)
