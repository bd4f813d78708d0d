/** The page in a real browser: Debian's `chromium`, or the one that `CHROMIUM` names. */
import { Dataset, Environment, Example, Reinforce, RunLog } from "@effect-tinker/cookbook"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { CheckpointChat, DataCheck, Grades } from "@effect-tinker/studio"
import * as NodeStudio from "@effect-tinker/studio/NodeStudio"
import { Chat, Message } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import type { Scope } from "effect"
import { Clock, Effect, Fiber, Layer, Redacted, Ref, Stream } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { fileURLToPath } from "node:url"
import type { Browser, Page } from "playwright-core"
import { chromium } from "playwright-core"
import * as Runs from "./utils/runs.js"

const executable = [process.env["CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
  .find((path) => path !== undefined && existsSync(path))

/** With `SCREENSHOTS=1` the pictures of the README are taken again. */
const pictures = process.env["SCREENSHOTS"] === "1"
  ? fileURLToPath(new URL("../../../docs/assets/", import.meta.url))
  : undefined

const build = Effect.sync(() =>
  execFileSync(process.execPath, [fileURLToPath(new URL("../page/build.mjs", import.meta.url))])
)

const browser: Effect.Effect<Browser, never, Scope.Scope> = Effect.acquireRelease(
  Effect.promise(() =>
    chromium.launch({ executablePath: executable ?? "", args: ["--no-sandbox", "--disable-dev-shm-usage"] })
  ),
  (open) => Effect.promise(() => open.close())
)

interface Visit {
  readonly page: Page
  /** Requests to anywhere else, and errors of the page. */
  readonly strange: Array<string>
}

/** Opens the studio in a window of its own and notes everything it should not do. */
const visit = (
  open: Browser,
  running: NodeStudio.Running,
  look?: { readonly dark?: boolean; readonly width?: number }
) =>
  Effect.promise(async (): Promise<Visit> => {
    const width = look?.width ?? 1280
    const context = await open.newContext({
      colorScheme: look?.dark === true ? "dark" : "light",
      viewport: { width, height: width < 600 ? 780 : 820 },
      deviceScaleFactor: pictures === undefined ? 1 : 1.5,
      reducedMotion: "reduce"
    })
    const page = await context.newPage()
    const strange: Array<string> = []
    page.on("request", (request) => {
      const url = request.url()
      if (!url.startsWith(`${running.origin}/`) && !url.startsWith("data:")) strange.push(`request: ${url}`)
    })
    page.on("pageerror", (error) => strange.push(`error: ${error.message}`))
    page.on("console", (message) => {
      if (message.type() === "error") strange.push(`console: ${message.text()}`)
    })
    page.setDefaultTimeout(180_000)
    await page.goto(Redacted.value(running.url))
    return { page, strange }
  })

const take = async (page: Page, name: string) => {
  if (pictures === undefined) return
  mkdirSync(pictures, { recursive: true })
  // Curves are drawn in the frame after their data.
  await page.waitForTimeout(400)
  await page.screenshot({ path: `${pictures}${name}.png` })
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")

/** What axe finds wrong with the page as it stands: contrast, names, roles, order. */
const violations = (page: Page) =>
  Effect.promise(async () => {
    // Through the debugger: the page itself may run no script but its own.
    await page.evaluate(axe)
    const found: ReadonlyArray<string> = await page.evaluate(
      "axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations.flatMap((rule) =>" +
        " rule.nodes.map((node) => rule.id + ': ' + node.html.slice(0, 160) + ' ' + (node.any[0]?.message ?? ''))))"
    )
    return found
  })

type Given = readonly [key: string, grade: number]

/** Answers that a run waits to have graded; grades are remembered. */
const makeGrades = Effect.gen(function*() {
  const given = yield* Ref.make<ReadonlyArray<Given>>([])
  const now = yield* Clock.currentTimeMillis
  const questions = [
    {
      key: "late",
      question: "How polite is this answer, from 0 to 1?",
      answer: "I am sorry that your parcel is late. It left our warehouse on Monday, and the carrier promises it for " +
        "tomorrow. May I send you the tracking number?",
      time: now - 720_000
    },
    {
      key: "rude",
      question: "How polite is this answer, from 0 to 1?",
      answer: "<b>Read the page.</b>",
      time: now - 700_000
    },
    { key: "joke", question: "How funny is this?", answer: "To get to the other minimum.", time: now }
  ]
  const service: Grades.Service = {
    waiting: (directory) =>
      Effect.map(Ref.get(given), (all) =>
        directory.endsWith("support-open")
          ? questions.filter(({ key }) => !all.some(([known]) => known === key))
          : []),
    give: (_, key, grade) =>
      Ref.update(given, (all): ReadonlyArray<Given> => [...all.filter(([known]) => known !== key), [key, grade]])
  }
  return { given, service }
})

/** Chats as `local/chat` is trained on them, one of them too long. */
const makeData = Effect.gen(function*() {
  const { renderer } = yield* Chat.forModel("local/chat")
  const chats = Array.from({ length: 40 }, (_, n) =>
    Example.conversation([
      Message.user(`Where is order ${4100 + n}?${" Please hurry.".repeat(n % 7)}`),
      Message.assistant(
        n === 13 ? "word ".repeat(400) : `Order ${4100 + n} left our warehouse on Monday. ${"Sorry! ".repeat(n % 5)}`
      )
    ]))
  const service: DataCheck.Service = {
    files: [{ path: "support.jsonl", bytes: 8_412 }],
    model: "local/chat",
    check: ({ epochs, file, maxLength, model, price }) =>
      Effect.gen(function*() {
        const data = Dataset.mapEffect(Dataset.fromIterable(chats), (chat) =>
          Effect.map(Example.toDatum(chat, { renderer, maxLength }), (datum) => [datum]))
        const found = yield* DataCheck.measure(data, { show: 5 })
        const cost = DataCheck.costOf({ tokens: found.tokens, epochs, preferences: false, price: { train: price } })
        return {
          ...found,
          file,
          kind: "chats",
          model,
          renderer: renderer.name,
          epochs,
          trainingTokens: found.tokens * epochs,
          estimatedCost: cost ?? null,
          shown: found.shown.map(({ parts, row }) => ({
            row,
            parts: DataCheck.readable(parts, renderer.tokenizer)
          }))
        }
      })
  }
  return service
})

const problems = Environment.problems(
  Array.from({ length: 24 }, (_, n) => ({ a: 2 + n % 6, b: 1 + Math.floor(n / 4) })),
  {
    question: ({ a, b }) => `What is ${a} + ${b}?`,
    reward: ({ a, b }, answer) => {
      const said = /-?\d+/.exec(answer)?.[0]
      return said === undefined ? 0 : said === String(a + b) ? 1 : 0.2
    }
  }
)

const Backend = Layer.unwrapScoped(Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  return NodeTinkerLocal.layerInProcess({ directory: yield* fs.makeTempDirectoryScoped() })
})).pipe(Layer.orDie)

const Live = CheckpointChat.layer.pipe(Layer.provideMerge(Backend), Layer.provideMerge(NodeContext.layer))

describe.skipIf(executable === undefined)("The page (needs Chromium: apt install chromium)", () => {
  it.scopedLive("a run on the embedded backend, watched from its start to a token", () =>
    Effect.gen(function*() {
      yield* build
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      yield* Runs.supervised(`${directory}/support-lr1e-4`, { steps: 400, learningRate: 1e-4, floor: 0.62, seed: 1 })
      yield* Runs.supervised(`${directory}/support-lr3e-4`, { steps: 400, learningRate: 3e-4, floor: 0.48, seed: 2 })
      yield* Runs.python(`${directory}/python-math`)
      yield* Runs.waiting(`${directory}/support-open`)
      const { given, service } = yield* makeGrades
      const price = { train: 1.1, prefill: 0.4, sample: 2 }
      const running = yield* NodeStudio.serve({ directory, every: "200 millis", price }).pipe(
        Effect.provideService(Grades.Grades, service),
        Effect.provideService(DataCheck.DataCheck, yield* makeData)
      )
      const open = yield* browser
      const { page, strange } = yield* visit(open, running)
      const act = <A>(f: () => Promise<A>) => Effect.promise(f)
      const faults: Array<string> = []

      // The list, before the run exists.
      yield* act(() => page.getByRole("link", { name: "python-math" }).waitFor())
      assert.strictEqual(yield* act(() => page.locator("table.runs tbody tr").count()), 4)
      // What a run has cost, and how long it was kept waiting.
      const waitingRow = page.locator("table.runs tr", { hasText: "support-open" })
      assert.match(yield* act(() => waitingRow.locator(".cost").innerText()), /^\$\d+\.\d\d$/)
      assert.include(yield* act(() => waitingRow.innerText()), "waited")
      // What its steps took, and not the moment in which the file was written.
      const longRow = page.locator("table.runs tr", { hasText: "support-lr1e-4" })
      assert.match(yield* act(() => longRow.locator(".duration").innerText()), /^1\d min$/)
      assert.include(yield* act(() => longRow.locator(".settings-of").innerText()), "0.0001")

      // Keys: their overlay, two runs chosen and compared, back to the list, and a run as a file.
      yield* act(() => page.keyboard.press("?"))
      yield* act(() => page.getByRole("dialog", { name: "Keys" }).waitFor())
      faults.push(...yield* violations(page))
      yield* act(() => page.keyboard.press("Escape"))
      for (const key of ["j", "x", "j", "x", "c"]) yield* act(() => page.keyboard.press(key))
      yield* act(() => page.waitForURL(/#\/compare\/[\w-]+,[\w-]+$/))
      yield* act(() => page.keyboard.press("g"))
      yield* act(() => page.keyboard.press("r"))
      yield* act(() => page.getByRole("link", { name: "support-lr1e-4" }).click())
      yield* act(() => page.getByRole("heading", { name: /^Supervised fine-tuning of Qwen3-8B/ }).waitFor())
      const download = yield* act(() => {
        const saved = page.waitForEvent("download")
        return page.keyboard.press("e").then(() => saved)
      })
      assert.strictEqual(download.suggestedFilename(), "support-lr1e-4.html")
      const report = readFileSync(yield* act(() => download.path()), "utf8")
      assert.include(report, "<b>held-out: accuracy</b>")
      assert.include(report, "were skipped")
      assert.notMatch(report, /<script|https?:\/\//)
      yield* act(() => page.keyboard.press("u"))
      yield* act(() => page.getByRole("heading", { name: "Runs" }).waitFor())

      const chat = yield* Chat.forModel("local/chat")
      const training = yield* Reinforce.train({
        model: { baseModel: "local/chat", rank: 16, seed: 1 },
        problems,
        renderer: chat.renderer,
        learningRate: 3e-4,
        temperature: 1.6,
        maxTokens: 12,
        groupSize: 6,
        groupsPerBatch: 4,
        epochs: 3,
        checkpoints: { periodic: { steps: 6 } },
        log: RunLog.directory(`${directory}/sums`)
      }).pipe(Stream.runDrain, Effect.fork)

      // It appears by itself, is running, and its steps count up without a reload.
      const row = page.locator("table.runs tr", { hasText: "sums" })
      yield* act(() => row.waitFor())
      yield* act(() => row.getByText("Running").waitFor())
      yield* act(() => page.getByRole("link", { name: "sums" }).click())
      yield* act(() => page.getByRole("heading", { name: /^Reinforcement learning of local\/chat/ }).waitFor())
      const early = Number(
        yield* act(async () => /\d+/.exec(await page.locator(".steps-done dd").first().innerText())?.[0])
      )
      yield* Fiber.join(training)
      yield* act(() => page.locator("h1 .status.complete").waitFor())
      const steps = yield* act(async () => /\d+/.exec(await page.locator(".steps-done dd").first().innerText())?.[0])
      assert.strictEqual(steps, "18")
      assert.isBelow(early, 18)
      yield* act(() => page.locator(".card .uplot").first().waitFor())

      // From the lowest point of the reward curve to the rollouts of that step.
      const reward = page.getByRole("region", { name: "reward", exact: true })
      yield* act(() => reward.locator(".u-over").hover({ position: { x: 40, y: 60 } }))
      yield* act(() => reward.locator(".reading b").waitFor())
      yield* act(() => reward.locator(".u-over").click({ position: { x: 40, y: 60 } }))
      yield* act(() => page.getByRole("region", { name: "Group 0" }).waitFor())
      assert.match(yield* act(async () => page.url()), /#\/run\/sums\/rollouts\/\d+$/)
      assert.strictEqual(yield* act(() => page.locator(".rgroup").count()), 4)
      assert.strictEqual(yield* act(() => page.locator(".chip").count()), 24)

      // A group side by side, a rollout as a conversation, and its tokens.
      yield* act(() => page.getByRole("button", { name: "Side by side" }).first().click())
      yield* act(() => page.locator(".sidebyside .column").nth(5).waitFor())
      yield* act(() => page.getByRole("button", { name: "Side by side" }).first().click())
      yield* act(() => page.locator(".chip").first().click())
      yield* act(() => page.locator(".message.user", { hasText: /What is \d+ \+ \d+\?/ }).waitFor())
      yield* act(() => page.locator(".message.assistant").waitFor())
      yield* act(() => take(page, "studio-rollouts"))
      faults.push(...yield* violations(page))
      yield* act(() => page.getByRole("radio", { name: "Tokens" }).click())
      yield* act(() => page.locator(".tokenview").focus())
      yield* act(() => page.keyboard.press("ArrowRight"))
      yield* act(() => page.locator(".inspector", { hasText: "logprob" }).waitFor())
      assert.include(yield* act(() => page.locator(".inspector").innerText()), "sampled, trained on")
      const said = yield* act(() => page.locator(".tokens").first().innerText())
      assert.match(said, /What is \d+ \+ \d+\?/)
      yield* act(() => take(page, "studio-tokens"))
      yield* act(() => page.keyboard.press("j"))
      yield* act(() => page.waitForURL(/rollouts\/\d+\/train\/1\/tokens$/))

      // Everything by search.
      yield* act(() => page.getByRole("searchbox", { name: /Search/ }).fill("1"))
      assert.isTrue(yield* act(() => page.getByRole("button", { name: "Search" }).isDisabled()))
      yield* act(() => page.getByRole("searchbox", { name: /Search/ }).fill("no such words"))
      yield* act(() => page.getByRole("button", { name: "Search" }).click())
      yield* act(() => page.getByText("0 of 432 rollouts").waitFor())

      // A checkpoint beside its base model.
      yield* act(() => page.getByRole("link", { name: "Checkpoints" }).first().click())
      yield* act(() => page.getByRole("row", { name: /final/ }).getByRole("link", { name: "Chat" }).click())
      yield* act(() => page.getByRole("textbox", { name: "Your message" }).fill("What is 2 + 1?"))
      yield* act(() => page.keyboard.press("Enter"))
      yield* act(() => page.locator(".columns .card").nth(1).getByText(/\d+ tokens/).waitFor())
      yield* act(() => page.locator(".columns .card").nth(0).getByText(/\d+ tokens/).waitFor())

      // A tool that is offered is called, and the call is shown.
      yield* act(() => page.getByRole("button", { name: "Start over" }).click())
      yield* act(() => page.locator(".toolbox summary").click())
      const tool = {
        name: "order_status",
        description: "Status of an order.",
        parameters: { type: "object", properties: { id: { type: "string" } }, required: ["id"] }
      }
      yield* act(() => page.getByRole("spinbutton", { name: "Temperature" }).fill("0"))
      yield* act(() => page.getByRole("textbox", { name: /Tools/ }).fill(JSON.stringify([tool])))
      yield* act(() => page.getByRole("textbox", { name: "Your message" }).fill("What is the status of order 17-562?"))
      yield* act(() => page.keyboard.press("Enter"))
      yield* act(() => page.locator(".columns .card").nth(1).getByText(/\d+ tokens/).waitFor())
      yield* act(() => page.locator(".columns .card").nth(0).getByText(/\d+ tokens/).waitFor())
      assert.isAbove(yield* act(() => page.locator(".columns .call").count()), 0)
      yield* act(() => page.locator(".toolbox summary").click())
      yield* act(() => take(page, "studio-chat"))
      faults.push(...yield* violations(page))

      // Grades, by the keyboard alone: the first is taken back and given again.
      yield* act(() => page.getByRole("link", { name: "Grade, 3 waiting" }).click())
      yield* act(() => page.getByRole("heading", { name: "How polite is this answer, from 0 to 1?" }).waitFor())
      yield* act(() => take(page, "studio-grade"))
      faults.push(...yield* violations(page))
      yield* act(() => page.keyboard.press("1"))
      yield* act(() => page.locator(".answered", { hasText: "<b>Read the page.</b>" }).waitFor())
      yield* act(() => page.keyboard.press("u"))
      yield* act(() => page.locator(".answered", { hasText: "I am sorry" }).waitFor())
      yield* act(() => page.keyboard.press("5"))
      yield* act(() => page.locator(".answered", { hasText: "Read the page" }).waitFor())
      yield* act(() => page.keyboard.press("s"))
      yield* act(() => page.locator(".answered", { hasText: "minimum" }).waitFor())
      yield* act(() => page.keyboard.press("g"))
      yield* act(() => page.keyboard.type("0.3"))
      yield* act(() => page.keyboard.press("Enter"))
      yield* act(() => page.locator(".answered", { hasText: "Read the page" }).waitFor())
      yield* act(() => page.keyboard.press("2"))
      yield* act(() => page.getByRole("heading", { name: "All caught up" }).waitFor())
      assert.deepStrictEqual(Array.from(yield* Ref.get(given)), [["late", 1], ["joke", 0.3], ["rude", 0.25]])

      // Training data before it is trained on.
      yield* act(() => page.getByRole("link", { name: "Data", exact: true }).click())
      yield* act(() => page.getByRole("textbox", { name: "Longest row" }).fill("200"))
      yield* act(() => page.getByRole("textbox", { name: "Price of a million tokens" }).fill("3"))
      yield* act(() => page.getByRole("button", { name: "Check" }).click())
      yield* act(() => page.getByRole("region", { name: "Would be dropped" }).getByText("row 14").waitFor())
      assert.include(yield* act(() => page.locator(".stats").innerText()), "39 rows")
      const trained = yield* act(() => page.locator(".data .tokens .w3").allTextContents())
      assert.include(trained.join(""), "Order 4100 left our warehouse")
      assert.notInclude(trained.join(""), "Where is")
      yield* act(() => page.keyboard.press("Escape"))
      yield* act(() => take(page, "studio-data"))
      faults.push(...yield* violations(page))

      // Two runs over each other, and what differs in their configurations.
      yield* act(() => page.getByRole("link", { name: "tinker studio" }).click())
      yield* act(() => page.getByRole("checkbox", { name: "Compare support-lr1e-4" }).check())
      yield* act(() => page.getByRole("checkbox", { name: "Compare support-lr3e-4" }).check())
      yield* act(() => page.getByRole("button", { name: "Compare 2" }).click())
      yield* act(() => page.getByRole("heading", { name: "Compare 2 runs" }).waitFor())
      yield* act(() => page.locator("tr.differs", { hasText: "learningRate.peak" }).waitFor())
      assert.strictEqual(yield* act(() => page.locator("tr.differs").count()), 1)
      yield* act(() => page.getByRole("slider", { name: "Smoothing" }).fill("0.8"))
      yield* act(() => page.getByRole("region", { name: "loss", exact: true }).locator(".uplot").waitFor())
      yield* act(() => take(page, "studio-compare"))
      yield* act(() => page.getByRole("radio", { name: "Tokens" }).click())
      assert.deepStrictEqual(strange, [])

      // The same in the dark, and on a telephone.
      yield* act(() => page.goto(`${running.origin}/#/`))
      yield* act(() => page.getByRole("link", { name: "sums" }).waitFor())
      yield* act(() => take(page, "studio-runs"))
      faults.push(...yield* violations(page))
      const dark = yield* visit(open, running, { dark: true })
      yield* act(() => dark.page.getByRole("link", { name: "support-lr3e-4" }).click())
      yield* act(() => dark.page.locator(".uplot").first().waitFor())
      yield* act(() => dark.page.getByRole("slider", { name: "Smoothing" }).fill("0.6"))
      yield* act(() => take(dark.page, "studio-dark"))
      faults.push(...yield* violations(dark.page))
      const narrow = yield* visit(open, running, { width: 380 })
      for (
        const place of [
          "#/",
          "#/run/sums",
          "#/run/sums/rollouts",
          "#/run/sums/rollouts/6/train/0/tokens",
          "#/run/sums/checkpoints",
          "#/grade",
          "#/data"
        ]
      ) {
        yield* act(() => narrow.page.goto(`${running.origin}/${place}`))
        yield* act(() => narrow.page.locator("main :is(table, .uplot, .rgroup, .empty, .tokens)").first().waitFor())
        const wide = yield* act(() => narrow.page.evaluate("document.documentElement.scrollWidth"))
        assert.isAtMost(Number(wide), 380, `${place} is wider than the screen`)
        if (place === "#/") yield* act(() => take(narrow.page, "studio-narrow"))
      }
      assert.deepStrictEqual([...dark.strange, ...narrow.strange], [])
      assert.deepStrictEqual(Array.from(new Set(faults)), [])
    }).pipe(Effect.provide(Live)), 900_000)

  it.scopedLive("a rollout full of markup and scripts stays text", () =>
    Effect.gen(function*() {
      yield* build
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      yield* Runs.untrusted(`${directory}/<img src=x onerror=pwned=1>`)
      const running = yield* NodeStudio.serve({ directory })
      const open = yield* browser
      const { page, strange } = yield* visit(open, running)
      const act = <A>(f: () => Promise<A>) => Effect.promise(f)
      const id = encodeURIComponent("<img src=x onerror=pwned=1>")
      yield* act(() => page.getByRole("link", { name: "<img src=x onerror=pwned=1>" }).waitFor())
      for (const place of ["", "/notes", "/config", "/rollouts/1/train/0", "/rollouts/1/train/1/tokens"]) {
        yield* act(() => page.goto(`${running.origin}/#/run/${id}${place}`))
        yield* act(() => page.locator("main :is(.uplot, .notes, .json, .message, .tokens)").first().waitFor())
        assert.isUndefined(yield* act(() => page.evaluate("globalThis.pwned")))
        assert.strictEqual(
          yield* act(() => page.locator("#app :is(img, script, iframe, base, link, style)").count()),
          0
        )
      }
      yield* act(() => page.goto(`${running.origin}/#/run/${id}/rollouts/1/train/0`))
      yield* act(() => page.locator(".message .text").first().waitFor())
      assert.include(yield* act(() => page.locator(".rollout").innerText()), "<script>globalThis.pwned=1</script>")
      assert.deepStrictEqual(strange, [])
    }).pipe(Effect.provide(NodeContext.layer)), 600_000)
})
