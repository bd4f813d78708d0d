import { HttpClient, HttpClientResponse } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, DateTime, Duration, Effect, Fiber, Layer, Redacted, Schedule, Stream, TestClock } from "effect"
import { RestClient, RetryPolicy, TinkerTransport } from "effect-tinker"
import { SessionSearch } from "effect-tinker/wire"

interface Seen {
  readonly method: string
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly body: unknown
  readonly headers: Readonly<Record<string, string | undefined>>
}

type Route = (request: Seen, n: number) => Response | unknown

const checkpoint = (run: string, i: number) => ({
  checkpoint_id: `weights/${String(i).padStart(4, "0")}`,
  checkpoint_type: "training",
  time: "2026-11-16T00:00:00Z",
  tinker_path: `tinker://${run}/weights/${String(i).padStart(4, "0")}`,
  size_bytes: i
})

const trainingRun = (i: number) => ({
  training_run_id: `s:train:${i}`,
  base_model: "tiny",
  model_owner: "me",
  is_lora: true,
  lora_rank: 8,
  last_request_time: "2026-11-16T00:00:00+00:00"
})

/** A server made of the routes it is given; the client configuration is answered unless a route says otherwise. */
const server = (routes: Readonly<Record<string, Route>>) => {
  const seen: Array<Seen> = []
  const client = HttpClient.make((request, url) =>
    Effect.sync(() => {
      const path = decodeURIComponent(url.pathname)
      const body = request.body._tag === "Uint8Array"
        ? JSON.parse(new TextDecoder().decode(request.body.body))
        : undefined
      const call: Seen = {
        method: request.method,
        path,
        query: Object.fromEntries(url.searchParams),
        body,
        headers: request.headers
      }
      const key = `${request.method} ${path}`
      const n = seen.filter((other) => `${other.method} ${other.path}` === key).length
      seen.push(call)
      const answer = routes[key]?.(call, n) ??
        (path.endsWith("/client/config") ? {} : Response.json({ detail: "no such thing" }, { status: 404 }))
      return HttpClientResponse.fromWeb(request, answer instanceof Response ? answer : Response.json(answer))
    })
  )
  const layer = RestClient.layer({ baseUrl: "http://localhost:9", apiKey: "tml-key", projectId: "home" }).pipe(
    Layer.provide(TinkerTransport.layer()),
    Layer.provide(Layer.succeed(HttpClient.HttpClient, client))
  )
  const rest = () => seen.filter(({ path }) => !path.includes("/client/") && !path.endsWith("/telemetry"))
  return { layer, rest, seen }
}

const empty = () => new Response(null, { status: 204 })
const path = "tinker://s:train:0/weights/0001"
const base = "/api/v1/training_runs/s:train:0/checkpoints/weights/0001"
const b64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url")

describe("RestClient", () => {
  it.effect("asks for the server's flags once, before the first call", () => {
    const { layer, seen } = server({
      "GET /api/v1/training_runs/s:train:1": () => trainingRun(1)
    })
    return Effect.gen(function*() {
      const rest = yield* RestClient.RestClient
      assert.deepStrictEqual(seen, [])
      const [run] = yield* Effect.all([rest.getTrainingRun("s:train:1"), rest.getTrainingRun("s:train:1")], {
        concurrency: 2
      })
      assert.strictEqual(run.loraRank, 8)
      assert.deepStrictEqual(seen.map((call) => call.path.split("/").at(-1)), ["config", "s:train:1", "s:train:1"])
      assert.strictEqual(seen[1]?.query["access_scope"], "owned")
      assert.strictEqual(seen[1]?.headers["x-sdk-method"], "RestClient.get_training_run")
    }).pipe(Effect.provide(layer))
  })

  it.effect("a first call that is interrupted leaves the client usable", () => {
    const { layer } = server({ "GET /api/v1/training_runs/s:train:1": () => trainingRun(1) })
    return Effect.gen(function*() {
      const rest = yield* RestClient.RestClient
      yield* Fiber.interrupt(yield* Effect.fork(rest.getTrainingRun("s:train:1")))
      assert.strictEqual((yield* rest.getTrainingRun("s:train:1")).baseModel, "tiny")
    }).pipe(Effect.provide(layer))
  })

  it.effect("lists page lazily, by what was received", () => {
    const { layer, rest } = server({
      "GET /api/v1/training_runs": ({ query }) => {
        // a server that never gives more than 30 at once
        const offset = Number(query["offset"])
        const limit = Math.min(30, Number(query["limit"]), 100 - offset)
        return {
          training_runs: Array.from({ length: limit }, (_, i) => trainingRun(offset + i)),
          cursor: { offset, limit: Number(query["limit"]), total_count: 100 }
        }
      }
    })
    return Effect.gen(function*() {
      const client = yield* RestClient.RestClient
      const totals: Array<number> = []
      const runs = client.streamTrainingRuns({
        pageSize: 50,
        projectId: "p",
        accessScope: "accessible",
        onTotal: (total) => Effect.sync(() => void totals.push(total))
      })
      const some = yield* Stream.runCollect(Stream.take(runs, 31))
      assert.strictEqual(Chunk.size(some), 31)
      assert.strictEqual(rest().length, 2)
      assert.deepStrictEqual(rest()[1]?.query, {
        limit: "50",
        offset: "30",
        access_scope: "accessible",
        project_id: "p"
      })
      const all = Chunk.toReadonlyArray(yield* Stream.runCollect(runs))
      assert.deepStrictEqual(all.map((run) => run.trainingRunId), Array.from({ length: 100 }, (_, i) => `s:train:${i}`))
      assert.strictEqual(rest().length, 6)
      assert.deepStrictEqual([...new Set(totals)], [100])
    }).pipe(Effect.provide(layer))
  })

  it.effect("2,500 checkpoints take three requests, sessions end with an empty page", () => {
    const { layer, rest } = server({
      "GET /api/v1/checkpoints": ({ query }) => {
        const offset = Number(query["offset"])
        const length = Math.max(0, Math.min(Number(query["limit"]), 2500 - offset))
        return {
          checkpoints: Array.from({ length }, (_, i) => checkpoint("r", offset + i)),
          cursor: { offset, limit: length, total_count: 2500 }
        }
      },
      "GET /api/v1/sessions": ({ query }) => ({ sessions: query["offset"] === "0" ? ["a", "b"] : [] })
    })
    return Effect.gen(function*() {
      const client = yield* RestClient.RestClient
      assert.strictEqual(yield* Stream.runCount(client.streamUserCheckpoints()), 2500)
      assert.strictEqual(rest().length, 3)
      assert.deepStrictEqual(Chunk.toReadonlyArray(yield* Stream.runCollect(client.streamSessions())).map(String), [
        "a",
        "b"
      ])
      assert.strictEqual(rest().length, 5)
    }).pipe(Effect.provide(layer))
  })

  it.effect("a search goes on with the cursor it was given", () => {
    const { layer, rest } = server({
      "POST /api/v1/sessions/search": (_, n) => ({
        sessions: [{
          session_id: `s${n}`,
          created_at: "2026-01-01T00:00:00Z",
          owner: "me",
          project_id: "p",
          checkpoints_count: 0
        }],
        next_cursor: n === 0 ? { last_created_at: "2026-01-01T00:00:00.123456Z", last_session_id: "s0" } : null
      })
    })
    return Effect.gen(function*() {
      const client = yield* RestClient.RestClient
      const found = yield* Stream.runCollect(
        client.streamSessionSearch(new SessionSearch.SessionSearchRequest({ displayName: "nightly" }))
      )
      assert.deepStrictEqual(Chunk.toReadonlyArray(found).map((session) => String(session.sessionId)), ["s0", "s1"])
      assert.deepStrictEqual(rest()[1]?.body, {
        user_metadata: {},
        display_name: "nightly",
        owner: { type: "own" },
        limit: 50,
        cursor: { last_created_at: "2026-01-01T00:00:00.123456Z", last_session_id: "s0" }
      })
    }).pipe(Effect.provide(layer))
  })

  it.effect("writes carry exactly what the wire knows", () => {
    const { layer, rest } = server({
      [`POST ${base}/publish`]: empty,
      [`DELETE ${base}/publish`]: empty,
      [`PUT ${base}/ttl`]: empty,
      [`DELETE ${base}`]: empty,
      "PUT /api/v1/sessions/s/project": empty,
      "POST /api/v1/copy_weights": () => ({ tinker_path: "tinker://copy/weights/0001" })
    })
    return Effect.gen(function*() {
      const client = yield* RestClient.RestClient
      yield* client.publishCheckpoint(path)
      yield* client.unpublishCheckpoint(path)
      yield* client.setCheckpointTtl(path, "2 hours")
      yield* client.setCheckpointTtl(path, null)
      yield* client.deleteCheckpoint(path)
      yield* client.assignSessionProject("s", "p")
      const token = Redacted.make("tml-other")
      assert.strictEqual(yield* client.copyWeights(path, { weightsAccessToken: token }), "tinker://copy/weights/0001")
      yield* client.copyWeights(path, { projectId: "archive", ttl: "1 day" })
      assert.deepStrictEqual(rest().map(({ body, method }) => [method, body]), [
        ["POST", undefined],
        ["DELETE", undefined],
        ["PUT", { ttl_seconds: 7200 }],
        ["PUT", { ttl_seconds: null }],
        ["DELETE", undefined],
        ["PUT", { project_id: "p" }],
        ["POST", { source_path: path, destination_project_id: "home" }],
        ["POST", { source_path: path, destination_project_id: "archive", ttl_seconds: 86_400 }]
      ])
      assert.strictEqual(rest()[6]?.headers["x-tinker-weights-access-token"], "tml-other")
      assert.isUndefined(rest()[7]?.headers["x-tinker-weights-access-token"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a conflict is an answer: it is not tried again", () => {
    const { layer, rest } = server({
      [`POST ${base}/publish`]: () => Response.json({ detail: "already public" }, { status: 409 })
    })
    return Effect.gen(function*() {
      const client = yield* RestClient.RestClient
      const error = yield* Effect.flip(client.publishCheckpoint(path))
      assert.strictEqual(error._tag, "Conflict")
      assert.strictEqual(error.description, "already public")
      assert.strictEqual(error.method, "publishCheckpoint")
      assert.strictEqual(rest().length, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("what cannot be right is refused before anything is sent", () => {
    const { layer, seen } = server({})
    return Effect.gen(function*() {
      const client = yield* RestClient.RestClient
      for (
        const call of [
          client.deleteCheckpoint("tinker://run/weights"),
          client.publishCheckpoint("run/weights/1"),
          client.getTrainingRun(""),
          client.getSession(""),
          client.setCheckpointTtl(path, 0),
          client.setCheckpointTtl(path, Infinity),
          client.copyWeights(path, { projectId: "p", ttl: 0 }),
          client.copyWeights(path, { projectId: "p", ttl: Infinity }),
          client.getExternalWeightsUrls(path)
        ]
      ) {
        assert.strictEqual((yield* Effect.flip(Effect.asVoid(call)))._tag, "InvalidInput")
      }
      assert.deepStrictEqual(seen, [])
    }).pipe(Effect.provide(layer))
  })

  it.effect("finds one checkpoint among those of its run", () => {
    const { layer } = server({
      "GET /api/v1/training_runs/r/checkpoints": () => ({ checkpoints: [checkpoint("r", 1), checkpoint("r", 2)] })
    })
    return Effect.gen(function*() {
      const client = yield* RestClient.RestClient
      assert.strictEqual((yield* client.getCheckpoint("tinker://r/weights/0002")).sizeBytes, 2)
      assert.strictEqual((yield* Effect.flip(client.getCheckpoint("tinker://r/weights/0009")))._tag, "NotFound")
    }).pipe(Effect.provide(layer))
  })

  describe("archive addresses", () => {
    it.effect("come as JSON or as a redirect that is not followed", () => {
      const { layer, rest } = server({
        [`GET ${base}/archive`]: (_, n) =>
          n === 0
            ? { url: "https://storage.test/a?sig=1", expires: "2026-11-16T01:00:00Z" }
            : new Response(null, {
              status: 302,
              headers: {
                location: "https://storage.test/b?sig=2",
                ...(n === 1 ? { expires: "Mon, 16 Nov 2026 02:00:00 GMT" } : {})
              }
            })
      })
      return Effect.gen(function*() {
        const client = yield* RestClient.RestClient
        const [a, b, c] = yield* Effect.all([
          client.getCheckpointArchiveUrl(path),
          client.getCheckpointArchiveUrl(path),
          client.getCheckpointArchiveUrl(path)
        ])
        assert.strictEqual(a.url, "https://storage.test/a?sig=1")
        assert.strictEqual(b.url, "https://storage.test/b?sig=2")
        assert.strictEqual(DateTime.formatIso(b.expires), "2026-11-16T02:00:00.000Z")
        assert.strictEqual(c.expires.epochMillis, Duration.toMillis("15 minutes"))
        assert.isTrue(rest().every(({ path }) => path === `${base}/archive`))
      }).pipe(Effect.provide(layer))
    })

    it.effect("are waited for while the server builds the archive", () => {
      const { layer, rest } = server({
        [`GET ${base}/archive`]: (_, n) =>
          n < 5 ? new Response("", { status: 503 }) : { url: "https://storage.test/a", expires: 1_800_000_000 }
      })
      return Effect.gen(function*() {
        const client = yield* RestClient.RestClient
        const fiber = yield* Effect.fork(client.getCheckpointArchiveUrl(path))
        yield* TestClock.adjust("149 seconds")
        assert.strictEqual(rest().length, 5)
        yield* TestClock.adjust("1 seconds")
        assert.strictEqual((yield* Fiber.join(fiber)).url, "https://storage.test/a")
      }).pipe(Effect.provide(layer))
    })
  })

  describe("trace export", () => {
    const route = "GET /api/v1/sessions/s/trace_export"

    it.effect("is waited for, visibly", () => {
      const { layer } = server({
        [route]: (_, n) => n < 3 ? { status: "pending" } : { status: "ready", url: "https://storage.test/t" }
      })
      return Effect.gen(function*() {
        const client = yield* RestClient.RestClient
        const waits: Array<number> = []
        const fiber = yield* Effect.fork(client.exportSessionTrace("s", {
          onPending: (elapsed) => Effect.sync(() => void waits.push(Duration.toSeconds(elapsed)))
        }))
        yield* TestClock.adjust("15 seconds")
        assert.strictEqual(yield* Fiber.join(fiber), "https://storage.test/t")
        assert.deepStrictEqual(waits, [0, 5, 10])
      }).pipe(Effect.provide(layer))
    })

    it.effect("fails with the server's words, and ends", () => {
      const { layer } = server({
        [route]: (_, n) => n === 0 ? { status: "failed", error: "no events" } : { status: "pending" }
      })
      return Effect.gen(function*() {
        const client = yield* RestClient.RestClient
        const failed = yield* Effect.flip(client.exportSessionTrace("s"))
        assert.strictEqual(failed._tag, "RequestFailed")
        assert.strictEqual(failed.description, "no events")
        const fiber = yield* Effect.fork(Effect.flip(client.exportSessionTrace("s", { timeout: "1 minute" })))
        yield* TestClock.adjust("1 minute")
        assert.strictEqual((yield* Fiber.join(fiber))._tag, "TimedOut")
      }).pipe(Effect.provide(layer))
    })
  })

  it.effect("whoami reads the token the key is exchanged for", () => {
    const token = `${b64({})}.${b64({ sub: "tml:organization_user:1", org_id: "9", email: "", exp: 4e9 })}.x`
    const { layer, seen } = server({
      "POST /api/v1/client/config": () => ({ pjwt_auth_enabled: true }),
      "POST /api/v1/auth/token": () => ({ jwt: token }),
      "GET /api/v1/get_server_capabilities": () => ({ supported_models: [{ model_name: "tiny" }] })
    })
    return Effect.gen(function*() {
      const client = yield* RestClient.RestClient
      const me = yield* client.whoami
      assert.strictEqual(me.userUrn, "tml:organization_user:1")
      assert.strictEqual(me.orgUrn, "tml:organization:9")
      assert.isUndefined(me.email)
      yield* client.getServerCapabilities
      assert.strictEqual(seen.at(-1)?.headers["x-api-key"], token)
    }).pipe(Effect.provide(layer))
  })

  it.effect("a token that the server refuses is replaced, and the request sent once more", () => {
    const tokenOf = (n: number) => `${b64({})}.${b64({ sub: "me", n, iat: 0, exp: 3600 })}.x`
    const refusal = () =>
      Response.json({ detail: "revoked" }, {
        status: 401,
        headers: { "www-authenticate": `Bearer error="invalid_token"` }
      })
    let revoked: ReadonlyArray<string> = [tokenOf(0)]
    const { layer, rest, seen } = server({
      "POST /api/v1/client/config": () => ({ pjwt_auth_enabled: true }),
      "POST /api/v1/auth/token": (_, n) => ({ jwt: tokenOf(n) }),
      "GET /api/v1/get_server_capabilities": ({ headers }) =>
        revoked.includes(headers["x-api-key"] ?? "") ? refusal() : { supported_models: [] }
    })
    const exchanges = () => seen.filter(({ path }) => path.endsWith("/auth/token")).length
    return Effect.gen(function*() {
      const client = yield* RestClient.RestClient
      yield* Effect.replicateEffect(client.getServerCapabilities, 3, { concurrency: "unbounded" })
      assert.strictEqual(exchanges(), 2)
      assert.deepStrictEqual(
        seen.filter(({ path }) => path.endsWith("capabilities")).map(({ headers }) => headers["x-api-key"]).slice(-1),
        [tokenOf(1)]
      )
      // Once only: a server that refuses the new one too has its answer reported.
      revoked = [tokenOf(1), tokenOf(2)]
      const before = seen.length
      const error = yield* Effect.flip(client.getServerCapabilities)
      assert.strictEqual(error._tag, "Authentication")
      assert.strictEqual(seen.slice(before).filter(({ path }) => path.endsWith("capabilities")).length, 2)
      assert.isFalse(rest().some(({ path }) => path.endsWith("/create_session")))
    }).pipe(Effect.provide(layer))
  })

  it.effect("whoami without tokens says why it cannot tell", () => {
    const { layer } = server({})
    return Effect.gen(function*() {
      const client = yield* RestClient.RestClient
      assert.strictEqual((yield* Effect.flip(client.whoami))._tag, "InvalidInput")
    }).pipe(Effect.provide(layer))
  })

  it.effect("admin and lookup calls", () => {
    const { layer, rest } = server({
      "GET /api/v1/audit": () => ({ entries: [{ timestamp: "2026-11-16T00:00:00Z", event: "checkpoint_read" }] }),
      "GET /api/v1/billing/usage/events": () => ({ data: [], sessions: {} }),
      "GET /api/v1/billing/usage/checkpoints/current": () => ({ data: [] }),
      "GET /api/v1/samplers/s:sample:0": () => ({ sampler_id: "s:sample:0", base_model: "tiny" }),
      "GET /api/v1/sessions/s": () => ({ training_run_ids: ["s:train:0"], sampler_ids: [] }),
      "POST /api/v1/weights_info": () => ({ base_model: "tiny", is_lora: true, lora_rank: 4 }),
      "GET /api/v1/auth/apikey/me": () => ({
        key_id: 7,
        name: "mine",
        details: { org_details: { name: "Org" }, user_details: { email: "a@b.c" } }
      })
    })
    return Effect.gen(function*() {
      const client = yield* RestClient.RestClient
      const day = DateTime.unsafeMake("2026-11-15T13:00:00Z")
      assert.strictEqual(
        (yield* client.getAuditLog({ day, eventType: "checkpoints" })).entries[0]?.event,
        "checkpoint_read"
      )
      assert.deepStrictEqual(rest()[0]?.query, { event_type: "checkpoints", day: "2026-11-15" })
      yield* client.getBillingUsage({
        startingOn: DateTime.unsafeMake("2026-11-15T00:00:00Z"),
        endingBefore: DateTime.unsafeMake("2026-11-16T00:00:00Z")
      })
      assert.deepStrictEqual(rest()[1]?.query, {
        starting_on: "2026-11-15T00:00:00Z",
        ending_before: "2026-11-16T00:00:00Z"
      })
      yield* client.getCheckpointStorageUsage({ projectId: "p" })
      assert.deepStrictEqual(rest()[2]?.query, { project_id: "p" })
      assert.strictEqual((yield* client.getSampler("s:sample:0")).baseModel, "tiny")
      assert.deepStrictEqual((yield* client.getSession("s")).trainingRunIds.map(String), ["s:train:0"])
      assert.strictEqual((yield* client.getWeightsInfo(path)).loraRank, 4)
      assert.strictEqual((yield* client.getApiKey).name, "mine")
    }).pipe(Effect.provide(layer))
  })

  it.effect("a caller can bring a policy of its own", () => {
    const { layer, rest } = server({ "GET /api/v1/sessions/s": () => new Response("", { status: 500 }) })
    return Effect.gen(function*() {
      const client = yield* RestClient.RestClient
      yield* Effect.flip(client.getSession("s").pipe(RetryPolicy.provide({ restRead: Schedule.recurs(2) })))
      assert.strictEqual(rest().length, 3)
    }).pipe(Effect.provide(layer))
  })
})
