#!/usr/bin/env node
/**
 * The `tinker` executable. What needs no command tree is answered here, before anything else is loaded.
 *
 * @since 0.1.0
 */
import { problem } from "./internal/nodeVersion.js"
import { version } from "./internal/version.js"

// A reader that has left, as in `tinker run list | head`, ends the output and is nobody's failure.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0)
    throw error
  })
}

const tooOld = problem(process.versions.node)
const args = process.argv.slice(2)
const line = args.join(" ")

if (tooOld !== undefined) {
  process.stderr.write(`${tooOld}\n`)
  process.exitCode = 1
} else if (line === "version" || line === "--version") {
  process.stdout.write(`tinker ${version}\n`)
} else if (/^(?:version (?:--format|-f)[ =](?:nd)?json|(?:--format|-f)[ =](?:nd)?json version)$/.test(line)) {
  process.stdout.write(`${JSON.stringify({ version, node: process.version })}\n`)
} else {
  import("./main.js").then(({ main }) => main(process.argv), (error: unknown) => {
    process.stderr.write(`error: the program could not be loaded: ${String(error)}\n`)
    process.stderr.write("Install it again: npm install -g @effect-tinker/cli\n")
    process.exitCode = 1
  })
}
