/**
 * What a server has to say for sampling to work, at once: what is measured is the client.
 */
import { Either } from "effect"
import { Sample } from "effect-tinker/wire"

const tokens = Int32Array.from({ length: 200 }, (_, i) => i * 7)
const logprobs = Float32Array.from(tokens, (token) => -1 / (1 + token))

const result = Either.getOrThrow(Sample.encodeResponse(
  new Sample.SampleResponse({ sequences: [new Sample.SampledSequence({ stopReason: "stop", tokens, logprobs })] })
))

let samples = 0

const answers: Readonly<Record<string, () => string>> = {
  "/api/v1/client/config": () => "{}",
  "/api/v1/client/dynamic_config": () => "{}",
  "/api/v1/create_session": () => "{\"session_id\":\"session\"}",
  "/api/v1/session_heartbeat": () => "{}",
  "/api/v1/create_sampling_session": () => "{\"sampling_session_id\":\"session:sample:0\"}",
  "/api/v1/asample": () => `{"request_id":"session:sample:0:${samples++}","sample_sequence_ids":["a"]}`,
  "/api/v1/telemetry": () => "{\"status\":\"accepted\"}"
}

/** The path of the long poll, which a server may want to hold. */
export const poll = "/api/v1/retrieve_future"

/** Content type and body. */
export const answer = (path: string): readonly [type: string, body: string | Uint8Array] =>
  path === poll ? ["application/x-protobuf", result] : ["application/json", answers[path]?.() ?? "{}"]
