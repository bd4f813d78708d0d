/**
 * An HTTP gateway that records: agents speak OpenAI's API or Anthropic's to it, whole or streamed, and every token they
 * sample becomes training data. Chat completions, completions, responses, messages with their tokens counted, and models.
 *
 * A rollout is named by the path (`/rollouts/ID/v1/…`), the header `x-rollout-id`, or `metadata.rollout_id`. Requests that
 * name none belong to the rollout of their opening messages, so that a conversation is continued anyhow.
 *
 * The gateway's key is the trainer's and opens everything. The key of a rollout, given out when the rollout is created, is
 * the agent's: it samples for that rollout and nothing else. Rewards and records need the gateway's. `/sessions` are the
 * same rollouts under the addresses, and in the records, of rLLM's gateway client.
 *
 * @since 0.1.0
 */
import * as RunConfig from "@effect-tinker/cookbook/RunConfig"
import * as Entropy from "@effect-tinker/platform/Entropy"
import type * as OpenAiWire from "@effect-tinker/platform/OpenAiWire"
import * as Message from "@effect-tinker/tokenizer/Message"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpIncomingMessage from "@effect/platform/HttpIncomingMessage"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import type * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Encoding from "effect/Encoding"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as AgentModel from "./AgentModel.js"
import * as anthropic from "./internal/anthropic/messages.js"
import * as chat from "./internal/openai/chat.js"
import type { Refused } from "./internal/openai/common.js"
import { broken, busy, decoder, fromModelError, invalid, refuse, sse, unsupported } from "./internal/openai/common.js"
import * as completions from "./internal/openai/completions.js"
import * as responses from "./internal/openai/responses.js"
import * as tally from "./internal/tally.js"
import * as Recorder from "./Recorder.js"

// =============================================================================
// models
// =============================================================================

/**
 * Whom the gateway serves, and how much at once.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  /** The name of the model in listings. Requests may name any model: agents keep the one they were written with. */
  readonly model: string
  /** Key that callers send as a bearer token or as `x-api-key`. `undefined` lets in everybody who reaches the port. */
  readonly apiKey: Redacted.Redacted | undefined
  /** Largest request body; larger ones are refused with 413. Defaults to 8 MiB. */
  readonly maxBodyBytes?: number | undefined
  /** Calls at once; further ones are refused with 429. Defaults to 1024. */
  readonly maxConcurrent?: number | undefined
  /**
   * Is given the report of a rollout when the rollout is rewarded or released; those that never were are given at the end
   * of a gateway that `NodeGateway` serves. Defaults to a line of the log.
   */
  readonly onRollout?: ((report: Report) => Effect.Effect<void>) | undefined
}

/**
 * Counts of a rollout's calls by kind; those that neither continue nor fork start a conversation.
 *
 * @since 0.2.0
 * @category models
 */
export interface Report {
  /** `undefined` for the sum of several rollouts: at the end, those beyond the first 20. */
  readonly rollout: string | undefined
  /** Rollouts it is about. */
  readonly rollouts: number
  /** Calls that were answered since the last report of the rollout. */
  readonly calls: number
  /** Calls whose prompt begins with the exact ids of an earlier one. */
  readonly continued: number
  /** Calls that start a new row although they have a history, by reason, with what the first one of each says. */
  readonly forked: ReadonlyArray<{ readonly reason: string; readonly count: number; readonly first: string }>
}

const counted = (count: number, noun: string) => `${count} ${noun}${count === 1 ? "" : "s"}`

/**
 * A report as a line.
 *
 * @since 0.2.0
 * @category combinators
 */
export const reportLine = ({ calls, continued, forked, rollout, rollouts }: Report): string => {
  const forks = forked.reduce((sum, { count }) => sum + count, 0)
  const why = forked.map(({ count, first, reason }) => `${count} ${reason}: ${first}`).join("; ")
  const name = rollout === undefined ? counted(rollouts, "further rollout") : `rollout ${rollout}`
  return `${name}: ${counted(calls, "call")}, ${continued} continued, ${forks} forked` +
    (forks === 0 ? "" : ` (${why})`)
}

const encoder = new TextEncoder()

/**
 * The key that samples for one rollout: its name and a keyed hash of it, so that the gateway keeps no list of them.
 *
 * @since 0.1.0
 * @category constructors
 */
export const rolloutKey = (apiKey: Redacted.Redacted, rollout: string): Effect.Effect<Redacted.Redacted> =>
  Effect.promise(async () => {
    const { subtle } = globalThis.crypto
    const secret = encoder.encode(Redacted.value(apiKey))
    const key = await subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"])
    const digest = new Uint8Array(await subtle.sign("HMAC", key, encoder.encode(`rollout:${rollout}`)))
    const signature = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("")
    return Redacted.make(`rk-${rollout}.${signature}`)
  })

/** Takes as long for any two texts of the same length. */
const sameSecret = (left: string, right: string): boolean => {
  if (left.length !== right.length) return false
  let difference = 0
  for (let i = 0; i < left.length; i++) difference |= left.charCodeAt(i) ^ right.charCodeAt(i)
  return difference === 0
}

/** A bearer token, or the password of an address such as `http://key:TOKEN@127.0.0.1:8080`. */
const tokenOf = (authorization: string): string => {
  const [, scheme = "", value = ""] = /^(bearer|basic) +(\S+)$/i.exec(authorization) ?? []
  if (scheme.toLowerCase() !== "basic") return value
  const text = Either.getOrElse(Encoding.decodeBase64String(value), () => "")
  return text.slice(text.indexOf(":") + 1)
}

const rolloutPattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/

const CreateSession = Schema.Struct({ session_id: Schema.optional(Schema.NullOr(Schema.String)) })
const decodeSession = decoder(CreateSession)

const decodeReward = decoder(Schema.Struct({
  reward: Schema.JsonNumber,
  metrics: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.JsonNumber }), { default: () => ({}) })
}))

/**
 * A recorded call as a record that rLLM's gateway client reads.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toTrace = (call: Recorder.Call, model: string): Readonly<Record<string, unknown>> => ({
  trace_id: `${call.rollout}.${call.id}`,
  session_id: call.rollout,
  model,
  messages: call.turn.messages.map(Message.toTemplate),
  prompt_token_ids: Array.from(call.turn.prompt),
  response_message: Message.toTemplate(call.message),
  completion_token_ids: Array.from(call.turn.completion),
  logprobs: Array.from(call.logprobs),
  finish_reason: (call.message.toolCalls ?? []).length > 0 ? "tool_calls" : call.stopReason,
  latency_ms: call.endedAt - call.startedAt,
  token_counts: { prompt: call.turn.prompt.length, completion: call.turn.completion.length },
  timestamp: call.endedAt / 1000,
  metadata: {
    policy_version: call.policyVersion,
    tools_hash: call.toolsHash,
    origin: call.origin,
    ...(call.rejected === undefined ? {} : { rejected: call.rejected })
  }
})

// =============================================================================
// app
// =============================================================================

/** Whose key a route needs: `agent` is any key, `trainer` the gateway's own. */
type Who = "anyone" | "agent" | "trainer"

/** A route, and who may call it. @internal */
export interface Access {
  readonly method: "GET" | "POST" | "DELETE"
  readonly path: `/${string}`
  readonly who: Who
}

const route = (
  who: Who,
  method: Access["method"],
  path: Access["path"],
  handler: Effect.Effect<
    HttpServerResponse.HttpServerResponse,
    Refused,
    HttpServerRequest.HttpServerRequest | HttpServerRequest.ParsedSearchParams | HttpRouter.RouteContext
  >,
  /** A refusal as the clients of the route read it. */
  refusal: (refused: Refused) => HttpServerResponse.HttpServerResponse = refuse
) => ({ who, method, path, handler, refusal })

/** The gateway, and its routes: a test asks each of them as each caller. @internal */
export const makeWithRoutes: (
  options: Options
) => Effect.Effect<
  {
    readonly app: HttpApp.Default
    readonly routes: ReadonlyArray<Access>
    /** Reports the rollouts that were neither rewarded nor released. */
    readonly reportRest: Effect.Effect<void>
  },
  never,
  AgentModel.AgentModel | Recorder.Recorder
> = Effect.fnUntraced(
  function*(options) {
    const model = yield* AgentModel.AgentModel
    const recorder = yield* Recorder.Recorder
    const { apiKey, maxBodyBytes = 8 * 1024 * 1024, maxConcurrent = 1024 } = options
    const onRollout = options.onRollout ?? ((report: Report) => Effect.logInfo(reportLine(report)))
    const counts = tally.make()
    let inFlight = 0

    const report = (found: Report | undefined) => found === undefined ? Effect.void : onRollout(found)

    /** The one rollout the caller's key opens; `undefined` for all. */
    const caller = Effect.gen(function*() {
      if (apiKey === undefined) return undefined
      const { headers } = yield* HttpServerRequest.HttpServerRequest
      const token = headers["authorization"] === undefined
        ? headers["x-api-key"] ?? ""
        : tokenOf(headers["authorization"])
      if (sameSecret(token, Redacted.value(apiKey))) return undefined
      const rollout = /^rk-(\S+)\.[0-9a-f]{64}$/.exec(token)?.[1]
      if (rollout !== undefined && sameSecret(token, Redacted.value(yield* rolloutKey(apiKey, rollout)))) return rollout
      return yield* invalid(
        token === "" ? "send the gateway's key as a bearer token" : "the key is wrong",
        { status: 401, code: "invalid_api_key" }
      )
    })

    /** Who calls, and the rollout of the address, the header or the key; a body may name one too. */
    const named = Effect.gen(function*() {
      const own = yield* caller
      const { headers } = yield* HttpServerRequest.HttpServerRequest
      const params = yield* HttpRouter.params
      const name = params["rollout"] ?? headers["x-rollout-id"]
      return { own, rollout: name === undefined ? own : yield* allowed(own, name) }
    })

    /** The rollout a call belongs to, by what its body says of it. */
    const rolloutOf = (
      { own, rollout }: Effect.Effect.Success<typeof named>,
      metadata: Readonly<Record<string, unknown>> | null | undefined,
      opening: () => unknown
    ): Effect.Effect<string, Refused> => {
      const name = metadata?.["rollout_id"]
      if (rollout !== undefined) return Effect.succeed(rollout)
      return name === undefined
        ? Effect.map(RunConfig.hash(opening()), (hash) => `anonymous-${hash.slice(0, 24)}`)
        : allowed(own, String(name))
    }

    /** Routes for the gateway's own key: an agent must not set its reward, or touch its recording. */
    const trainer = Effect.flatMap(
      caller,
      (own) => own === undefined ? Effect.void : forbidden("this key can sample, and nothing else: send the gateway's")
    )

    /** The rollout that a path names. */
    const addressed = Effect.flatMap(HttpRouter.params, ({ rollout = "" }) => allowed(undefined, rollout))

    const bodyText = Effect.gen(function*() {
      const request = yield* HttpServerRequest.HttpServerRequest
      const tooLarge = () =>
        invalid(`the body has more than ${maxBodyBytes} bytes`, { status: 413, code: "body_too_large" })
      if (Number(request.headers["content-length"] ?? 0) > maxBodyBytes) return yield* tooLarge()
      return yield* request.text.pipe(
        HttpIncomingMessage.withMaxBodySize(Option.some(maxBodyBytes)),
        Effect.mapError(tooLarge)
      )
    })

    const limited = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | Refused, R> =>
      Effect.suspend((): Effect.Effect<A, E | Refused, R> => {
        if (inFlight >= maxConcurrent) return busy(`${inFlight} calls are in flight already`, "too_many_calls")
        inFlight++
        return Effect.ensuring(effect, Effect.sync(() => inFlight--))
      })

    const head = (prefix: string, requested: string | null | undefined, reply: AgentModel.Reply) =>
      Effect.map(Clock.currentTimeMillis, (now): OpenAiWire.Head => ({
        id: `${prefix}-${reply.callId}`,
        created: Math.floor(now / 1000),
        model: requested ?? options.model
      }))

    const tagged = (
      replies: Arr.NonEmptyReadonlyArray<AgentModel.Reply>,
      response: HttpServerResponse.HttpServerResponse
    ) => {
      const [reply] = replies
      return Effect.as(
        Effect.forEach(replies, (one) => Effect.suspend(() => report(counts.add(one))), { discard: true }),
        HttpServerResponse.setHeaders(response, {
          "x-rollout-id": reply.rollout,
          "x-call-id": reply.callId,
          "x-policy-version": String(reply.policyVersion)
        })
      )
    }

    const chatCompletions = Effect.gen(function*() {
      const call = yield* named
      const request = yield* chat.decode(yield* bodyText)
      const rollout = yield* rolloutOf(call, request.metadata, () => openingOf(request.messages))
      const asked = yield* chat.toRequest(request, rollout)
      const replies = yield* Effect.mapError(model.generateMany(asked, request.n ?? 1), fromModelError)
      const [first] = replies
      const id = yield* head("chatcmpl", request.model, first)
      return yield* tagged(
        replies,
        request.stream === true
          ? sse(chat.chunks(id, request, model.renderer, replies))
          : HttpServerResponse.unsafeJson(chat.whole(id, request, model.renderer, replies))
      )
    })

    const textCompletions = Effect.gen(function*() {
      const call = yield* named
      const request = yield* completions.decode(yield* bodyText)
      const rollout = yield* rolloutOf(call, request.metadata, () => request.prompt)
      const asked = yield* completions.toRequest(request, rollout)
      const replies = yield* Effect.mapError(model.complete(asked, request.n ?? 1), fromModelError)
      const [first] = replies
      const id = yield* head("cmpl", request.model, first)
      return yield* tagged(
        replies,
        request.stream === true
          ? sse(completions.chunks(id, request, model.renderer, replies))
          : HttpServerResponse.unsafeJson(completions.whole(id, request, model.renderer, replies))
      )
    })

    const createResponse = Effect.gen(function*() {
      const call = yield* named
      const request = yield* responses.decode(yield* bodyText)
      const rollout = yield* rolloutOf(call, request.metadata, () => responses.openingOf(request))
      const { calls } = responses.hasReferences(request)
        ? yield* Effect.mapError(recorder.rollout(rollout), fromModelError)
        : { calls: [] }
      const asked = yield* responses.toRequest(request, rollout, calls)
      const reply = yield* Effect.mapError(model.generate(asked), fromModelError)
      const id = yield* head("resp", request.model, reply)
      return yield* tagged(
        [reply],
        request.stream === true
          ? sse(responses.events(id, request, reply))
          : HttpServerResponse.unsafeJson(responses.whole(id, request, reply))
      )
    })

    const messageRequest = Effect.gen(function*() {
      const call = yield* named
      const request = yield* anthropic.decode(yield* bodyText)
      const rollout = yield* rolloutOf(call, request.metadata, () => anthropic.openingOf(request))
      return { request, asked: yield* anthropic.toRequest(request, rollout) }
    })

    const createMessage = Effect.gen(function*() {
      const { asked, request } = yield* messageRequest
      const reply = yield* Effect.mapError(model.generate(asked), fromModelError)
      const id = { ...yield* head("msg", request.model, reply), id: `msg_${reply.callId}` }
      return yield* tagged(
        [reply],
        request.stream === true
          ? sse(anthropic.events(id, reply))
          : HttpServerResponse.unsafeJson(anthropic.whole(id, reply))
      )
    })

    const countTokens = Effect.gen(function*() {
      const { asked } = yield* messageRequest
      const input_tokens = yield* Effect.mapError(model.countTokens(asked), fromModelError)
      return HttpServerResponse.unsafeJson({ input_tokens })
    })

    // Both APIs list models under this address: each client reads the fields it knows.
    const models = Effect.gen(function*() {
      const { model: id } = options
      const self = { id, object: "model", created: 0, owned_by: "effect-tinker" }
      const anthropics = { type: "model", display_name: id, created_at: "1970-01-01T00:00:00Z" }
      return HttpServerResponse.unsafeJson({
        object: "list",
        data: [{ ...self, ...anthropics }],
        has_more: false,
        first_id: id,
        last_id: id
      })
    })

    // -------------------------------------------------------------------------
    // rollouts
    // -------------------------------------------------------------------------

    const createRollout = Effect.gen(function*() {
      const { session_id } = yield* decodeSession((yield* bodyText) || "{}")
      const rollout = session_id ?? `rollout-${yield* Entropy.hex(8)}`
      yield* allowed(undefined, rollout)
      const key = apiKey === undefined ? undefined : Redacted.value(yield* rolloutKey(apiKey, rollout))
      return HttpServerResponse.unsafeJson({ session_id: rollout, url: `/rollouts/${rollout}/v1`, api_key: key })
    })

    const rollouts = Effect.gen(function*() {
      const { limit, since } = yield* range
      if (since !== undefined) return yield* unsupported("since", "rollouts are listed from the first one on")
      const ids = (yield* recorder.rollouts).slice(0, limit)
      return HttpServerResponse.unsafeJson(ids.map((session_id) => ({ session_id })))
    })

    const recorded = Effect.gen(function*() {
      const rollout = yield* addressed
      return yield* Effect.mapError(recorder.rollout(rollout), fromModelError)
    })

    const oneRollout = Effect.map(recorded, ({ calls, rollout, score }) =>
      HttpServerResponse.unsafeJson({
        session_id: rollout,
        trace_count: calls.length,
        created_at: calls[0] === undefined ? null : calls[0].startedAt / 1000,
        metadata: { ...Recorder.summarize(calls), reward: Option.getOrNull(Option.map(score, ({ reward }) => reward)) }
      }))

    const traces = Effect.gen(function*() {
      const { calls } = yield* recorded
      const { limit, since = 0 } = yield* range
      const found = calls.filter(({ endedAt }) => endedAt / 1000 >= since).slice(0, limit)
      return HttpServerResponse.unsafeJson(found.map((call) => toTrace(call, options.model)))
    })

    const oneTrace = Effect.gen(function*() {
      const name = (yield* HttpRouter.params)["trace"] ?? ""
      const end = name.lastIndexOf(".")
      const rollout = yield* allowed(undefined, name.slice(0, end))
      const { calls } = yield* Effect.mapError(recorder.rollout(rollout), fromModelError)
      const call = calls.find(({ id }) => id === name.slice(end + 1))
      if (call === undefined) return yield* invalid(`there is no trace ${name}`, { status: 404 })
      return HttpServerResponse.unsafeJson(toTrace(call, options.model))
    })

    // A call is recorded before its answer is given: there is never anything left to write.
    const flush = Effect.succeed(HttpServerResponse.unsafeJson({ status: "flushed" }))

    const releaseRollout = Effect.gen(function*() {
      const rollout = yield* addressed
      const { calls } = yield* Effect.mapError(recorder.release(rollout), fromModelError)
      yield* report(counts.take(rollout))
      return HttpServerResponse.unsafeJson({ deleted: calls.length })
    })

    const rewardRollout = Effect.gen(function*() {
      const rollout = yield* addressed
      const { metrics, reward } = yield* decodeReward(yield* bodyText)
      yield* Effect.mapError(recorder.score(rollout, reward, metrics), fromModelError)
      yield* report(counts.take(rollout))
      return HttpServerResponse.unsafeJson({ session_id: rollout, reward })
    })

    const health = Effect.succeed(HttpServerResponse.unsafeJson({ status: "ok" }))

    const calls = ["", "/rollouts/:rollout", "/sessions/:rollout"].flatMap((prefix) => [
      route("agent", "POST", path(prefix, "/v1/chat/completions"), limited(chatCompletions)),
      route("agent", "POST", path(prefix, "/v1/completions"), limited(textCompletions)),
      route("agent", "POST", path(prefix, "/v1/responses"), limited(createResponse)),
      route("agent", "POST", path(prefix, "/v1/messages"), limited(createMessage), anthropic.refuse),
      route("agent", "POST", path(prefix, "/v1/messages/count_tokens"), limited(countTokens), anthropic.refuse),
      route("agent", "GET", path(prefix, "/v1/models"), models)
    ])
    const records = ["/rollouts", "/sessions"].flatMap((prefix) => [
      route("trainer", "POST", path(prefix, ""), createRollout),
      route("trainer", "GET", path(prefix, ""), rollouts),
      route("trainer", "GET", path(prefix, "/:rollout"), oneRollout),
      route("trainer", "DELETE", path(prefix, "/:rollout"), releaseRollout),
      route("trainer", "GET", path(prefix, "/:rollout/traces"), traces),
      route("trainer", "POST", path(prefix, "/:rollout/reward"), rewardRollout)
    ])
    const routes = [
      ...calls,
      ...records,
      route("trainer", "GET", "/traces/:trace", oneTrace),
      route("trainer", "POST", "/admin/flush", flush),
      route("anyone", "GET", "/health", health)
    ]
    const checks: Readonly<Record<Who, Effect.Effect<unknown, Refused, HttpServerRequest.HttpServerRequest>>> = {
      anyone: Effect.void,
      agent: caller,
      trainer
    }
    // Who may call a route is looked at before its handler, so no handler reads a body of somebody else.
    const router = HttpRouter.fromIterable(
      routes.map(({ handler, method, path, refusal, who }) =>
        HttpRouter.makeRoute(
          method,
          path,
          Effect.flatMap(checks[who], () => handler).pipe(
            Effect.catchTags({ Refused: (refused) => Effect.succeed(refusal(refused)) })
          )
        )
      )
    )

    const app = router.pipe(
      Effect.catchTags({
        RouteNotFound: ({ request }) =>
          Effect.succeed(refuse(invalid(`there is no ${request.method} ${request.url}`, { status: 404 })))
      }),
      Effect.catchAllDefect((defect) =>
        Effect.as(Effect.logError("the gateway failed", defect), refuse(broken(500, "the gateway failed", "internal")))
      ),
      // The platform runs handlers uninterruptibly. Interruptible, a client that disconnects interrupts its sample.
      Effect.interruptible
    )
    return {
      app,
      routes: routes.map(({ method, path, who }): Access => ({ method, path, who })),
      reportRest: Effect.suspend(() => Effect.forEach(counts.rest(), onRollout, { discard: true }))
    }
  }
)

/**
 * The gateway as an `HttpApp`, over the model and the recorder in the context. `NodeGateway` puts it behind a port.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: Options
): Effect.Effect<HttpApp.Default, never, AgentModel.AgentModel | Recorder.Recorder> =>
  Effect.map(makeWithRoutes(options), ({ app }) => app)

/** How many records to give, and from what time on, in seconds since the epoch. */
const range = Effect.flatMap(
  HttpServerRequest.ParsedSearchParams,
  ({ limit, since }) => Effect.all({ limit: numberOf("limit", limit), since: numberOf("since", since) })
)

const numberOf = (
  name: string,
  value: string | ReadonlyArray<string> | undefined
): Effect.Effect<number | undefined, Refused> =>
  value === undefined || value === ""
    ? Effect.succeed(undefined)
    : Number(value) >= 0
    ? Effect.succeed(Number(value))
    : invalid(`${name} must be a non-negative number`, { param: name })

const forbidden = (message: string): Refused => invalid(message, { status: 403, code: "forbidden_rollout" })

/** A rollout's name, when it is one and the caller's key opens it. */
const allowed = (own: string | undefined, rollout: string): Effect.Effect<string, Refused> =>
  !rolloutPattern.test(rollout)
    ? invalid("rollout ids are up to 128 letters, digits and . _ : -", { code: "invalid_rollout_id" })
    : own === undefined || own === rollout
    ? Effect.succeed(rollout)
    : forbidden("this key does not open this rollout")

const path = (prefix: string, rest: string): `/${string}` => `/${`${prefix}${rest}`.slice(1)}`

/** Messages before the first answer: they stay the same while a conversation goes on. */
const openingOf = (messages: ReadonlyArray<{ readonly role: string }>): unknown => {
  const end = messages.findIndex(({ role }) => role === "assistant")
  return end < 0 ? messages : messages.slice(0, end)
}
