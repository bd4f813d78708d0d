/**
 * The files of docs/deploy: what reads them accepts them, and the commands in them have the options that they give.
 */
import * as WorkerMetrics from "@effect-tinker/cluster/WorkerMetrics"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { install } from "../../../.ci/install.mjs"
import * as process_ from "./fixtures/process.js"

const { missing } = await install(".ci/deploy")

const folder = fileURLToPath(new URL("../../../docs/deploy/", import.meta.url))
const read = (name: string) => readFileSync(`${folder}${name}`, "utf8")

interface Checks {
  readonly parse: (text: string) => Array<Record<string, unknown>>
  readonly kubernetes: (object: object) => string | undefined
  readonly compose: (object: object) => string | undefined
}

let cli: process_.Tinker
let checks: Checks

beforeAll(async () => {
  cli = await process_.make()
  // Installed just now, so that it cannot be imported before.
  if (missing === undefined) checks = await import(new URL("../../../.ci/deploy/check.mjs", import.meta.url).href)
}, 120_000)

afterAll(() => cli.dispose())

const optionsOf = (text: string) => new Set(Array.from(text.matchAll(/--([a-z][a-z-]*)/g), ([, name = ""]) => name))

const hasSystemd = spawnSync("systemd-analyze", ["--version"]).status === 0

describe("docs/deploy", { timeout: 120_000 }, () => {
  it("has the files that are checked here, and no other", () => {
    assert.deepStrictEqual(readdirSync(folder).sort(), [
      "compose.yaml",
      "keda.yaml",
      "kubernetes.yaml",
      "tinker-worker.service"
    ])
  })

  it.skipIf(missing !== undefined)("is what Kubernetes and KEDA read, where numbers are numbers", () => {
    for (const name of ["kubernetes.yaml", "keda.yaml"]) {
      for (const object of checks.parse(read(name))) assert.isUndefined(checks.kubernetes(object))
      const wrong = read(name).replace(/(replicas|minReplicaCount): \d+/, "$1: \"many\"")
      assert.match(checks.parse(wrong).map(checks.kubernetes).join(), /must be (integer|number)/)
    }
  })

  it.skipIf(missing !== undefined)("is what Compose reads", () => {
    const [file = {}] = checks.parse(read("compose.yaml"))
    assert.isUndefined(checks.compose(file))
    const [wrong = {}] = checks.parse(read("compose.yaml").replace("stop_grace_period: 90s", "stop_grace_time: 90s"))
    assert.include(checks.compose(wrong) ?? "", "stop_grace_time")
  })

  it.skipIf(!hasSystemd)("is what systemd reads", () => {
    const output = execFileSync("systemd-analyze", ["verify", `${folder}tinker-worker.service`], { encoding: "utf8" })
    assert.strictEqual(output, "")
  })

  it("gives a worker more time to leave than it takes", () => {
    const seconds = (text: string, pattern: RegExp) => Number(pattern.exec(text)?.[1])
    for (
      const [name, limit, grace] of [
        ["kubernetes.yaml", /terminationGracePeriodSeconds: (\d+)/, /--grace=(\d+)/],
        ["compose.yaml", /stop_grace_period: (\d+)s/, /--grace=(\d+)/],
        ["tinker-worker.service", /TimeoutStopSec=(\d+)/, /--grace (\d+)/]
      ] as const
    ) {
      assert.isAtLeast(seconds(read(name), limit), seconds(read(name), grace) + 30, name)
    }
  })

  it("asks for counts that workers have", () => {
    const known = WorkerMetrics.prometheus({
      running: 0,
      waiting: 0,
      concurrency: 0,
      ended: 0,
      failed: 0,
      runSeconds: 0,
      waitSeconds: 0,
      idle: 0,
      perSecond: 0
    })
    const asked = Array.from(read("keda.yaml").matchAll(/tinker_worker_\w+/g), ([name]) => name)
    assert.isNotEmpty(asked)
    for (const name of asked) assert.include(known, `# TYPE ${name} gauge`)
  })

  it.effect("gives commands options that they have", () =>
    Effect.gen(function*() {
      const help = (...words: ReadonlyArray<string>) =>
        Effect.promise(async () => (await cli.run([...words, "--help"])).stdout)
      const known = new Set([...optionsOf(yield* help("worker")), ...optionsOf(yield* help("train", "rl"))])
      const commands = [
        ...Array.from(read("kubernetes.yaml").matchAll(/^ +- (--.*)$/gm), ([, line = ""]) => line),
        ...Array.from(read("compose.yaml").matchAll(/^ +- (--.*)$/gm), ([, line = ""]) => line),
        /^ExecStart=.*$/m.exec(read("tinker-worker.service"))?.[0] ?? ""
      ]
      const given = optionsOf(commands.join("\n"))
      assert.isAbove(given.size, 8)
      for (const name of given) assert.isTrue(known.has(name), `--${name}`)
    }))
})
