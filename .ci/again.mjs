// Runs the files of failed tests once more, without others beside them: `node .ci/again.mjs REPORT...`, with the JSON reports of
// vitest. A test that fails again is a failure. One that passes is unsteady, by a race or on a busy machine: the report counts
// such tests separately and prints why they failed first, so that somebody looks into it.
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { relative } from "node:path"
import { root } from "./packages.mjs"

/** More than so many files are no accident. */
const most = 4

const cache = `${root}node_modules/.cache/`
const read = (name) => JSON.parse(readFileSync(`${cache}${name}`, "utf8"))
const failedOf = (report) => report.testResults.filter(({ status }) => status === "failed")

for (const name of process.argv.slice(2)) {
  if (!existsSync(`${cache}${name}`)) continue
  const report = read(name)
  const failed = failedOf(report)
  if (failed.length === 0 || failed.length > most) continue
  const second = `again-${name}`
  rmSync(`${cache}${second}`, { force: true })
  const files = failed.map((file) => relative(root, file.name))
  process.stdout.write(`\n== once more, alone: ${files.join(" ")}\n`)
  spawnSync(
    "npx",
    ["vitest", "run", ...files, "--maxWorkers=1", "--minWorkers=1", "--reporter=default", "--reporter=json"].concat(
      `--outputFile.json=${cache}${second}`
    ),
    { cwd: root, stdio: "inherit" }
  )
  if (!existsSync(`${cache}${second}`)) continue
  const again = new Map(read(second).testResults.map((file) => [file.name, file]))
  const passed = failed.filter((file) => again.get(file.name)?.status === "passed")
  // The results of the second time take the place of the first, with what happened then.
  for (const file of passed) {
    const unsteady = file.assertionResults.filter(({ status }) => status === "failed")
    const tests = unsteady.map(({ failureMessages, fullName }) => ({ fullName, failureMessages }))
    Object.assign(file, again.get(file.name), { unsteady: tests })
    report.numFailedTests -= unsteady.length
    report.numPassedTests += unsteady.length
  }
  writeFileSync(`${cache}${name}`, JSON.stringify(report))
}
