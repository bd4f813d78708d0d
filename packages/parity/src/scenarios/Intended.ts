/**
 * Where we mean to differ from the official SDK on the wire, and why. An entry that explains nothing any more is a
 * failure too.
 */
import type { Difference } from "./Compare.js"
import { format } from "./Compare.js"

export interface Intended {
  /** Names of the scenarios it is about. */
  readonly scenario: RegExp
  /** The difference, as it is printed. */
  readonly difference: RegExp
  readonly why: string
}

const anywhere = /./

const olderServers = "absent means the same, and servers older than the key or stricter than the service refuse it"

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
    difference:
      /polls\.\d+\.headers\.accept: "application\/x-protobuf" there, "application\/x-protobuf, application\/json" here/,
    why: "we read results in JSON too, which some compatible servers write"
  }
]

/** The entry that explains a difference. */
export const find = (scenario: string, difference: Difference, entries = table): Intended | undefined => {
  const text = format(difference)
  return entries.find((entry) => entry.scenario.test(scenario) && entry.difference.test(text))
}
