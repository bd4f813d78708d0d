import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Either, Option, Redacted } from "effect"
import { TinkerConfig } from "effect-tinker"

const env = (entries: Record<string, string>, given: TinkerConfig.Options = {}) =>
  Effect.withConfigProvider(
    TinkerConfig.fromEnv(given),
    ConfigProvider.fromMap(new Map(Object.entries(entries)))
  )

describe("TinkerConfig", () => {
  it("normalises the base URL once", () => {
    const cases: ReadonlyArray<readonly [input: string, output: string | undefined]> = [
      ["https://h.test", "https://h.test"],
      ["https://h.test/", "https://h.test"],
      ["https://h.test:443//", "https://h.test"],
      ["https://H.Test/services/x///", "https://h.test/services/x"],
      [" https://h.test/a/b ", "https://h.test/a/b"],
      ["http://localhost:80/x/", "http://localhost/x"],
      ["http://127.0.0.1:8000", "http://127.0.0.1:8000"],
      ["http://[::1]:8000", "http://[::1]:8000"],
      ["http://api.localhost", "http://api.localhost"],
      ["http://0.0.0.0:8765", "http://0.0.0.0:8765"],
      ["http://[::]:8765", "http://[::]:8765"],
      ["http://10.0.0.1", undefined],
      ["http://localhost.evil.test", undefined],
      ["ftp://h.test", undefined],
      ["https://user:pass@h.test", undefined],
      ["https://h.test/?q=1", undefined],
      ["h.test", undefined],
      ["", undefined]
    ]
    for (const [input, output] of cases) {
      assert.strictEqual(Option.getOrUndefined(Either.getRight(TinkerConfig.normalizeBaseUrl(input))), output, input)
    }
    assert.deepStrictEqual(TinkerConfig.normalizeBaseUrl("http://10.0.0.1/", true), Either.right("http://10.0.0.1"))
  })

  it.effect("an empty base URL means the default", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* TinkerConfig.make({ baseUrl: "" })).baseUrl, TinkerConfig.defaultBaseUrl)
      assert.strictEqual((yield* env({ TINKER_BASE_URL: "" })).baseUrl, TinkerConfig.defaultBaseUrl)
    }))

  it.effect("what is given wins over the environment; an empty base URL falls through to it", () =>
    Effect.gen(function*() {
      const vars = { TINKER_BASE_URL: "https://env.test", TINKER_API_KEY: "tml-env", TINKER_PROJECT_ID: "p" }
      const given = yield* env(vars, { baseUrl: "https://arg.test", apiKey: "tml-arg", projectId: "q" })
      assert.strictEqual(given.baseUrl, "https://arg.test")
      assert.strictEqual(Redacted.value(Option.getOrThrow(given.apiKey)), "tml-arg")
      assert.deepStrictEqual(given.projectId, Option.some("q"))
      const fallen = yield* env(vars, { baseUrl: "", apiKey: "" })
      assert.strictEqual(fallen.baseUrl, "https://env.test")
      assert.strictEqual(Redacted.value(Option.getOrThrow(fallen.apiKey)), "tml-env")
      assert.deepStrictEqual(fallen.projectId, Option.some("p"))
    }))

  it.effect("reads every variable", () =>
    Effect.gen(function*() {
      const config = yield* env({
        TINKER_CREDENTIAL_CMD: "print-key",
        TINKER_PROJECT_ID: "",
        TINKER_TAGS: "a, b,a,",
        TINKER_LOG: "debug",
        CLOUDFLARE_ACCESS_CLIENT_ID: "id",
        CLOUDFLARE_ACCESS_CLIENT_SECRET: "secret"
      }, { headers: { "CF-Access-Client-Id": "given" } })
      assert.deepStrictEqual(config.credentialCommand, Option.some("print-key"))
      assert.deepStrictEqual(config.projectId, Option.none())
      assert.deepStrictEqual(config.tags, ["a", "b"])
      assert.deepStrictEqual(config.log, Option.some("debug"))
      const headers = Object.entries(config.headers).map(([name, value]) => [name, Redacted.value(value)])
      assert.deepStrictEqual(Object.fromEntries(headers), {
        "cf-access-client-id": "given",
        "cf-access-client-secret": "secret"
      })
    }))

  it("settings that cannot work are refused, and no secret is quoted", () => {
    const cases: ReadonlyArray<readonly [options: TinkerConfig.Options, word: string]> = [
      [{ headers: { "bad name": "x" } }, "bad name"],
      [{ headers: { "x-secret": "hush\r\nx-api-key: stolen" } }, "x-secret"],
      [{ poolLimits: { sampling: 0 } }, "sampling"],
      [{ poolLimits: { futures: 1.5 } }, "futures"],
      [{ maxResponseBytes: -1 }, "maxResponseBytes"],
      [{ timeout: 0 }, "timeout"],
      [{ pollTimeout: 0 }, "pollTimeout"]
    ]
    for (const [options, word] of cases) {
      const error = Either.getOrThrow(Either.flip(TinkerConfig.make(options)))
      assert.strictEqual(error._tag, "InvalidInput")
      assert.include(error.message, word)
      assert.notInclude(error.message, "hush")
    }
  })

  it.effect("plain http beyond this machine is allowed by a variable, unless the program forbids it", () =>
    Effect.gen(function*() {
      const given = { baseUrl: "http://10.0.0.1" }
      const { _tag, message } = yield* Effect.flip(env({}, given))
      assert.strictEqual(_tag, "InvalidInput")
      assert.include(message, "TINKER_ALLOW_INSECURE=1")
      assert.strictEqual((yield* env({ TINKER_ALLOW_INSECURE: "1" }, given)).baseUrl, "http://10.0.0.1")
      yield* Effect.flip(env({ TINKER_ALLOW_INSECURE: "1" }, { ...given, allowInsecure: false }))
    }))

  it.effect("telemetry is on unless the variable says otherwise", () =>
    Effect.gen(function*() {
      assert.isTrue((yield* env({})).telemetry)
      for (const word of ["1", "true", "YES", "On"]) {
        assert.isTrue((yield* env({ TINKER_TELEMETRY: word })).telemetry, word)
      }
      for (const word of ["", "0", "false", "off", "maybe"]) {
        assert.isFalse((yield* env({ TINKER_TELEMETRY: word })).telemetry, word)
      }
    }))
})
