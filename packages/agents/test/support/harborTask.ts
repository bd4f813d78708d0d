/** A task directory of Harbor, made in a directory of its own. */
import { FileSystem, Path } from "@effect/platform"
import { Effect } from "effect"

/** A file must hold the sum of the numbers of another one. */
export const sum: Readonly<Record<string, string>> = {
  "task.toml": [
    "schema_version = \"1.1\"",
    "[task]",
    "name = \"tests/sum\"",
    "[metadata]",
    "difficulty = \"easy\"",
    "tags = [\"trivial\"]",
    "[agent]",
    "timeout_sec = 60.0",
    "[verifier]",
    "timeout_sec = 30.0",
    "env = { WANTED = \"${WANTED:-42}\" }",
    "[environment]",
    "cpus = 1",
    "memory = \"0.5G\"",
    "storage_mb = 64"
  ].join("\n"),
  "instruction.md": "Write the sum of the numbers in /app/data/numbers.txt to /app/sum.txt.\n",
  "environment/Dockerfile": [
    "# the numbers",
    "FROM python:3.13-slim",
    "WORKDIR /app",
    "ENV GREETING=\"hello there\" \\",
    "    KIND=small",
    "COPY numbers.txt data/"
  ].join("\n"),
  "environment/numbers.txt": "20\n22\n",
  "tests/test.sh": [
    "mkdir -p /logs/verifier",
    ". /tests/helper.sh",
    "if [ \"$(cat /app/sum.txt)\" = \"$WANTED\" ]; then write 1; else write 0; fi"
  ].join("\n"),
  "tests/helper.sh": "write() { echo $1 >/logs/verifier/reward.txt; echo \"graded $1\"; }\n",
  "solution/solve.sh": "awk '{ s += $1 } END { print s }' /app/data/numbers.txt >/app/sum.txt\n"
}

/** Writes the files, without those that are `undefined`. */
export const taskDirectory = (files: Readonly<Record<string, string | undefined>>, name = "sum") =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const directory = path.join(yield* fs.makeTempDirectoryScoped(), name)
    for (const [file, text] of Object.entries(files)) {
      if (text === undefined) continue
      yield* fs.makeDirectory(path.dirname(path.join(directory, file)), { recursive: true })
      yield* fs.writeFileString(path.join(directory, file), text)
    }
    return directory
  }).pipe(Effect.orDie)
