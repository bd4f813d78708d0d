#!/usr/bin/env node
/**
 * The `tinker` executable: begins to read the line, and loads the program at the first word that needs it. The version
 * needs none.
 *
 * @since 0.1.0
 */
import { read } from "./internal/commandLine.js"
import { problem } from "./internal/nodeVersion.js"
import { version, versionOnly } from "./internal/version.js"

// A reader that has left, as in `tinker run list | head`, ends the output and is nobody's failure.
for (const stream of [process.stdout, process.stderr]) {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0)
    throw error
  })
}

const tooOld = problem(process.versions.node)

if (tooOld !== undefined) {
  process.stderr.write(`${tooOld}\n`)
  process.exitCode = 1
} else {
  const reading = read(process.argv.slice(2))
  let step = reading.next()
  if (step.done !== true && step.value._tag === "Command" && step.value.name === "version") {
    step = reading.next(versionOnly)
  }
  const isVersion = step.done === true &&
    (step.value._tag === "Version" || step.value._tag === "Run" && step.value.command.path[0] === "version")
  if (isVersion) process.stdout.write(`tinker ${version}\n`)
  else {
    import("./main.js").then(({ main }) => main(reading, step), (error: unknown) => {
      process.stderr.write(`error: the program could not be loaded: ${String(error)}\n`)
      process.stderr.write("Install it again: npm install -g @effect-tinker/cli\n")
      process.exitCode = 1
    })
  }
}
