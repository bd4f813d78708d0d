import { WorkerMetrics } from "@effect-tinker/cluster"
import * as NodeWorkerMetrics from "@effect-tinker/cluster/NodeWorkerMetrics"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted, TestClock } from "effect"
import * as Http from "node:http"

const reading = {
  running: 3,
  waiting: 5,
  concurrency: 8,
  ended: 0,
  failed: 1,
  runSeconds: 24,
  waitSeconds: 6
}

const get = (address: string, path: string, headers: Record<string, string> = {}, method = "GET") =>
  Effect.async<{ readonly status: number; readonly body: string }>((resume) => {
    const url = new URL(path, address)
    const request = Http.request({ host: url.hostname, port: url.port, path, headers, method }, (response) => {
      let body = ""
      response.on("data", (chunk) => body += String(chunk))
      response.on("end", () => resume(Effect.succeed({ status: response.statusCode ?? 0, body })))
    })
    request.end()
  })

describe("the counts of a worker", () => {
  it.effect("add up over workers; the rate is of the last half minute", () =>
    Effect.gen(function*() {
      const metrics = yield* WorkerMetrics.make
      let ended = 0
      yield* metrics.watch(() => ({ ...reading, ended }))
      yield* metrics.watch(() => ({ ...reading, running: 8, waiting: 0 }))
      for (let second = 0; second < 60; second += 5) {
        ended += 10
        yield* TestClock.adjust("5 seconds")
        assert.approximately((yield* metrics.report).perSecond, 2, 1e-9)
      }
      const { concurrency, idle, running, waiting } = yield* metrics.report
      assert.deepStrictEqual({ concurrency, idle, running, waiting }, {
        concurrency: 16,
        idle: 5,
        running: 11,
        waiting: 5
      })
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual((yield* metrics.report).perSecond, 0)
    }))

  it.effect("read as Prometheus has them", () =>
    Effect.gen(function*() {
      const metrics = yield* WorkerMetrics.make
      yield* metrics.watch(() => ({ ...reading, ended: 7 }))
      const text = WorkerMetrics.prometheus(yield* metrics.report)
      for (
        const line of [
          "# TYPE tinker_worker_rollouts_waiting gauge",
          "tinker_worker_rollouts_waiting 5",
          "tinker_worker_slots_idle 5",
          "# TYPE tinker_worker_rollouts_total counter",
          "tinker_worker_rollouts_total 7"
        ]
      ) assert.include(text.split("\n"), line)
      // every line is a comment or a sample, and the text ends with a line break
      for (const line of text.split("\n").slice(0, -1)) assert.match(line, /^(# (HELP|TYPE) \w+ .+|\w+ -?[\d.e+-]+)$/)
      assert.isTrue(text.endsWith("\n"))
    }))

  it.scopedLive("are served to this machine, and elsewhere to those who have the token", () =>
    Effect.gen(function*() {
      const metrics = yield* WorkerMetrics.make
      yield* metrics.watch(() => reading)
      const address = yield* NodeWorkerMetrics.serve({ metrics })
      assert.match(address, /^http:\/\/127\.0\.0\.1:\d+$/)
      assert.include((yield* get(address, "/metrics")).body, "tinker_worker_slots 8")
      assert.strictEqual(JSON.parse((yield* get(address, "/metrics.json?x")).body).idle, 5)
      assert.strictEqual((yield* get(address, "/")).status, 404)
      assert.strictEqual((yield* get(address, "/metrics", {}, "POST")).status, 405)
      assert.strictEqual((yield* get(address, "/metrics", { host: "attacker.example" })).status, 403)
      assert.strictEqual((yield* get(address, "/metrics", { origin: "http://127.0.0.1" })).status, 403)

      const open = yield* Effect.flip(NodeWorkerMetrics.serve({ metrics, listen: "0.0.0.0" }))
      assert.include(String(open), "need a token")
      const short = yield* Effect.flip(NodeWorkerMetrics.serve({ metrics, token: Redacted.make("hunter2") }))
      assert.include(String(short), "less than 16 characters")
      assert.notInclude(String(short), "hunter2")
      const guarded = yield* NodeWorkerMetrics.serve({ metrics, token: Redacted.make("t".repeat(16)) })
      const authorization = (token: string) => ({ authorization: `Bearer ${token}` })
      assert.strictEqual((yield* get(guarded, "/metrics")).status, 401)
      assert.strictEqual((yield* get(guarded, "/metrics", authorization("t".repeat(15)))).status, 401)
      assert.strictEqual((yield* get(guarded, "/metrics", authorization("t".repeat(16)))).status, 200)
    }))
})
