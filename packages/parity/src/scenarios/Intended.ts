/**
 * Where we mean to differ from the official SDK on the wire, and why. An entry that explains nothing any more is a
 * failure too, unless it depends on timing.
 */
import type { Difference } from "./Compare.js"
import { format } from "./Compare.js"

export interface Intended {
  /** Names of the scenarios it is about. */
  readonly scenario: RegExp
  /** The difference, as it is printed. */
  readonly difference: RegExp
  readonly why: string
  /** Depends on which of two requests arrives first: may be absent from a run. */
  readonly optional?: boolean
}

const anywhere = /./

/** Headers of a request that is sent again. */
const resent = (path: string) =>
  new RegExp(
    `${path} attempts\\.[1-9]\\.(headers\\.(x-idempotency-key: "fresh" there, "the same" here|` +
      `x-stainless-retry-count: "0" there, "[1-9]" here)|delay: "under 1.4 s" there, "under 0.7 s" here)`
  )

const olderServers = "absent means the same, and servers older than the key or stricter than the service refuse it"

const onePolicy =
  "one retry policy and one idempotency key per operation, where they nest two loops with keys of their own"

export const table: ReadonlyArray<Intended> = [
  {
    scenario: anywhere,
    difference: /create_model attempts\.\d+\.body\.optimizer_config: {"type":"adamw"} there, nothing here/,
    why: olderServers
  },
  {
    scenario: anywhere,
    difference:
      /asample attempts\.\d+\.body\.(topk_sample_logprobs: 0|prompt_alt_tokens_k: 0|record_stability_info: false) there, nothing here/,
    why: olderServers
  },
  {
    scenario: anywhere,
    difference: /save_weights_for_sampler attempts\.\d+\.body\.kind: "snapshot" there, nothing here/,
    why: olderServers
  },
  {
    scenario: anywhere,
    difference: /(get_info|GET \/api\/v1\/samplers\/.*): "sent" there, "not sent" here/,
    why: "what a model or a sampler is made of is asked for when somebody wants to know; theirs asks when it is made"
  },
  {
    scenario: /^sample_one_poll_for_all$/,
    difference: /retrieve_futures attempts\.0\.body\.retrieved_request_ids: \[\] there, nothing here/,
    why: olderServers,
    optional: true
  },
  {
    scenario: anywhere,
    difference:
      /polls\.\d+\.headers\.accept: "application\/x-protobuf" there, "application\/x-protobuf, application\/json" here/,
    why: "we read results in JSON too, which some compatible servers write"
  },
  {
    scenario: /^sample_stop_text$/,
    difference: /sampling_params\.stop: "end" there, \["end"\] here/,
    why: "a list of one says the same, and some servers take lists only"
  },
  {
    scenario: /^sample_one_poll_for_all$/,
    difference: /retrieve_futures attempts\.0\.body\.retrieved_request_ids\.0: nothing there, "[^"]+" here/,
    why: "a completion and its fetched result are acknowledged together; theirs acknowledges them one after the other",
    optional: true
  },
  {
    scenario: /^sample_one_poll_for_all$/,
    difference: /retrieve_futures: "sent" there, "not sent" here/,
    why: "a completion and its fetched result are acknowledged together; theirs acknowledges them one after the other",
    optional: true
  },
  {
    scenario: anywhere,
    difference: /headers\.x-sdk-method: "[^"]+" there, "[^"]+" here/,
    why: "requests name the method of this SDK, which is not always called like theirs"
  },
  {
    scenario: /^(rest_|resume)/,
    difference: /client\/config: "sent" there, "not sent" here/,
    why: "the server's configuration is asked for once per tenant, not once per client"
  },
  {
    scenario: /^(rest_|resume|capabilities$|whoami$)/,
    difference: /client\/dynamic_config: "sent" there, "not sent" here/,
    why: "what opens no session has no use for what concerns sessions"
  },
  {
    scenario: /^startup_command$/,
    difference: /outcome: "failed \(TinkerError: The api_key client option must be set/,
    why: "the output of a credential command is presented where tokens are not exchanged; theirs wants a key then"
  },
  {
    scenario: /^startup_command$/,
    difference: /: "not sent" there, "sent" here/,
    why: "the output of a credential command is presented where tokens are not exchanged; theirs wants a key then"
  },
  {
    scenario: /^startup_no_dynamic_config$/,
    difference: /get_server_capabilities: "not sent" there, "sent" here/,
    why: "servers without that configuration may train another model than they were asked for: theirs is not checked"
  },
  {
    scenario: /^rest_path_without_kind$/,
    difference: /(outcome: "failed \(ValueError: Invalid tinker path|checkpoints\/one: "not sent" there, "sent" here)/,
    why: "paths without a kind are what some compatible servers write"
  },
  {
    scenario: /^rest_publish_409$/,
    difference: /(outcome: "status 404 .* there, "status 409|publish attempts\.length: 2 there, 1 here)/,
    why: "a conflict is the answer; theirs asks again for five minutes"
  },
  {
    scenario: /^create_model_402$/,
    difference:
      /(outcome: "status 402|create_model (attempts\.length: 1|polls\.length: 0)|optim_step: "not sent"|"errored" there, "success" here)/,
    why: "model creation waits for billing as every other operation does"
  },
  {
    scenario: /^should_retry_false$/,
    difference: /(outcome: "done|optim_step (attempts\.length: 2|polls\.length: 1)|"success" there, "errored" here)/,
    why: "x-should-retry: false is obeyed; theirs obeys in one loop and not in the one around it"
  },
  {
    scenario: /poll_500/,
    difference: /polls\.\d\.delay: "at once" there, "under (1\.4|2\.8) s" here/,
    why: "a server in trouble is polled ever slower; theirs polls it in a busy loop"
  },
  {
    scenario: /^poll_400_for_ever$/,
    difference: /polls\.\d\.delay: "at once" there, "under (0\.7|1\.4) s" here/,
    why: "a refused poll is repeated ever slower; theirs repeats it at once"
  },
  {
    scenario: /^sample_402$/,
    difference: /asample attempts\.1\.delay: "under 1\.4 s" there, "under 5\.8 s" here/,
    why: "a blocked account is asked about every 5 seconds by every operation; theirs asks every second while sampling"
  },
  { scenario: /^submit_(400_empty|402)$/, difference: resent("optim_step"), why: onePolicy },
  { scenario: /^save_(500|429)$/, difference: resent("save_weights"), why: onePolicy },
  { scenario: /^sample_(400_empty|402|408|409|429_twice|500|dropped)$/, difference: resent("asample"), why: onePolicy }
]

/** The entry that explains a difference. */
export const find = (scenario: string, difference: Difference, entries = table): Intended | undefined => {
  const text = format(difference)
  return entries.find((entry) => entry.scenario.test(scenario) && entry.difference.test(text))
}
