/**
 * Environments behind an OpenEnv server (`openenv` 0.10, and `openenv-core` before it): what it observes becomes messages, what the policy answers becomes
 * actions, and the trainers and evaluators of the cookbook take it like any other environment.
 *
 * A session is a WebSocket with its own environment instance on the server. The server's HTTP endpoints make a new
 * instance for every request, so an episode cannot be played over them.
 *
 * Needs a `Socket.WebSocketConstructor`: `NodeSocket.layerWebSocketConstructor` on Node.
 *
 * @since 0.1.0
 */
import * as Environment from "@effect-tinker/cookbook/Environment"
import * as Permits from "@effect-tinker/platform/Permits"
import type * as Message from "@effect-tinker/tokenizer/Message"
import type { ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import * as Socket from "@effect/platform/Socket"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Mailbox from "effect/Mailbox"
import type * as Option from "effect/Option"
import type * as ParseResult from "effect/ParseResult"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"

// =============================================================================
// models
// =============================================================================

/**
 * JSON objects: for actions and observations that need no schema.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Json = Schema.Record({ key: Schema.String, value: Schema.Unknown })

/**
 * A JSON object.
 *
 * @since 0.1.0
 * @category models
 */
export type Json = typeof Json.Type

/**
 * Answer of the server to a reset or a step.
 *
 * @since 0.1.0
 * @category models
 */
export interface StepResult<out Observation> {
  readonly observation: Observation
  /** 0 where the environment gives none. */
  readonly reward: number
  readonly done: boolean
}

/**
 * The server could not be reached, refused a message, or answered with something else.
 *
 * - `Unreachable`: the connection could not be opened.
 * - `Closed`: the connection ended, or an earlier message was abandoned before its answer came.
 * - `TimedOut`: no answer in time.
 * - `Refused`: the server answered with an error; `code` is the server's.
 * - `Malformed`: the action or the answer does not match its schema.
 *
 * @since 0.1.0
 * @category errors
 */
export class OpenEnvError extends Schema.TaggedError<OpenEnvError>("@effect-tinker/agents/OpenEnv/OpenEnvError")(
  "OpenEnvError",
  {
    url: Schema.String,
    method: Schema.Literal("connect", "reset", "step", "state"),
    reason: Schema.Literal("Unreachable", "Closed", "TimedOut", "Refused", "Malformed"),
    code: Schema.optional(Schema.String),
    description: Schema.String
  }
) {
  /** Whether a new session may succeed. */
  get isRetryable(): boolean {
    return this.reason === "Refused" ? this.code === "CAPACITY_REACHED" : this.reason !== "Malformed"
  }
  override get message(): string {
    return `${this.method} of ${this.url}: ${this.description}`
  }
}

/**
 * Where the server is, and what its environment takes and gives.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options<Action, Observation, ActionJson, ObservationJson> {
  /** The address of the server: `http://127.0.0.1:8000`, or the same with `ws`. */
  readonly url: string
  readonly action: Schema.Schema<Action, ActionJson>
  readonly observation: Schema.Schema<Observation, ObservationJson>
  /** How long a connection may take to open. Defaults to 10 seconds. */
  readonly openTimeout?: Duration.DurationInput | undefined
  /** How long the server may take to answer a message. Defaults to 1 minute. */
  readonly timeout?: Duration.DurationInput | undefined
  /** Longest answer, in characters. Defaults to 16 million. */
  readonly maxMessageLength?: number | undefined
}

/**
 * An environment instance on the server. One message is in flight at a time.
 *
 * @since 0.1.0
 * @category models
 */
export interface Session<in Action, out Observation> {
  /** Starts an episode. Servers know `seed` and `episode_id`; environments may take further parameters. */
  readonly reset: (parameters?: Json) => Effect.Effect<StepResult<Observation>, OpenEnvError>
  readonly step: (action: Action) => Effect.Effect<StepResult<Observation>, OpenEnvError>
  readonly state: Effect.Effect<Json, OpenEnvError>
}

// =============================================================================
// sessions
// =============================================================================

const Answer = Schema.parseJson(Schema.Union(
  Schema.Struct({
    type: Schema.Literal("error"),
    data: Schema.Struct({
      message: Schema.optionalWith(Schema.String, { default: () => "unknown error" }),
      code: Schema.optionalWith(Schema.String, { default: () => "UNKNOWN" }),
      errors: Schema.optional(Schema.Unknown)
    })
  }),
  Schema.Struct({ type: Schema.Literal("observation", "state"), data: Json })
))
const decodeAnswer = Schema.decode(Answer)

const resultOf = <Observation, ObservationJson>(observation: Schema.Schema<Observation, ObservationJson>) =>
  Schema.decodeUnknown(Schema.Struct({
    observation,
    reward: Schema.optionalWith(Schema.Union(Schema.Number, Schema.Boolean), { nullable: true }),
    done: Schema.optionalWith(Schema.Boolean, { default: () => false })
  }))

const socketUrl = (url: string): string => `${url.replace(/\/+$/, "").replace(/^http/i, "ws")}/ws`

/**
 * Opens a session until the scope closes.
 *
 * @since 0.1.0
 * @category constructors
 */
export const connect = <Action, Observation, ActionJson, ObservationJson>(
  options: Options<Action, Observation, ActionJson, ObservationJson>
): Effect.Effect<Session<Action, Observation>, OpenEnvError, Scope.Scope | Socket.WebSocketConstructor> =>
  Effect.gen(function*() {
    const { maxMessageLength = 16_000_000, openTimeout = "10 seconds", timeout = "1 minute", url } = options
    const failure = (
      method: OpenEnvError["method"],
      reason: OpenEnvError["reason"],
      description: string,
      code?: string
    ) => new OpenEnvError({ url, method, reason, description, code })

    const answers = yield* Mailbox.make<string>(1)
    const opened = yield* Deferred.make<void, OpenEnvError>()
    const construct = yield* Socket.WebSocketConstructor
    // Its fiber may be scheduled between the connection and the listener: on Node 20 an error that nobody listens for ends
    // the process.
    const listening = Effect.provideService(Socket.WebSocketConstructor, (url, protocols) => {
      const webSocket = construct(url, protocols)
      webSocket.addEventListener("error", () => undefined)
      return webSocket
    })
    const socket = yield* listening(
      Socket.makeWebSocket(socketUrl(url), { openTimeout, closeCodeIsError: () => true })
    )
    const write = yield* socket.writer
    let ended = false
    let abandoned = false
    yield* socket.runRaw((data) => {
      const text = typeof data === "string" ? data : new TextDecoder().decode(data)
      // each message has one answer: what comes on top of it is dropped
      answers.unsafeOffer(text.length > maxMessageLength ? "" : text)
    }, { onOpen: Effect.asVoid(Deferred.succeed(opened, undefined)) }).pipe(
      listening,
      Effect.match({ onFailure: ({ message }) => message, onSuccess: () => "the connection was closed" }),
      Effect.flatMap((description) => {
        ended = true
        return Effect.zipRight(Deferred.fail(opened, failure("connect", "Unreachable", description)), answers.end)
      }),
      Effect.forkScoped
    )
    yield* Deferred.await(opened)
    // The server ends the connection when it is asked to; a connection that just ends is an error in its log.
    yield* Effect.addFinalizer(() =>
      ended ? Effect.void : write(JSON.stringify({ type: "close" })).pipe(
        Effect.zipRight(answers.await),
        // finalizers are uninterruptible, and a timeout cannot end an uninterruptible effect
        Effect.interruptible,
        Effect.timeout("1 second"),
        Effect.ignore
      )
    )

    const turn = yield* Permits.make(1)
    const ask = <A>(
      method: "reset" | "step" | "state",
      message: object,
      decode: (data: Json) => Effect.Effect<A, ParseResult.ParseError>
    ): Effect.Effect<A, OpenEnvError> =>
      turn.withPermits(1)(Effect.gen(function*() {
        // An answer that comes after it was given up would be taken for the next one.
        if (abandoned) {
          return yield* failure(method, "Closed", "an earlier message was abandoned before its answer came")
        }
        const abandon = Effect.sync(() => abandoned = true)
        const text = yield* Effect.zipRight(
          // what the server wrote before it closed the connection says why it did
          ended ? Effect.void : Effect.raceFirst(write(JSON.stringify(message)), answers.await),
          answers.take
        ).pipe(
          Effect.mapError(() => failure(method, "Closed", "the connection was closed")),
          Effect.timeoutFail({
            duration: timeout,
            onTimeout: () => failure(method, "TimedOut", "the server did not answer in time")
          }),
          Effect.tapError(({ reason }) => reason === "TimedOut" ? abandon : Effect.void),
          Effect.onInterrupt(() => abandon)
        )
        if (text === "") {
          return yield* failure(method, "Malformed", `the answer has more than ${maxMessageLength} characters`)
        }
        const malformed = (error: ParseResult.ParseError) => failure(method, "Malformed", error.message)
        const answer = yield* Effect.mapError(decodeAnswer(text), malformed)
        if (answer.type === "error") {
          const { code, errors, message } = answer.data
          const details = errors === undefined ? "" : `: ${JSON.stringify(errors).slice(0, 1000)}`
          return yield* failure(method, "Refused", `${message}${details}`, code)
        }
        if (answer.type !== (method === "state" ? "state" : "observation")) {
          return yield* failure(method, "Malformed", `the answer is of type ${answer.type}`)
        }
        return yield* Effect.mapError(decode(answer.data), malformed)
      }))

    const decodeResult = resultOf(options.observation)
    const decode = (data: Json) =>
      Effect.map(decodeResult(data), ({ done, observation, reward = 0 }) => ({
        observation,
        reward: Number(reward),
        done
      }))
    const encode = Schema.encode(options.action)
    const session: Session<Action, Observation> = {
      reset: (parameters = {}) => ask("reset", { type: "reset", data: parameters }, decode),
      step: (action) =>
        Effect.flatMap(
          Effect.mapError(encode(action), (error) => failure("step", "Malformed", error.message)),
          (data) => ask("step", { type: "step", data }, decode)
        ),
      state: ask("state", { type: "state" }, Effect.succeed)
    }
    return session
  })

// =============================================================================
// environments
// =============================================================================

/**
 * An episode of the environment as a conversation.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface GroupOptions<Action, Observation, ActionJson, ObservationJson>
  extends Options<Action, Observation, ActionJson, ObservationJson>
{
  /** Settings of every reset of the group, such as a `seed`. Defaults to nothing. */
  readonly reset?: Json | undefined
  /** The messages an episode starts with, by its first observation. */
  readonly start: (observation: Observation) => ReadonlyArray<Message.Message>
  /** Action of the policy's message; `None` when it has none. */
  readonly act: (message: Message.Message) => Option.Option<Action>
  /** Observation after a step that does not end the episode. */
  readonly observe: (result: StepResult<Observation>) => string | ReadonlyArray<Message.Message>
  /**
   * Outcome of a message that is no action, or that the server refuses as one. Defaults to the end of the episode with
   * a reward of 0.
   */
  readonly onRefused?: ((reason: string) => Environment.Reply) | undefined
  /** How long to wait for a free session when the server has no more of them. Defaults to 5 minutes. */
  readonly capacityTimeout?: Duration.DurationInput | undefined
  /** Metrics are also given for each tag. */
  readonly tags?: ReadonlyArray<string> | undefined
}

/** Codes that are about the action, not about the session. */
const isRefusedAction = ({ code, reason }: OpenEnvError): boolean =>
  reason === "Refused" && (code === "VALIDATION_ERROR" || code === "EXECUTION_ERROR")

const endRefused = (): Environment.Reply => Environment.done(0, { reason: "parse_error", metrics: { refused: 1 } })

/**
 * A problem whose episodes are played on the server, each in its own session.
 *
 * @example
 * ```ts
 * import { OpenEnv } from "@effect-tinker/agents"
 * import { Message } from "@effect-tinker/tokenizer"
 * import { Option, Schema } from "effect"
 *
 * const guessing = (seed: number) =>
 *   OpenEnv.group({
 *     url: "http://127.0.0.1:8000",
 *     action: Schema.Struct({ guess: Schema.Number }),
 *     observation: Schema.Struct({ hint: Schema.String }),
 *     reset: { seed },
 *     start: ({ hint }) => [Message.user(hint)],
 *     act: (message) => Option.map(Option.fromNullable(/\d+/.exec(Message.text(message))), ([n]) => ({ guess: Number(n) })),
 *     observe: ({ observation }) => observation.hint
 *   })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const group = <Action, Observation, ActionJson, ObservationJson>(
  options: GroupOptions<Action, Observation, ActionJson, ObservationJson>
): Environment.Group<OpenEnvError | RenderFailed | ChatTemplateFailed, Socket.WebSocketConstructor> => {
  const onRefused = options.onRefused ?? endRefused
  /** A session and its first observation. What a failed attempt opened is closed before the next one. */
  const start = Effect.gen(function*() {
    const own = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.sequential)
    return yield* connect(options).pipe(
      Effect.flatMap((session) => Effect.map(session.reset(options.reset), (first) => ({ session, first }))),
      Scope.extend(own),
      Effect.onError((cause) => Scope.close(own, Exit.failCause(cause)))
    )
  }).pipe(Effect.retry({
    while: ({ code }) => code === "CAPACITY_REACHED",
    schedule: Schedule.exponential("100 millis").pipe(
      Schedule.union(Schedule.spaced("5 seconds")),
      Schedule.jittered,
      Schedule.upTo(options.capacityTimeout ?? "5 minutes"),
      Schedule.tapOutput(() => Effect.logDebug(`${options.url} has no free session; trying again`))
    )
  }))
  return Environment.group((settings) =>
    Effect.map(start, ({ first, session }) => {
      if (first.done) {
        return {
          initial: Effect.succeed({ _tag: "Done", reason: "completed", reward: first.reward } as const),
          step: () => Effect.dieMessage("the episode was over before it began")
        }
      }
      return Environment.messages({
        start: options.start(first.observation),
        onMessage: (message) =>
          Effect.gen(function*() {
            const action = options.act(message)
            if (action._tag === "None") return onRefused("the message is not an action")
            return yield* session.step(action.value).pipe(
              Effect.map((result) =>
                result.done
                  ? Environment.done(result.reward)
                  : Environment.reply(options.observe(result), { reward: result.reward })
              ),
              Effect.catchIf(isRefusedAction, ({ description }) => Effect.succeed(onRefused(description)))
            )
          })
      }, settings)
    }), { tags: options.tags })
}
