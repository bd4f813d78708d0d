/**
 * Training data out of traces: successes to imitate, the best of several answers to one prompt, pairs of a better and a worse
 * one, feedback as reward, and real first messages as problems.
 *
 * Whatever is made, sessions are held out as a whole: traces of one session say too much about each other.
 *
 * @since 0.2.0
 */
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Duplicates from "@effect-tinker/cookbook/Duplicates"
import * as Environment from "@effect-tinker/cookbook/Environment"
import * as Example from "@effect-tinker/cookbook/Example"
import * as Message from "@effect-tinker/tokenizer/Message"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import type { ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import * as Datum from "effect-tinker/Datum"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Trace from "./Trace.js"

// =============================================================================
// sessions
// =============================================================================

/**
 * Share of the sessions that is held out, and the seed of the draw.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface Split {
  /** Share of the sessions that is held out. Defaults to 0.2. */
  readonly share?: number | undefined
  /** Defaults to 0. */
  readonly seed?: number | undefined
}

/**
 * Whether a session is held out: by its name and the seed alone, so that it is on the same side in every file and every run.
 *
 * @since 0.2.0
 * @category combinators
 */
export const isHeldOut = (session: string, { seed = 0, share = 0.2 }: Split = {}): boolean =>
  // two rounds, since names that differ in their last letters have hashes that lie close
  Duplicates.hashOf(`${Duplicates.hashOf(`${session} ${seed}`)}`) / 2 ** 53 < share

/**
 * Traces of sessions to train on, and of those that are held out.
 *
 * @since 0.2.0
 * @category combinators
 */
export const split = <E, R>(
  traces: Dataset.Dataset<Trace.Trace, E, R>,
  options?: Split
): readonly [train: Dataset.Dataset<Trace.Trace, E, R>, heldOut: Dataset.Dataset<Trace.Trace, E, R>] => [
  Dataset.filter(traces, ({ session }) => !isHeldOut(session, options), "its session is held out"),
  Dataset.filter(traces, ({ session }) => isHeldOut(session, options), "its session is trained on")
]

// =============================================================================
// choosing
// =============================================================================

/**
 * Which judgement counts.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface Judged {
  /** The name of a score, or `feedback`. Defaults to what `Trace.worth` finds without a name. */
  readonly score?: string | undefined
}

/**
 * Which traces are good enough to imitate.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface Successful extends Judged {
  /** Defaults to 1: a thumb up. */
  readonly atLeast?: number | undefined
}

/** A trace as it is trained on: its own answers, not those before it. */
const conversationOf = (trace: Trace.Trace): Example.Conversation => Example.conversation(trace.messages, trace.tools)

/**
 * The traces that were worth as much, as conversations for supervised training.
 *
 * @since 0.2.0
 * @category combinators
 */
export const successes = <E, R>(
  traces: Dataset.Dataset<Trace.Trace, E, R>,
  options: Successful = {}
): Dataset.Dataset<Example.Conversation, E, R> =>
  Dataset.map(
    Dataset.filter(
      traces,
      (trace) => (Trace.worth(trace, options.score) ?? -Infinity) >= (options.atLeast ?? 1),
      "not worth as much"
    ),
    conversationOf
  )

/** Hash of the question of a trace, without regard to white space. */
const promptOf = (trace: Trace.Trace): number =>
  Duplicates.hashOf(JSON.stringify([
    trace.tools?.map(({ name }) => name) ?? [],
    Trace.opening(trace).map((message) => [message.role, Message.text(message), message.toolCalls ?? []])
  ]))

interface Place {
  readonly id: string
  readonly worth: number
  readonly said: number
}

/** Judged traces by what was asked: ids and worths alone are held. */
const groupsOf = <E, R>(traces: Dataset.Dataset<Trace.Trace, E, R>, { score }: Judged) =>
  Effect.suspend(() => {
    const groups = new Map<number, Array<Place>>()
    return Effect.map(
      Stream.runForEach(Dataset.values(traces), (trace) =>
        Effect.sync(() => {
          const worth = Trace.worth(trace, score)
          if (worth === undefined) return
          const prompt = promptOf(trace)
          const place = { id: trace.id, worth, said: Duplicates.hashOf(JSON.stringify(own(trace))) }
          const known = groups.get(prompt)
          if (known === undefined) groups.set(prompt, [place])
          else known.push(place)
        })),
      () => Array.from(groups.values(), (group) => group.sort((a, b) => b.worth - a.worth || (a.id < b.id ? -1 : 1)))
    )
  })

/** The messages of this trace after its question, with the answers of the tools. */
const own = (trace: Trace.Trace): ReadonlyArray<Message.Message> => trace.messages.slice(Trace.opening(trace).length)

/**
 * Of all traces that were asked the same, the best, if it is good enough. The traces are read twice.
 *
 * @since 0.2.0
 * @category combinators
 */
export const best = <E, R>(
  traces: Dataset.Dataset<Trace.Trace, E, R>,
  options: Successful & {
    /** Number of traces kept for each prompt. Defaults to 1. */
    readonly keep?: number | undefined
  } = {}
): Effect.Effect<Dataset.Dataset<Example.Conversation, E, R>, E, R> =>
  Effect.map(groupsOf(traces, options), (groups) => {
    const kept = new Set(
      groups.flatMap((group) =>
        group.filter(({ worth }) => worth >= (options.atLeast ?? 1)).slice(0, options.keep ?? 1).map(({ id }) => id)
      )
    )
    return Dataset.map(Dataset.filter(traces, ({ id }) => kept.has(id), "not the best of its prompt"), conversationOf)
  })

/**
 * Pairs of traces that were asked the same: one that was worth more, and one that was worth less. The best is paired with the
 * worst, the second with the last but one, and so on. The traces are read twice, and those of the pairs are held.
 *
 * @since 0.2.0
 * @category combinators
 */
export const preferences = <E, R>(
  traces: Dataset.Dataset<Trace.Trace, E, R>,
  options: Judged & {
    /** By how much the better one is worth more, at least. Defaults to anything above 0. */
    readonly margin?: number | undefined
    /** Pairs of one prompt. Defaults to 4. */
    readonly perPrompt?: number | undefined
  } = {}
): Effect.Effect<Dataset.Dataset<Example.Preference, E, R>, E, R> =>
  Effect.gen(function*() {
    const pairs = (yield* groupsOf(traces, options)).flatMap((group) =>
      Array.from(
        { length: Math.min(Math.floor(group.length / 2), options.perPrompt ?? 4) },
        (_, i) => [group[i], group[group.length - 1 - i]] as const
      ).flatMap(([better, worse]) =>
        better !== undefined && worse !== undefined && better.said !== worse.said && better.worth > worse.worth &&
          better.worth - worse.worth >= (options.margin ?? 0)
          ? [[better.id, worse.id] as const]
          : []
      )
    )
    const wanted = new Set(pairs.flat())
    const held = new Map<string, Trace.Trace>()
    yield* Stream.runForEach(Dataset.values(traces), (trace) =>
      Effect.sync(() => {
        if (wanted.has(trace.id)) held.set(trace.id, trace)
      }))
    return Dataset.fromIterable(pairs.flatMap(([better, worse]): ReadonlyArray<Example.Preference> => {
      const [chosen, rejected] = [held.get(better), held.get(worse)]
      return chosen === undefined || rejected === undefined ? [] : [{
        prompt: Trace.opening(chosen),
        chosen: own(chosen),
        rejected: own(rejected),
        ...chosen.tools === undefined ? {} : { tools: chosen.tools }
      }]
    }))
  })

// =============================================================================
// feedback as reward
// =============================================================================

/**
 * A judged trace as data.
 *
 * @since 0.2.0
 * @category models
 */
export interface Rewarded {
  /**
   * `importance_sampling` where the tokens and their log probabilities were recorded: such data are corrected for the age of
   * the policy. `cross_entropy` elsewhere, with the advantage as weight.
   */
  readonly loss: "importance_sampling" | "cross_entropy"
  readonly datum: Datum.Datum
  /** Its worth, less the mean. */
  readonly advantage: number
}

/**
 * Judged traces as data for offline learning: worth less the mean of those that were asked the same, or of all where nobody
 * else was asked it. What was not better than the mean has no likelihood to be raised without log probabilities, and is
 * skipped.
 *
 * @since 0.2.0
 * @category combinators
 */
export const rewarded = <E, R>(
  traces: Dataset.Dataset<Trace.Trace, E, R>,
  options: Judged & { readonly renderer: Renderer.Renderer; readonly maxLength?: number | undefined }
): Effect.Effect<Dataset.Dataset<Rewarded, E, R>, E, R> =>
  Effect.map(groupsOf(traces, options), (groups) => {
    const mean = (values: ReadonlyArray<number>) => values.reduce((sum, value) => sum + value, 0) / values.length
    const all = mean(groups.flatMap((group) => group.map(({ worth }) => worth)))
    const advantages = new Map(groups.flatMap((group) => {
      const base = group.length > 1 ? mean(group.map(({ worth }) => worth)) : all
      return group.map(({ id, worth }) => [id, worth - base] as const)
    }))
    return Dataset.mapEffect(traces, (trace) =>
      Effect.gen(function*() {
        const advantage = advantages.get(trace.id)
        if (advantage === undefined) return yield* new Dataset.Skip({ reason: "filtered", detail: "nobody judged it" })
        if (trace.tokens !== undefined) {
          const datum = sampledDatum(trace.tokens, advantage)
          return Either.isLeft(datum)
            ? yield* new Dataset.Skip({ reason: "malformed", detail: datum.left.message })
            : { loss: "importance_sampling" as const, datum: datum.right, advantage }
        }
        if (advantage <= 0) return yield* new Dataset.Skip({ reason: "filtered", detail: "not better than the mean" })
        const { tokens, weights } = yield* Example.render(conversationOf(trace), options)
        const datum = yield* Example.fromSupervised(
          { tokens, weights: weights.map((weight) => weight * advantage) },
          options
        )
        return { loss: "cross_entropy" as const, datum, advantage }
      }))
  })

const sampledDatum = ({ ids, logprobs, sampled }: typeof Trace.Tokens.Type, advantage: number) =>
  Datum.make({
    modelInput: Int32Array.from(ids.slice(0, -1)),
    lossFnInputs: {
      target_tokens: Int32Array.from(ids.slice(1)),
      logprobs: Float32Array.from(logprobs.slice(1)),
      advantages: Float32Array.from(sampled.slice(1), (one) => one * advantage)
    }
  })

// =============================================================================
// replay
// =============================================================================

/**
 * Questions that were really asked, as problems for reinforcement learning and evaluation: the prompts of the traces, and a reward for
 * the answer. For agents with tools and simulated users, make an `Agent` of {@link Trace.opening} instead.
 *
 * @since 0.2.0
 * @category constructors
 */
export const replay = <ED, RD, E = never, R = never>(
  traces: Dataset.Dataset<Trace.Trace, ED, RD>,
  options: {
    readonly reward: (trace: Trace.Trace, answer: string) => number | boolean | Effect.Effect<number | boolean, E, R>
  }
): Dataset.Dataset<Environment.Group<E | RenderFailed | ChatTemplateFailed, R>, ED, RD> =>
  Environment.problems(Dataset.filter(traces, (trace) => Trace.opening(trace).length > 0, "nothing was asked"), {
    question: (trace) => Trace.opening(trace),
    reward: options.reward,
    tags: ({ tags = [] }) => tags
  })

// =============================================================================
// rows of files
// =============================================================================

const encodeMessages = Schema.encodeSync(Schema.Array(Example.MessageFromJson))

/**
 * A conversation as a row of a file: `tinker train sft` reads it.
 *
 * @since 0.2.0
 * @category combinators
 */
export const chatRow = ({ messages, tools }: Example.Conversation) => ({
  messages: encodeMessages(messages),
  ...tools === undefined ? {} : { tools }
})

/**
 * A preference as a row of a file: `tinker train dpo` reads it.
 *
 * @since 0.2.0
 * @category combinators
 */
export const preferenceRow = ({ chosen, prompt, rejected, tools }: Example.Preference) => ({
  prompt: encodeMessages(prompt),
  chosen: encodeMessages(chosen),
  rejected: encodeMessages(rejected),
  ...tools === undefined ? {} : { tools }
})

/**
 * A question and its answer as a row of a file: `tinker eval --on FILE --scorer MODULE` reads it.
 *
 * @since 0.2.0
 * @category combinators
 */
export const promptRow = (trace: Trace.Trace) => {
  const opening = Trace.opening(trace)
  return {
    messages: encodeMessages([...opening, Message.assistant(Trace.answer(trace))]),
    id: trace.id,
    session: trace.session,
    worth: Trace.worth(trace) ?? null
  }
}
