/**
 * A turn of a rollout from its recorded tokens.
 */
import type * as Tokenizer from "@effect-tinker/tokenizer/Tokenizer"
import * as Option from "effect/Option"
import type { Turn } from "../../Rollouts.js"
import * as Json from "../json.js"
import * as TokenText from "../tokens.js"
import * as Transcript from "../transcript.js"
import { messageOf } from "./messages.js"

/** @internal */
export const idsOf = (u: unknown): ReadonlyArray<number> =>
  Json.arrayOf(u).map((id) => typeof id === "number" ? id : -1)

/** How many elements two lists have in common at their beginning. */
const common = (a: ReadonlyArray<number>, b: ReadonlyArray<number>): number => {
  let i = 0
  while (i < a.length && i < b.length && a[i] === b[i]) i++
  return i
}

/** More than this of one turn no browser shows well, and no person reads. */
const maxTokens = 20_000

/** Tokens of a turn, and what was recorded with them. @internal */
export interface Raw {
  readonly prompt: ReadonlyArray<number>
  readonly tokens: ReadonlyArray<number>
  readonly turn: Json.JsonObject
}

const forkOf = (u: unknown) => {
  const { description, reason } = Json.objectOf(u)
  return typeof reason === "string" ? { reason, description: Json.textOf(description) ?? "" } : undefined
}

/** @internal */
export const turnOf = (raw: Raw, previous: Raw | undefined, tokenizer: Option.Option<Tokenizer.Tokenizer>): Turn => {
  const { prompt, tokens, turn } = raw
  const history = previous === undefined ? [] : [...previous.prompt, ...previous.tokens]
  const shared = common(history, prompt)
  const continues = shared === history.length
  const given = prompt.slice(continues ? shared : 0)
  const omitted = Math.max(0, given.length + tokens.length - maxTokens)
  const shown = [...given, ...tokens].slice(omitted)
  const texts = Option.getOrNull(Option.map(tokenizer, (it) => TokenText.texts(it, shown)))
  const recorded = forkOf(turn["fork"])
  const said = Json.arrayOf(turn["given"]).flatMap((message) => messageOf(message) ?? [])
  return {
    before: said.length > 0 ? said : Option.match(tokenizer, {
      onNone: () => [],
      onSome: (it) =>
        Transcript.split(it.decode(given, { skipSpecialTokens: false })).map(({ role, text }) => ({
          role,
          text,
          reasoning: "",
          toolCalls: []
        }))
    }),
    message: messageOf(turn["message"]) ?? Option.getOrNull(Option.map(tokenizer, (it) => ({
      role: "assistant",
      text: it.decode(tokens, { skipSpecialTokens: false }),
      reasoning: "",
      toolCalls: []
    }))),
    tokens: {
      ids: shown,
      texts,
      given: Math.max(0, given.length - omitted),
      logprobs: Json.arrayOf(turn["logprobs"]).map((value) => Json.numberOf(value) ?? null),
      offset: prompt.length - given.length,
      omitted
    },
    promptTokens: prompt.length,
    sampledTokens: tokens.length,
    reward: Json.numberOf(turn["reward"]) ?? null,
    masked: turn["masked"] === true,
    policyVersion: Json.numberOf(turn["policyVersion"]) ?? null,
    fork: continues ? null : recorded ?? {
      reason: "HistoryChanged",
      description: `the prompt differs from the tokens of the turn before from token ${shared} on`
    },
    metrics: Json.numbersOf(turn["metrics"]),
    logs: []
  }
}
