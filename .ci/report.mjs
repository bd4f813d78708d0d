// The closing line, from vitest's reports of the tests and of the slow tests.
import { existsSync, readFileSync } from "node:fs"
import { relative } from "node:path"
import { root } from "./packages.mjs"

const reports = ["vitest.json", "vitest-e2e.json"].map((name) => `${root}node_modules/.cache/${name}`)
const counts = { passed: 0, failed: 0, skipped: 0 }
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
  // The reason is in the name, or was printed when the file was loaded.
  for (const { assertionResults, name } of report.testResults) {
    const skipped = assertionResults.filter(({ status }) => status !== "passed" && status !== "failed")
    for (const { fullName } of skipped) process.stdout.write(`skipped: ${relative(root, name)}: ${fullName.trim()}\n`)
  }
}
const { failed, passed, skipped } = counts
process.stdout.write(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`)
process.exit(failed === 0 && passed > 0 ? 0 : 1)
