/**
 * A variant in a process of its own, started with `--expose-gc`: `open N` makes so many futures and waits for them until
 * the server lets go, telling what they hold; `close` tells when all have ended.
 */
import { createInterface } from "node:readline"

const settled = () => {
  if (global.gc === undefined) throw new Error("start me with --expose-gc")
  for (let i = 0; i < 3; i++) global.gc()
  const { external, heapUsed } = process.memoryUsage()
  return heapUsed + external
}

const pause = (millis: number) => new Promise((resolve) => setTimeout(resolve, millis))

export interface Waiting {
  /** Ends when the results of all are there. */
  readonly all: Promise<unknown>
  /** How many polls have been made or wait for their turn. */
  readonly count: number
}

/** @param open gets so many operations accepted, and begins to wait for their results */
export const serve = (open: (futures: number) => Promise<Waiting>): void => {
  let waiting: Waiting | undefined
  const handle = async (line: string): Promise<unknown> => {
    const [command, count] = line.split(" ")
    if (command === "close") {
      await waiting?.all
      return { ended: waiting?.count ?? 0 }
    }
    const before = settled()
    const rss = process.memoryUsage().rss
    waiting = await open(Number(count))
    // until every socket that will be opened is open
    await pause(3_000)
    const peak = process.memoryUsage().rss
    return { retained: settled() - before, rss: peak - rss }
  }
  createInterface(process.stdin).on("line", (line) => {
    handle(line).then(
      (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`),
      (error) => {
        process.stderr.write(`${String(error)}\n`)
        process.exit(1)
      }
    )
  })
}
