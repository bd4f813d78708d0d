import { Faults, LocalServer, TinkerLocal } from "@effect-tinker/local"
import { HttpClient } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Api } from "effect-tinker/wire"
import * as Conformance from "../src/conformance/Conformance.js"
import { layer as server, Server, tinker } from "./fixtures/server.js"

const check = (rules: ReadonlyArray<Faults.Rule> = [], options: TinkerLocal.Options = {}) =>
  Conformance.run({ baseUrl: TinkerLocal.baseUrl, credential: TinkerLocal.apiKey, patience: "20 seconds" }).pipe(
    Effect.provide(Layer.provide(TinkerLocal.layer(options), Faults.layer({ rules })))
  )

/** What each of them says as it is: several tests read it. */
const today = Effect.runSync(Effect.cached(check()))
const early = Effect.runSync(Effect.cached(check([], { profile: "0.24" })))

const answer = (endpoint: Api.Name, status: number): Faults.Rule => ({
  endpoints: [endpoint],
  fault: { _tag: "Status", status }
})

const verdicts = ({ checks }: Conformance.Report): Readonly<Record<string, Conformance.Verdict>> =>
  Object.fromEntries(checks.map(({ check, verdict }) => [check, verdict]))

/** The embedded backend with its answers changed on their way out. */
const changed = (change: (request: LocalServer.Request, response: LocalServer.Response) => LocalServer.Response) =>
  Layer.effect(
    HttpClient.HttpClient,
    Effect.map(LocalServer.LocalServer, (server) =>
      TinkerLocal.makeClient({
        ...server,
        handle: (request) => Effect.map(server.handle(request), (response) => change(request, response))
      }))
  ).pipe(Layer.provide(TinkerLocal.layer()))

describe("Conformance", () => {
  it.live("the embedded backend conforms in everything", () =>
    Effect.gen(function*() {
      const report = yield* today
      assert.isTrue(report.conforms)
      assert.deepStrictEqual(report.checks.filter(({ verdict }) => verdict !== "yes"), [])
      assert.isAbove(report.checks.length, 40)
    }))

  it.live("what is optional may be missing; what fails is told in the server's own words", () =>
    Effect.gen(function*() {
      const report = yield* check([
        answer("listTrainingRuns", 404),
        answer("dynamicConfig", 404),
        answer("saveWeights", 500)
      ])
      assert.deepStrictEqual(
        report.checks.filter(({ verdict }) => verdict === "unsupported").map(({ check }) => check),
        ["dynamic configuration", "list runs"]
      )
      const save = report.checks.find(({ check }) => check === "save state")
      assert.strictEqual(save?.verdict, "no")
      assert.include(save?.reason, "status 500: Injected fault")
      assert.strictEqual(save?.without, "Training cannot be resumed.")
      assert.strictEqual(verdicts(report)["sample"], "yes")
      assert.isTrue(report.conforms)
    }))

  it.live("a server of the era before protobuf works, with gaps that say for whom", () =>
    Effect.gen(function*() {
      const report = yield* early
      assert.isTrue(report.conforms)
      assert.deepStrictEqual(
        report.checks.filter(({ verdict }) => verdict !== "yes").map(({ check }) => check),
        [
          "dynamic configuration",
          "passes in protobuf",
          "one poll for all samples",
          "copies of a sampler",
          "storage in use",
          "finish the session"
        ]
      )
      const protobuf = report.checks.find(({ check }) => check === "passes in protobuf")
      assert.include(protobuf?.without, "official SDK cannot train there from 0.25 on")
    }))

  it.live("every check that fails says what will not work", () =>
    Effect.gen(function*() {
      const report = yield* Conformance.run({
        baseUrl: "http://127.0.0.1:9",
        credential: TinkerLocal.apiKey,
        patience: "20 millis"
      }).pipe(Effect.provide(Layer.succeed(HttpClient.HttpClient, HttpClient.make(() => Effect.never))))
      const failed = report.checks.filter(({ verdict }) => verdict !== "yes")
      assert.isAbove(failed.length, 45)
      assert.deepStrictEqual(failed.filter(({ without }) => without === undefined), [])
    }))

  it.live("a server without what is required does not, and what builds on it says so", () =>
    Effect.gen(function*() {
      const report = yield* check([answer("createModel", 404)])
      assert.isFalse(report.conforms)
      assert.strictEqual(verdicts(report)["create model"], "unsupported")
      const later = report.checks.find(({ check }) => check === "forward")
      assert.strictEqual(later?.verdict, "no")
      assert.include(later?.reason, "there is no modelId")
      assert.strictEqual(verdicts(report)["list sessions"], "yes")
    }))

  it.live("an answer that is missing a part is noticed", () =>
    Effect.gen(function*() {
      const report = yield* Conformance.run({
        baseUrl: TinkerLocal.baseUrl,
        credential: TinkerLocal.apiKey,
        patience: "20 seconds"
      }).pipe(Effect.provide(changed(({ url }, response) => {
        if (!url.pathname.endsWith("/asample") || !(response.body instanceof Uint8Array)) return response
        const { sample_sequence_ids: _, ...rest } = JSON.parse(new TextDecoder().decode(response.body))
        return { ...response, body: new TextEncoder().encode(JSON.stringify(rest)) }
      })))
      const names = report.checks.find(({ check }) => check === "names of sequences")
      assert.strictEqual(names?.verdict, "no")
      assert.include(names?.reason, "names 0 of the 2 sequences")
      assert.include(names?.without, "official SDK fails to sample")
      assert.isTrue(report.conforms)
    }))

  it.live("several servers stand side by side in Markdown", () =>
    Effect.gen(function*() {
      const servers = [
        { name: "today", report: yield* today },
        { name: "0.24", report: yield* early }
      ]
      const lines = Conformance.markdown(servers).split("\n")
      assert.strictEqual(lines[0], "| check | today | 0.24 | where it is missing |")
      assert.include(lines, "| **sample** | yes | yes |  |")
      assert.match(
        lines.find((line) => line.includes("passes in protobuf")) ?? "",
        /^\| passes in protobuf \| yes \| no \| The official SDK cannot train there from 0\.25 on;/
      )
      assert.strictEqual(lines.at(-1), "|  | works | works, 6 gaps |  |")
    }))

  it.live("is a command: a table, JSON, and an exit code", () =>
    Effect.gen(function*() {
      const { baseUrl } = yield* Server
      const json = yield* tinker(["conformance", baseUrl, "--format", "json"])
      const report: Conformance.Report = JSON.parse(json.stdout)
      assert.isTrue(report.conforms)
      assert.strictEqual(report.baseUrl, baseUrl)
      assert.strictEqual(json.code, 0)
      const none = yield* tinker(["conformance", "http://127.0.0.1:9", "--timeout", "2s"])
      assert.strictEqual(none.code, 1)
      assert.match(none.stdout, /^CHECK +REQUIRED +ANSWER +REASON +WITHOUT IT\n/)
      assert.include(none.stderr, "required checks")
    }).pipe(Effect.provide(server)))
})
