// The closing line, from vitest's reports of the tests and of the slow tests.
import { existsSync, readFileSync } from "node:fs"
import { relative } from "node:path"
import { root } from "./packages.mjs"

const reports = ["vitest.json", "vitest-e2e.json"].map((name) => `${root}node_modules/.cache/${name}`)
const counts = { passed: 0, failed: 0, skipped: 0, unsteady: 0 }
for (const path of reports) {
  if (!existsSync(path)) {
    process.stdout.write("not all tests ran\n")
    counts.failed++
    continue
  }
  const report = JSON.parse(readFileSync(path, "utf8"))
  // A file that does not load has no tests to count, and is still a failure.
  const broken = report.testResults.filter((file) => file.status === "failed" && file.assertionResults.length === 0)
  counts.passed += report.numPassedTests
  counts.failed += report.numFailedTests + broken.length
  counts.skipped += report.numPendingTests + report.numTodoTests
  for (const { assertionResults, message, name, unsteady = [] } of report.testResults) {
    const file = relative(root, name)
    for (const { failureMessages, fullName } of unsteady) {
      counts.unsteady++
      process.stdout.write(`passed only alone: ${file}: ${fullName.trim()}\n${failureMessages.join("\n")}\n`)
    }
    // The reason is in the name, or was printed when the file was loaded.
    const skipped = assertionResults.filter(({ status }) => status !== "passed" && status !== "failed")
    for (const { fullName } of skipped) process.stdout.write(`skipped: ${file}: ${fullName.trim()}\n`)
    // Said again at the end, because a log that is kept in part keeps its end.
    if (assertionResults.length === 0 && message) process.stdout.write(`failed: ${file}\n${message}\n`)
    for (const { failureMessages, fullName, status } of assertionResults) {
      if (status === "failed") {
        process.stdout.write(`failed: ${file}: ${fullName.trim()}\n${failureMessages.join("\n")}\n`)
      }
    }
  }
}
const { failed, passed, skipped, unsteady } = counts
const second = unsteady > 0 ? ` (${unsteady} of them only alone, at the second time)` : ""
process.stdout.write(`${passed} passed${second}, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`)
process.exit(failed === 0 && passed > 0 ? 0 : 1)
