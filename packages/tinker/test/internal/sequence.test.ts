import { assert, describe, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import { Datum, RetryPolicy } from "../../src/index.js"
import * as Server from "../utils/recordingServer.js"
import { atOnce } from "../utils/trainingProperty.js"
import * as Training from "../utils/trainingServer.js"

const page = "<html><body>Request blocked</body></html>"
const data = (n: number) => Array.from({ length: n }, () => Either.getOrThrow(Datum.fromTokens([1, 2])))
const pieces = { fwdbwd_max_chunk_len: 1, parallel_fwdbwd_chunks: true }
const once = RetryPolicy.provide({ submit: RetryPolicy.never })

/** A server that keeps the order, behind something that may answer in its place. */
const behind = (front: (request: Training.Numbered) => Server.Answer | undefined, config = {}) => {
  const accepted: Array<Training.Numbered> = []
  const server = Training.make({
    config,
    accept: (request) => {
      const answer = front(request)
      if (answer !== undefined) return answer
      const known = accepted.find(({ seqId }) => seqId === request.seqId)
      if (known === undefined) accepted.push(request)
      else if (known.key !== request.key) return Server.refuse(409, { detail: "used for another request" })
      return undefined
    }
  })
  return {
    ...server,
    /** What runs, in the order in which it runs: nothing behind a number that has not come. */
    ran: () => {
      const sorted = [...accepted].sort((a, b) => a.seqId - b.seqId)
      return sorted.filter(({ seqId }, i) => seqId === i + 1)
    },
    accepted
  }
}

const isPlaceholder = ({ pass }: Training.Numbered) => pass?.forwardOnly === true && pass.data.length === 1

describe("numbering", () => {
  for (
    const [who, answer] of [
      ["a gateway's page", Server.refuse(403, page)],
      ["a proxy's limit", Server.refuse(413, "Payload Too Large")],
      ["a gateway's JSON", Server.refuse(403, { message: "Forbidden" })],
      ["a login page far away", Server.refuse(302, "", { location: "https://login.test/" })],
      ["the server's doorkeeper", Server.refuse(401, { detail: "Invalid API key" })],
      ["a server without that path", Server.refuse(404, { detail: "Not Found" })],
      ["a server that cannot read it", Server.refuse(422, { detail: [{ loc: ["body"], msg: "Field required" }] })]
    ] as const
  ) {
    it.scoped(`G4: what ${who} turns away leaves no gap: the next operation takes its number`, () =>
      Effect.gen(function*() {
        const server = behind(({ json }) => json["path"] === "away" ? answer : undefined)
        const client = yield* Training.client(server)
        yield* client.saveState("before")
        const error = yield* Effect.flip(client.saveState("away"))
        assert.strictEqual(error.status, answer.status)
        yield* client.saveState("after")
        yield* client.saveState("last")
        assert.deepStrictEqual(server.ran().map(({ json, seqId }) => [seqId, json["path"]]), [
          [1, "before"],
          [2, "after"],
          [3, "last"]
        ])
      }))
  }

  it.scoped("G4: what the server itself refuses keeps its number", () =>
    Effect.gen(function*() {
      const server = behind(({ seqId }) =>
        seqId === 1 ? Server.refuse(404, { detail: "no such checkpoint" }) : undefined
      )
      const client = yield* Training.client(server)
      yield* Effect.flip(client.loadState("tinker://a/weights/b"))
      yield* client.optimStep()
      assert.deepStrictEqual(server.numbers(client.modelId), [1, 2])
    }))

  it.scoped("G4: turned away after an attempt that may have arrived, a request is sent again as it was", () =>
    Effect.gen(function*() {
      let attempts = 0
      const server = behind(({ json }) => {
        if (json["path"] !== "doubtful" || ++attempts > 2) return undefined
        return attempts === 1 ? Server.refuse(504, page) : Server.refuse(403, page)
      })
      const client = yield* Training.client(server)
      assert.strictEqual((yield* Effect.flip(atOnce(client.saveState("doubtful"))))._tag, "PermissionDenied")
      yield* atOnce(client.saveState("after"))
      assert.deepStrictEqual(server.ran().map(({ json, seqId }) => [seqId, json["path"]]), [[1, "doubtful"], [
        2,
        "after"
      ]])
    }))

  it.scoped("G4: a piece turned away among others is done nowhere, and a placeholder takes its number", () =>
    Effect.gen(function*() {
      let open = false
      const server = behind(({ seqId }) => seqId === 2 && !open ? Server.refuse(413, page) : undefined, pieces)
      const client = yield* Training.client(server)
      assert.strictEqual(
        (yield* Effect.flip(client.forwardBackward(data(3), "cross_entropy"))).status,
        413
      )
      open = true
      yield* client.optimStep()
      const ran = server.ran()
      assert.deepStrictEqual(ran.map(({ path, seqId }) => [seqId, path]), [
        [1, "forward_backward"],
        [2, "forward_backward"],
        [3, "forward_backward"],
        [4, "optim_step"]
      ])
      assert.deepStrictEqual(ran.map(isPlaceholder), [false, true, false, false])
    }))

  it.scoped("G4: the last pieces turned away give their numbers back", () =>
    Effect.gen(function*() {
      const server = behind(
        ({ path, seqId }) => path === "forward_backward" && seqId > 1 ? Server.refuse(403, page) : undefined,
        pieces
      )
      const client = yield* Training.client(server)
      yield* Effect.flip(client.forwardBackward(data(3), "cross_entropy"))
      yield* client.optimStep()
      assert.deepStrictEqual(server.ran().map(({ path, seqId }) => [seqId, path]), [
        [1, "forward_backward"],
        [2, "optim_step"]
      ])
    }))

  it.scoped("G4: while everything is turned away, what is owed stays owed", () =>
    Effect.gen(function*() {
      let away: "none" | "second" | "all" = "second"
      const server = behind(
        ({ seqId }) => away === "all" || (away === "second" && seqId === 2) ? Server.refuse(403, page) : undefined,
        pieces
      )
      const client = yield* Training.client(server)
      yield* Effect.flip(client.forwardBackward(data(3), "cross_entropy"))
      away = "all"
      yield* Effect.flip(client.optimStep())
      yield* Effect.flip(client.optimStep())
      away = "none"
      yield* client.optimStep()
      assert.deepStrictEqual(server.ran().map(({ seqId }) => seqId), [1, 2, 3, 4])
    }))

  it.scoped("G4: a placeholder takes the number of a request the server breaks on, twice", () =>
    Effect.gen(function*() {
      const server = behind(({ json }) => json["path"] === "poison" ? Server.refuse(500) : undefined)
      const client = yield* Training.client(server)
      yield* Effect.flip(once(client.saveState("poison")))
      yield* once(client.saveState("after"))
      const ran = server.ran()
      assert.deepStrictEqual(ran.map(({ seqId }) => seqId), [1, 2])
      assert.deepStrictEqual(ran.map(isPlaceholder), [true, false])
    }))

  it.scoped("G4: of many pieces that got no answer none is forgotten", () =>
    Effect.gen(function*() {
      let down = true
      const server = behind(() => down ? Server.refuse(503) : undefined, pieces)
      const client = yield* Training.client(server)
      yield* Effect.flip(once(client.forwardBackward(data(40), "cross_entropy")))
      down = false
      yield* once(client.optimStep())
      const ran = server.ran()
      assert.strictEqual(ran.length, 41)
      assert.strictEqual(ran.filter(isPlaceholder).length, 24)
    }))
})
