import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { ForwardBackward } from "effect-tinker/wire"
import { readdirSync, readFileSync } from "node:fs"
import { scenarios } from "../src/scenarios/all.js"
import { datum } from "../src/scenarios/common.js"
import * as Compare from "../src/scenarios/Compare.js"
import * as Drive from "../src/scenarios/Drive.js"
import * as Intended from "../src/scenarios/Intended.js"
import * as Normal from "../src/scenarios/Normal.js"
import * as Recorder from "../src/scenarios/Recorder.js"

const bytes = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value))

const id = (n: number): string => `00000000-0000-4000-a000-00000000000${n}`

/** A request that was answered 10 ms later. */
const seen = (path: string, body: unknown, rest: Partial<Recorder.Seen> & { readonly status?: number } = {}) => {
  const at = rest.at ?? 0
  return {
    method: "POST",
    path: `/api/v1/${path}`,
    query: {},
    body: bytes(body),
    ...rest,
    headers: { "content-type": "application/json", ...rest.headers },
    at,
    answer: rest.answer ?? { at: at + 10, status: rest.status ?? 200, json: undefined }
  } satisfies Recorder.Seen
}

const accepted = (requestId: string): Recorder.Seen["answer"] => ({
  at: 10,
  status: 200,
  json: { request_id: requestId }
})

/** A model is stepped, and the result polled for twice. */
const recording = (n: number, change: (requests: Array<Recorder.Seen>) => void = () => {}) => {
  const model = `${id(n)}:train:0`
  const requests: Array<Recorder.Seen> = [
    seen("client/config", { sdk_version: "1" }, {
      headers: { "x-idempotency-key": `config-${n}`, "user-agent": `agent ${n}`, "x-api-key": "tml-key" }
    }),
    seen("optim_step", { model_id: model, seq_id: 1 }, {
      headers: { "x-idempotency-key": `step-${n}` },
      answer: accepted(id(n + 1))
    }),
    seen("retrieve_future", { request_id: id(n + 1) }, { status: 429, at: 20 }),
    seen("retrieve_future", { request_id: id(n + 1) }, { at: 1030 })
  ]
  change(requests)
  return requests
}

const differences = (
  theirs: ReadonlyArray<Recorder.Seen>,
  ours: ReadonlyArray<Recorder.Seen>
): ReadonlyArray<string> => Compare.compare(Normal.steps(theirs), Normal.steps(ours)).map(Compare.format)

/** What is found when ours is changed so. */
const found = (change: (requests: Array<Recorder.Seen>) => void) => differences(recording(1), recording(4, change))

const replaced =
  (index: number, change: (request: Recorder.Seen) => Partial<Recorder.Seen>) => (requests: Array<Recorder.Seen>) => {
    const request = requests[index]
    if (request !== undefined) requests[index] = { ...request, ...change(request) }
  }

describe("recordings compared", () => {
  it("ids, keys and who sends make no difference", () => {
    assert.deepStrictEqual(found(() => {}), [])
  })

  it("polls stand under the request they are for, retries under the first attempt", () => {
    const steps = Normal.steps(recording(1, (requests) => {
      requests.splice(1, 0, seen("optim_step", { model_id: `${id(1)}:train:0`, seq_id: 1 }, { status: 500 }))
    }))
    assert.deepStrictEqual(steps.map(({ attempts, name, polls }) => [name, attempts.length, polls.length]), [
      ["POST /api/v1/client/config", 1, 0],
      ["POST /api/v1/optim_step", 2, 2]
    ])
    assert.deepStrictEqual(steps[1]?.polls.map(({ delay, status }) => [status, delay]), [[429, ""], [
      200,
      "under 1.4 s"
    ]])
  })

  it.each<[string, (requests: Array<Recorder.Seen>) => void, string]>([
    ["a request less", (r) => void r.splice(0, 1), "POST /api/v1/client/config: \"sent\" there, \"not sent\" here"],
    ["a request more", (r) => void r.push(seen("get_info", {})), "get_info: \"not sent\" there, \"sent\" here"],
    ["another order", (r) => void r.reverse(), "client/config: \"sent\" there"],
    ["another method", replaced(0, () => ({ method: "PUT" })), "PUT /api/v1/client/config: \"not sent\" there"],
    ["another query", replaced(0, () => ({ query: { limit: "5" } })), "query.limit: nothing there, \"5\" here"],
    [
      "another value in a body",
      replaced(0, () => ({ body: bytes({ sdk_version: "2" }) })),
      "attempts.0.body.sdk_version: \"1\" there, \"2\" here"
    ],
    [
      "a key more in a body",
      replaced(0, () => ({ body: bytes({ sdk_version: "1", more: null }) })),
      "attempts.0.body.more: nothing there, null here"
    ],
    [
      "another number of an operation",
      replaced(1, () => ({ body: bytes({ model_id: `${id(4)}:train:0`, seq_id: 2 }) })),
      "optim_step attempts.0.body.seq_id: 1 there, 2 here"
    ],
    [
      "the id of something else",
      replaced(1, () => ({ body: bytes({ model_id: `${id(5)}:train:0`, seq_id: 1 }) })),
      "polls.0.body.request_id: \"id-2\" there, \"id-1\" here"
    ],
    [
      "another credential",
      replaced(0, ({ headers }) => ({ headers: { ...headers, "x-api-key": "eyJhbGc.eyJzdWI.c2ln" } })),
      "headers.x-api-key: \"tml-key\" there, \"a token\" here"
    ],
    [
      "a header less",
      replaced(0, ({ headers }) => ({ headers: { ...headers, "x-idempotency-key": undefined } })),
      "headers.x-idempotency-key: \"fresh\" there, nothing here"
    ],
    [
      "a key of idempotency used twice",
      replaced(1, ({ headers }) => ({ headers: { ...headers, "x-idempotency-key": "config-4" } })),
      "optim_step attempts.0.headers.x-idempotency-key: \"fresh\" there, \"another's\" here"
    ],
    [
      "a retry more",
      (r) => void r.splice(0, 0, seen("client/config", { sdk_version: "1" }, { status: 500 })),
      "client/config attempts.length: 1 there, 2 here"
    ],
    ["a poll less", (r) => void r.splice(2, 1), "optim_step polls.length: 2 there, 1 here"],
    [
      "another delay",
      replaced(3, () => ({ at: 2530 })),
      "polls.1.delay: \"under 1.4 s\" there, \"under 2.8 s\" here"
    ],
    [
      "another status",
      replaced(2, () => ({ answer: { at: 30, status: 408, json: undefined } })),
      "polls.0.status: 429 there, 408 here"
    ]
  ])("%s is a difference", (_, change, text) => {
    const all = found(change)
    assert.isTrue(all.some((difference) => difference.includes(text)), all.join("\n"))
  })

  it("protobuf is compared by what it says", () => {
    const pass = (text: string): Recorder.Seen => {
      const encoded = ForwardBackward.encodeRequest({ modelId: "m", seqId: 1, lossFn: "ppo", data: [datum(text)] })
      const body = encoded._tag === "Right" ? encoded.right : new Uint8Array()
      return seen("forward_backward", {}, { body, headers: { "content-type": "application/x-protobuf" } })
    }
    assert.deepStrictEqual(differences([pass("abc")], [pass("abc")]), [])
    const [first] = differences([pass("abc")], [pass("abd")])
    assert.match(first ?? "", /attempts\.0\.body\.data\.0\.lossFnInputs\.target_tokens\.dense/)
  })

  it("requests sent side by side may come in any order, but for the last", () => {
    const chunk = (seqId: number) => seen("forward_backward", { seq_id: seqId })
    const names = (order: ReadonlyArray<number>) =>
      Normal.steps(order.map(chunk), { sideBySide: true }).map(({ attempts }) => attempts[0]?.body)
    assert.deepStrictEqual(names([3, 2, 4, 1]), names([4, 3, 2, 1]))
    assert.notDeepEqual(names([3, 2, 4, 1]), names([1, 2, 3, 4]))
  })

  it("telemetry is left out, heartbeats unless they are asked for", () => {
    const requests = [seen("telemetry", {}), seen("session_heartbeat", {})]
    assert.lengthOf(Normal.steps(requests), 0)
    assert.lengthOf(Normal.steps(requests, { heartbeats: true }), 1)
  })

  it("delays are put into classes around the policies", () => {
    for (
      const [millis, name] of [
        [10, "at once"],
        [375, "under 0.7 s"],
        [500, "under 0.7 s"],
        [760, "under 1.4 s"],
        [
          2000,
          "under 2.8 s"
        ],
        [5000, "under 5.8 s"],
        [60_000, "later"]
      ] as const
    ) {
      assert.strictEqual(Normal.delayClass(millis), name)
    }
  })

  it("an entry of the table explains what it names, in the scenarios it names", () => {
    const entries = [{ scenario: /^one$/, difference: /^x: 1 there/, why: "because" }]
    const difference = { at: "x", theirs: 1, ours: 2 }
    assert.strictEqual(Intended.find("one", difference, entries), entries[0])
    assert.isUndefined(Intended.find("two", difference, entries))
    assert.isUndefined(Intended.find("one", { ...difference, at: "y" }, entries))
  })

  it("every scenario has a name of its own, and a twin in Python", () => {
    const directory = new URL("../python/scenarios/", import.meta.url)
    const python = readdirSync(directory).filter((file) => file.endsWith(".py")).map((file) =>
      readFileSync(new URL(file, directory), "utf8")
    ).join("\n")
    assert.strictEqual(new Set(scenarios.map(({ name }) => name)).size, scenarios.length)
    assert.isAtLeast(scenarios.length, 40)
    assert.deepStrictEqual(
      scenarios.map(({ name }) => name).filter((name) => !new RegExp(`\\b${name}\\b`).test(python)),
      []
    )
  })

  it.live("ours is recorded over a real socket, retries and all, and equals itself", () =>
    Effect.gen(function*() {
      const recorder = yield* Recorder.make
      const chosen = scenarios.filter(({ name }) => name === "retry_after_zero" || name === "sample_defaults")
      const run = (side: Recorder.Side) =>
        Effect.forEach(chosen, (scenario) =>
          Effect.flatMap(recorder.open(side, scenario), (baseUrl) =>
            Drive.ours({
              scenario,
              baseUrl,
              apiKey: "tml-key",
              environment: { TINKER_TELEMETRY: "0" },
              credentialsPath: "none"
            })), { concurrency: "unbounded" })
      assert.deepStrictEqual(yield* run("theirs"), [{ outcome: "done" }, { outcome: "done" }])
      assert.deepStrictEqual(yield* run("ours"), [{ outcome: "done" }, { outcome: "done" }])
      for (const scenario of chosen) {
        const [left, right] = [recorder.seen("theirs", scenario), recorder.seen("ours", scenario)]
        assert.isAbove(left.length, 5)
        // a busy machine may answer late
        assert.deepStrictEqual(
          Compare.compare(Normal.steps(left), Normal.steps(right)).filter(({ at }) => !at.endsWith(".delay")),
          []
        )
      }
    }).pipe(Effect.scoped))
})
