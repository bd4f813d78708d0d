// The closing line, from vitest's report.
import { existsSync, readFileSync } from "node:fs"
import { root } from "./packages.mjs"

const path = `${root}node_modules/.cache/vitest.json`
if (!existsSync(path)) {
  process.stdout.write("the tests did not run\n0 passed, 1 failed\n")
  process.exit(1)
}
const report = JSON.parse(readFileSync(path, "utf8"))
// A file that does not load has no tests to count, and is still a failure.
const broken = report.testResults.filter((file) => file.status === "failed" && file.assertionResults.length === 0)
const failed = report.numFailedTests + broken.length
const skipped = report.numPendingTests + report.numTodoTests
process.stdout.write(`${report.numPassedTests} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`)
process.exit(failed === 0 && report.numPassedTests > 0 ? 0 : 1)
