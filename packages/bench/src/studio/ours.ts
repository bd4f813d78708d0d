/** The studio on a directory, in a separate process: `first`, `all`, `pan`, each answered with its figures. */
import * as Studio from "@effect-tinker/studio/Studio"
import { HttpApp } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Effect, Redacted } from "effect"
import { createInterface } from "node:readline"
import { sized } from "../Bench.js"

const [directory = ""] = process.argv.slice(2)

const main = Effect.gen(function*() {
  const started = performance.now()
  const page = { html: "", script: "", style: "" }
  const studio = yield* Studio.make({ directory, page, token: Redacted.make("bench"), every: "1 second" })
  const handle = HttpApp.toWebHandler(studio.app)
  const get = async (path: string) => {
    const headers = { host: "127.0.0.1:1", authorization: "Bearer bench" }
    const response = await handle(new Request(`http://127.0.0.1:1${path}`, { headers }))
    const body = await response.text()
    if (response.status !== 200) throw new Error(`${path}: ${response.status} ${body}`)
    return body
  }
  const curve = (run: string, words: string) => get(`/api/runs/${run}/series?metric=loss&points=1000${words}`)
  const commands: Readonly<Record<string, () => Promise<unknown>>> = {
    first: async () => {
      await curve(`run-${sized(150, 3)}`, "")
      return { ms: performance.now() - started }
    },
    all: async () => {
      for (;;) {
        const { loading, runs } = JSON.parse(await get("/api/runs"))
        if (loading === 0 && runs.length >= sized(200, 4)) break
        await new Promise((resolve) => setTimeout(resolve, 10))
      }
      const read = performance.now() - started
      const steps = JSON.parse(await get("/api/runs/run-0/rollouts"))
      const indexed = performance.now() - started - read
      globalThis.gc?.()
      const { arrayBuffers, heapUsed, rss } = process.memoryUsage()
      return { ms: read, rollouts: indexed, steps: steps.length, held: heapUsed + arrayBuffers, rss }
    },
    pan: async () => {
      const times: Array<number> = []
      for (let i = 0; i < 200; i++) {
        const before = performance.now()
        await curve("run-0", `&smooth=0.9&from=${i * 300}&to=${i * 300 + 40_000}`)
        times.push(performance.now() - before)
      }
      times.sort((a, b) => a - b)
      return { median: times[100], p99: times[198] }
    }
  }
  createInterface(process.stdin).on("line", (line) => {
    void commands[line]?.().then((figures) => process.stdout.write(`${JSON.stringify(figures)}\n`))
  })
  return yield* Effect.never
})

NodeRuntime.runMain(Effect.scoped(main).pipe(Effect.provide(NodeContext.layer)))
