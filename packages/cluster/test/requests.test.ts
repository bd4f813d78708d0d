import { assert, describe, it } from "@effect/vitest"
import { Option } from "effect"
import type { Reaction, Requests } from "../src/internal/durable/requests.js"
import { reactionTo, signalFor } from "../src/internal/durable/requests.js"
import type { Signal } from "../src/internal/durable/segment.js"
import { Request } from "../src/RunControl.js"

const request = (action: Request["action"]) => Option.some(new Request({ action, time: 1 }))

const none: Requests = { cancel: Option.none(), pause: Option.none(), resume: Option.none() }

const time = { now: 5_000, patience: 1_000 }

describe("signalFor", () => {
  it("a cancellation goes before a pause, and both before a wait for grades", () => {
    const waiting = { keys: ["a"], since: 4_000 }
    const all = { ...none, cancel: request("cancel"), pause: request("pause") }
    const tagOf = (requests: Requests) => Option.getOrThrow(signalFor(requests, waiting, time))._tag
    assert.strictEqual(tagOf(all), "Cancelled")
    assert.strictEqual(tagOf({ ...all, cancel: Option.none() }), "Suspended")
    assert.strictEqual(tagOf(none), "Judging")
  })

  it("rollouts that have waited for less than the patience are left alone", () => {
    assert.isTrue(Option.isNone(signalFor(none, { keys: ["a"], since: 4_001 }, time)))
    assert.isTrue(Option.isNone(signalFor(none, { keys: [], since: 0 }, time)))
  })
})

describe("reactionTo", () => {
  const paused: Signal = { _tag: "Suspended", reason: "paused" }
  const failed: Signal = { _tag: "Suspended", reason: "failed" }
  const judging: Signal = { _tag: "Judging", questions: ["a"] }
  const waiting: Signal = { _tag: "Waiting", millis: 1 }

  const rows: ReadonlyArray<readonly [string, Requests, Signal, Reaction]> = [
    ["a pause stays", none, paused, { _tag: "Stay" }],
    ["a pause is resumed", { ...none, resume: request("resume") }, paused, { _tag: "Answer", answer: "resume" }],
    [
      "a pause is cancelled, also when it is to be resumed",
      { ...none, cancel: request("cancel"), resume: request("resume") },
      paused,
      { _tag: "Answer", answer: "cancel" }
    ],
    ["a wait is interrupted by a cancellation", { ...none, cancel: request("cancel") }, waiting, { _tag: "Interrupt" }],
    ["a wait is not resumed", { ...none, resume: request("resume") }, waiting, { _tag: "Stay" }],
    ["grades are waited for", none, judging, { _tag: "GoOnWhenGraded", questions: ["a"] }],
    ["a failure that was answered goes on", none, failed, { _tag: "GoOn" }]
  ]
  for (const [name, requests, segment, expected] of rows) {
    it(name, () => assert.deepStrictEqual(reactionTo(requests, segment), expected))
  }
})
