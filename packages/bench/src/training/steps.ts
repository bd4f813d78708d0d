/**
 * The work of every variant, and how a process tells what it took.
 */
import { createInterface } from "node:readline"

/** Examples of a pass. */
export const batch = 4

/** Tokens of an example. */
export const length = 64

export const tokens = Array.from(
  { length: batch },
  (_, row) => Int32Array.from({ length }, (_, i) => 1000 + row * 100 + i)
)

/** @param train makes so many steps and waits for all of their results */
export const serve = (train: (steps: number) => Promise<unknown>): void => {
  createInterface(process.stdin).on("line", (line) => {
    const start = performance.now()
    const used = process.cpuUsage()
    train(Number(line)).then(
      () => {
        const seconds = (performance.now() - start) / 1000
        const { system, user } = process.cpuUsage(used)
        process.stdout.write(`${JSON.stringify({ seconds, cpu: (system + user) / 1e6 })}\n`)
      },
      (error) => {
        process.stderr.write(`${String(error)}\n`)
        process.exit(1)
      }
    )
  })
}
