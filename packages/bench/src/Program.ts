/**
 * Another process as a variant: it works on command and tells how long it took.
 */
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { BenchFailed, isSmoke } from "./Bench.js"

export interface Program {
  /** Sends a line and gives the line that comes back. */
  readonly ask: (line: string) => Effect.Effect<string, BenchFailed>
}

/** The program, until the scope closes. */
export const start = Effect.fnUntraced(function*(command: string, ...args: ReadonlyArray<string>) {
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] })),
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
    ended ??= new BenchFailed({ reason: `${command}: ${complaints.join("").trim().split("\n").pop() || reason}` })
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

/** A module of this package as a program of its own, until the scope closes. */
export const startModule = (module: string, ...args: ReadonlyArray<string>) =>
  start(process.execPath, fileURLToPath(new URL(module, import.meta.url)), ...args, ...(isSmoke ? ["--smoke"] : []))
