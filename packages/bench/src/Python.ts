/**
 * The official Python SDK as a variant: a program of `python/` that works on command and tells how long it took.
 */
import { Command, FileSystem, Path } from "@effect/platform"
import { Config, Effect, Option } from "effect"
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { BenchFailed } from "./Bench.js"

const root = fileURLToPath(new URL("..", import.meta.url))

export interface Program {
  /** Sends a line and gives the line that comes back. */
  readonly ask: (line: string) => Effect.Effect<string, BenchFailed>
}

/**
 * An interpreter that has the SDK: `TINKER_PYTHON`, the parity suite's environment, or one of our own with the version
 * that suite pins.
 */
const interpreter = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const given = yield* Config.string("TINKER_PYTHON").pipe(Config.option, Effect.orDie)
  if (Option.isSome(given)) return given.value
  const parity = path.join(root, "..", "parity")
  const [theirs, ours] = [parity, root].map((owner) => path.join(owner, ".venv", "bin", "python"))
  if (theirs === undefined || ours === undefined) return "python3"
  if (yield* fs.exists(theirs)) return theirs
  if (yield* fs.exists(ours)) return ours
  const requirements = path.join(parity, "python", "requirements.txt")
  const venv = path.join(root, ".venv")
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
  for (const command of [Command.make("python3", "-m", "venv", venv), Command.make(ours, ...pip)]) {
    const code = yield* Command.exitCode(command.pipe(Command.stdout("inherit"), Command.stderr("inherit")))
    if (code !== 0) {
      yield* fs.remove(venv, { recursive: true, force: true })
      return yield* new BenchFailed({ reason: "the Python SDK could not be installed" })
    }
  }
  return ours
}).pipe(Effect.catchTags({
  BadArgument: (error) => new BenchFailed({ reason: error.message }),
  SystemError: (error) => new BenchFailed({ reason: error.message })
}))

/** A program of `python/`, until the scope closes. */
export const start = Effect.fnUntraced(function*(script: string, ...args: ReadonlyArray<string>) {
  const python = yield* interpreter
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(python, [fileURLToPath(new URL(`../python/${script}`, import.meta.url)), ...args], {
        stdio: ["pipe", "pipe", "pipe"]
      })
    ),
    (child) => Effect.sync(() => child.kill())
  )
  const lines: Array<string> = []
  const complaints: Array<string> = []
  let answer: ((result: Effect.Effect<string, BenchFailed>) => void) | undefined
  let ended: BenchFailed | undefined
  const settle = () => {
    if (answer === undefined || (lines.length === 0 && ended === undefined)) return
    const line = lines.shift()
    const resume = answer
    answer = undefined
    resume(line === undefined ? Effect.fail(ended ?? new BenchFailed({ reason: "no answer" })) : Effect.succeed(line))
  }
  createInterface(child.stdout).on("line", (line) => {
    lines.push(line)
    settle()
  })
  child.stderr.on("data", (data) => complaints.push(String(data)))
  child.stdin.on("error", () => undefined)
  const end = (reason: string) => {
    ended ??= new BenchFailed({ reason: `Python: ${complaints.join("").trim().split("\n").pop() || reason}` })
    settle()
  }
  child.on("error", (error) => end(error.message))
  child.on("close", (code) => end(`exit code ${code}`))
  const program: Program = {
    ask: (line) =>
      Effect.async((resume) => {
        answer = resume
        child.stdin.write(`${line}\n`)
        settle()
      })
  }
  return program
})
