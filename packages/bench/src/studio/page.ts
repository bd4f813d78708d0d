/**
 * The page in a browser over a directory, in separate processes: `first` and `pan`, each answered with its
 * figures. Debian's `chromium`, or the one that `CHROMIUM` names.
 */
import * as NodeStudio from "@effect-tinker/studio/NodeStudio"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Effect, Redacted } from "effect"
import { createInterface } from "node:readline"
import { chromium } from "playwright-core"

const [directory = "", executablePath = ""] = process.argv.slice(2)

/** Moves a window over the curves for as many frames, and notes how long each took. */
const panning = (frames: number) =>
  `new Promise((resolve) => {
  const over = document.querySelector(".u-over")
  const times = []
  let last = performance.now()
  const frame = (now) => {
    times.push(now - last)
    last = now
    if (times.length > ${frames}) return resolve(times.slice(1).sort((a, b) => a - b))
    const deltaX = Math.sin(times.length / 20) * 24
    over.dispatchEvent(new WheelEvent("wheel", { deltaX, bubbles: true, cancelable: true }))
    requestAnimationFrame(frame)
  }
  requestAnimationFrame(frame)
})`

const main = Effect.gen(function*() {
  const running = yield* NodeStudio.serve({ directory })
  const browser = yield* Effect.acquireRelease(
    Effect.promise(() => chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] })),
    (open) => Effect.promise(() => open.close())
  )
  const page = yield* Effect.promise(() => browser.newPage({ viewport: { width: 1280, height: 820 } }))
  const commands: Readonly<Record<string, () => Promise<unknown>>> = {
    first: async () => {
      page.setDefaultTimeout(300_000)
      await page.goto(Redacted.value(running.url))
      const started = performance.now()
      await page.goto(`${running.origin}/#/run/run-0`)
      await page.reload()
      await page.locator(".uplot canvas").first().waitFor()
      return { ms: performance.now() - started }
    },
    pan: async () => {
      const over = await page.locator(".u-over").first().boundingBox()
      if (over === null) throw new Error("there is no curve")
      const y = over.y + over.height / 2
      await page.mouse.move(over.x + over.width * 0.3, y)
      await page.mouse.down()
      await page.mouse.move(over.x + over.width * 0.6, y, { steps: 4 })
      await page.mouse.up()
      await page.getByRole("button", { name: "Show everything" }).waitFor()
      const times = await page.evaluate<ReadonlyArray<number>>(panning(240))
      const session = await page.context().newCDPSession(page)
      await session.send("HeapProfiler.collectGarbage")
      const { usedSize } = await session.send("Runtime.getHeapUsage")
      return { median: times[120], p99: times[237], heap: usedSize }
    }
  }
  createInterface(process.stdin).on("line", (line) => {
    void commands[line]?.().then((figures) => process.stdout.write(`${JSON.stringify(figures)}\n`))
  })
  return yield* Effect.never
})

NodeRuntime.runMain(Effect.scoped(main).pipe(Effect.provide(NodeContext.layer)))
