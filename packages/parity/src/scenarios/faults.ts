/**
 * What clients do when a server does not do what they ask; its twin is `python/scenarios/faults.py`.
 */
import type { Faults } from "@effect-tinker/local"
import { Effect } from "effect"
import { datum, drop, few, first, later, prompt, sampling, scenario, waited } from "./common.js"
import type { Scenario } from "./Scenario.js"

const step = waited((training) => training.optimStep({ learningRate: 1e-4 }))

const save = waited((training) => training.saveState("one"))

const pass = waited((training) => training.forwardBackward([datum("cat: meow")], "cross_entropy"))

const sample = Effect.flatMap(sampling, (sampling) => sampling.sample({ prompt: prompt(), ...few }))

/** A body of nothing, as proxies answer. */
const empty = { body: new Uint8Array(0) }

const told = (value: string) => ({ headers: { "retry-after": value } })

/** The model is made and its future polled first. */
const polled = (times: number, status: number, body?: unknown): Faults.Rule =>
  later(1, first(times, "retrieveFuture", status, body === undefined ? {} : { body }))

const waiting = { type: "try_again", request_id: "any", queue_state: "active" } as const

const paused = { ...waiting, queue_state: "paused_capacity", queue_state_reason: "all machines are busy" }

const table: ReadonlyArray<readonly [run: Scenario["run"], name: string, fault: Faults.Rule]> = [
  [step, "submit_400", first(1, "optimStep", 400)],
  [step, "submit_400_empty", first(1, "optimStep", 400, empty)],
  [step, "submit_401", first(1, "optimStep", 401)],
  [step, "submit_402", first(1, "optimStep", 402)],
  [step, "submit_403", first(1, "optimStep", 403)],
  [step, "submit_404", first(1, "optimStep", 404)],
  [step, "submit_408", first(1, "optimStep", 408)],
  [step, "submit_409", first(1, "optimStep", 409)],
  [step, "submit_410", first(1, "optimStep", 410)],
  [step, "submit_422", first(1, "optimStep", 422)],
  [step, "submit_429", first(1, "optimStep", 429)],
  [step, "submit_500_twice", first(2, "optimStep", 500)],
  [step, "submit_503", first(1, "optimStep", 503)],
  [step, "submit_dropped", drop(1, "optimStep")],
  [step, "submit_answer_lost", drop(1, "optimStep", "after")],
  [save, "save_500", first(1, "saveWeights", 500)],
  [save, "save_429", first(1, "saveWeights", 429)],
  [pass, "pass_500", first(1, "forwardBackward", 500)],
  [pass, "pass_429", first(1, "forwardBackward", 429)],
  [step, "create_model_500", first(1, "createModel", 500)],
  [step, "create_model_402", first(1, "createModel", 402)],

  [step, "should_retry_true", first(1, "optimStep", 400, { headers: { "x-should-retry": "true" } })],
  [step, "should_retry_false", first(1, "optimStep", 500, { headers: { "x-should-retry": "false" } })],
  [step, "retry_after_seconds", first(1, "optimStep", 429, told("2"))],
  [step, "retry_after_fraction", first(1, "optimStep", 503, told("1.2"))],
  [step, "retry_after_millis", first(1, "optimStep", 429, { headers: { "retry-after-ms": "2100" } })],
  [step, "retry_after_date", first(1, "optimStep", 429, told("in 4 s"))],
  [step, "retry_after_too_long", first(1, "optimStep", 429, told("61"))],
  [step, "retry_after_zero", first(1, "optimStep", 429, told("0"))],
  [
    step,
    "retry_after_millis_first",
    first(1, "optimStep", 429, { headers: { "retry-after-ms": "1200", "retry-after": "3" } })
  ],

  [step, "poll_400_once", polled(1, 400)],
  [step, "poll_400_for_ever", polled(9, 400)],
  [step, "poll_400_empty", polled(1, 400, empty.body)],
  [step, "poll_401", polled(1, 401)],
  [step, "poll_402", polled(1, 402)],
  [step, "poll_404", polled(1, 404)],
  [step, "poll_408", polled(1, 408)],
  [step, "poll_408_queue_state", polled(1, 408, paused)],
  [step, "poll_410", polled(1, 410)],
  [step, "poll_429", polled(2, 429)],
  [step, "poll_500_twice", polled(2, 500)],
  [step, "poll_dropped", later(1, drop(1, "retrieveFuture"))],
  [step, "poll_try_again", polled(1, 200, waiting)],
  [step, "poll_try_again_reason", polled(2, 200, paused)],
  [step, "poll_failed_user", polled(1, 200, { error: "your fault", category: "user" })],
  [step, "poll_failed_server", polled(1, 200, { error: "our fault", category: "server" })],
  [pass, "poll_410_of_a_pass", polled(1, 410)],

  [sample, "sample_400", first(1, "asample", 400)],
  [sample, "sample_400_empty", first(1, "asample", 400, empty)],
  [sample, "sample_402", first(1, "asample", 402)],
  [sample, "sample_404", first(1, "asample", 404)],
  [sample, "sample_408", first(1, "asample", 408)],
  [sample, "sample_409", first(1, "asample", 409)],
  [sample, "sample_410", first(1, "asample", 410)],
  [sample, "sample_429_twice", first(2, "asample", 429)],
  [sample, "sample_500", first(1, "asample", 500)],
  [sample, "sample_dropped", drop(1, "asample")],
  [sample, "sample_poll_410", first(1, "retrieveFuture", 410)],
  [sample, "sample_poll_429", first(1, "retrieveFuture", 429)],
  [sample, "sample_poll_500", first(1, "retrieveFuture", 500)],
  [sample, "sample_failed_user", first(1, "retrieveFuture", 200, { body: { error: "no", category: "user" } })],
  [sample, "sampler_500", first(1, "createSamplingSession", 500)],
  [sample, "sampler_409", first(1, "createSamplingSession", 409)]
]

export const faults: ReadonlyArray<Scenario> = table.map(([run, name, fault]) =>
  scenario(name, run, { faults: [fault] })
)
