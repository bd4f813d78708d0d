import { SystemError } from "@effect/platform/Error"
import { assert, describe, it } from "@effect/vitest"
import { Archive, TinkerError } from "effect-tinker"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as CliFailure from "../src/internal/CliFailure.js"

const common = { module: "RestClient", method: "getTrainingRun" }

describe("CliFailure", () => {
  it("says what happened, with status, request and the server's words, and what to do", () => {
    const report = CliFailure.report(
      new TinkerError.NotFound({ ...common, status: 404, requestId: "req-1", description: "no such\nrun" })
    )
    assert.deepStrictEqual(report, {
      what: "Not found (status 404, request req-1): no such run",
      advice: "Check the id: `tinker run list` and `tinker checkpoint list` show what there is.",
      exitCode: 1,
      page: "https://github.com/effect-tinker/effect-tinker/blob/main/docs/errors.md#notfound"
    })
  })

  it("has an address for every error of the SDK, its own cause included, and the page has a section for each", () => {
    const sections = readFileSync(fileURLToPath(new URL("../../../docs/errors.md", import.meta.url)), "utf8")
      .split(/^## /m).slice(1).map((section) => [/^\w+/.exec(section)?.[0], section.length] as const)
    assert.deepStrictEqual(
      Array.from(CliFailure.explained).sort(),
      sections.map(([tag]) => tag ?? "").sort()
    )
    for (const [tag, length] of sections) assert.isAbove(length, 100, `docs/errors.md says too little of ${tag}`)
    for (const { _tag } of TinkerError.TinkerError.members) assert.isTrue(CliFailure.explained.has(_tag), _tag)
    const cause = new TinkerError.RateLimited(common)
    assert.match(
      CliFailure.report(new CliFailure.CliFailure({ what: "It failed", cause })).page ?? "",
      /errors\.md#ratelimited$/
    )
    assert.isUndefined(CliFailure.report(new CliFailure.CliFailure({ what: "It failed" })).page)
  })

  it("has an address for every error that a public module of any package exports", () => {
    const packages = fileURLToPath(new URL("../..", import.meta.url))
    const names = ["agents", "cluster", "cookbook", "local", "studio", "tinker", "tokenizer", "weights"]
    const exported = names.flatMap((name) =>
      readdirSync(`${packages}${name}/src`, { recursive: true, encoding: "utf8" })
        .filter((file) => file.endsWith(".ts") && !file.includes("internal"))
        .flatMap((file) =>
          Array.from(
            readFileSync(`${packages}${name}/src/${file}`, "utf8")
              .matchAll(/^export class (\w+)\s+extends\s+(?:Schema|Data)\.TaggedError/gm),
            ([, tag = ""]) => tag
          )
        )
    )
    assert.isAbove(exported.length, 80)
    assert.deepStrictEqual(exported.filter((tag) => !CliFailure.explained.has(tag)), [])
  })

  it("names the list that shows what there is, and the file that is not there", () => {
    const session = CliFailure.report(new TinkerError.NotFound({ module: "RestClient", method: "getSession" }))
    assert.include(session.advice, "tinker session list")
    const file = CliFailure.report(
      new SystemError({ module: "FileSystem", method: "open", reason: "NotFound", pathOrDescriptor: "/none/x" })
    )
    assert.strictEqual(file.what, "No such file or directory: /none/x")
    assert.include(
      CliFailure.report(
        new SystemError({ module: "FileSystem", method: "read", reason: "Unknown", pathOrDescriptor: 3 })
      ).what,
      "FileSystem.read"
    )
  })

  it("says what to do instead of something that a server does not offer", () => {
    const unsupported = (method: string) =>
      CliFailure.report(new TinkerError.Unsupported({ module: "RestClient", method, status: 404 }))
    assert.strictEqual(unsupported("listSessions").what, "This server does not offer that (status 404)")
    assert.include(unsupported("listSessions").advice, "tinker conformance")
    assert.include(unsupported("listUserCheckpoints").advice, "--run-id")
  })

  it("tells a missing key, a wrong key and a dead server apart", () => {
    const sentences = [
      new TinkerError.MissingCredential(common),
      new TinkerError.Authentication({ ...common, status: 401 }),
      new TinkerError.TransportFailed(common),
      new TinkerError.BillingBlocked({ ...common, status: 402 })
    ].map((error) => CliFailure.report(error).what.replace(/ \(.*/, ""))
    assert.deepStrictEqual(sentences, [
      "There is no API key",
      "The server rejected the API key",
      "The connection failed",
      "Blocked by billing"
    ])
  })

  it("wrong input is a usage error", () => {
    assert.strictEqual(CliFailure.report(new TinkerError.InvalidInput(common)).exitCode, 2)
    assert.strictEqual(CliFailure.report(CliFailure.usage("what", "advice")).exitCode, 2)
  })

  it("an archive that is refused says that nothing was written", () => {
    const report = CliFailure.report(
      new Archive.ArchiveRefused({ reason: "link", description: "a member is a link", entry: "x" })
    )
    assert.strictEqual(report.what, "Archive refused: a member is a link (\"x\")")
    assert.match(report.advice, /Nothing was written/)
  })

  it("a secret that was echoed is not repeated", () => {
    const token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
    for (const secret of ["tml-AbC_123-xyz", "hf_abcdefghij", token, `Bearer ${token}`, "Bearer abcdefgh12345=="]) {
      const { what } = CliFailure.report(new Error(`key ${secret} is unknown`))
      assert.match(what, /^key (?:tml|hf_|eyJ|Bearer )\*\*\* is unknown$/, secret)
    }
    const { what } = CliFailure.report(new Error("tinker://run/weights/tml is unknown"))
    assert.strictEqual(what, "tinker://run/weights/tml is unknown")
  })

  it("anything else still has two lines", () => {
    const report = CliFailure.report(new Error("odd\nthing"))
    assert.strictEqual(report.what, "odd thing")
    assert.notInclude(report.advice, "\n")
  })
})
