/**
 * Reports to the service about this client, as the official SDK sends them: best effort, and never at a caller's cost.
 *
 * Events wait in a bounded queue that drops the oldest; one fiber in the client's scope sends them in batches, every ten
 * seconds or when a batch is full. A failing server is asked with increasing delays; a server without the endpoint is
 * never asked again.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as DefaultServices from "effect/DefaultServices"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import { globalValue } from "effect/GlobalValue"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as Metrics from "../../Metrics.js"
import * as RetryPolicy from "../../RetryPolicy.js"
import * as TinkerConfig from "../../TinkerConfig.js"
import * as TinkerError from "../../TinkerError.js"
import * as Api from "../../wire/Api.js"
import type { SessionId } from "../../wire/Id.js"
import * as TelemetryEvent from "../../wire/TelemetryEvent.js"
import type * as ApiClient from "../transport/apiClient.js"
import * as Logs from "./logs.js"
import * as TelemetryEvents from "./telemetryEvents.js"

// -----------------------------------------------------------------------------
// The system we run on, as Python's `platform.system()` would name it.
// -----------------------------------------------------------------------------

const names: Readonly<Record<string, string>> = { linux: "Linux", darwin: "Darwin", win32: "Windows" }

const agents: ReadonlyArray<readonly [RegExp, string]> = [
  [/windows/i, "Windows"],
  [/mac os|macintosh|iphone|ipad/i, "Darwin"],
  [/linux|android/i, "Linux"]
]

interface Host {
  readonly process?: { readonly platform?: string }
  readonly navigator?: { readonly userAgent?: string }
}

/**
 * Node, Bun and Deno say it; a browser hints at it.
 *
 * @internal
 */
export const system = ({ navigator, process }: Host = globalThis): string => {
  const platform = process?.platform
  if (platform !== undefined && platform !== "browser") return names[platform] ?? platform
  const agent = navigator?.userAgent ?? ""
  return agents.find(([pattern]) => pattern.test(agent))?.[1] ?? "Unknown"
}

// -----------------------------------------------------------------------------
// Telemetry.
// -----------------------------------------------------------------------------

/** @internal */
export interface Telemetry {
  /** From now on events belong to this session. */
  readonly sessionStarted: (id: SessionId) => void
  readonly sessionEnded: () => void
}

const maxBatch = 100

/** @internal */
export const maxQueue = 10_000

const interval: Duration.Duration = Duration.seconds(10)

/** Longest delay before a failing server is tried again. */
const longestPause = Duration.minutes(5)

/**
 * How long closing a scope may take.
 */
const closeWithin: Duration.Duration = Duration.seconds(1)

interface Pending {
  /** The same for every retry, so the service can recognise a repetition. */
  id: string | undefined
  readonly index: number
  readonly at: number
  readonly content: TelemetryEvents.Content
}

const none: Telemetry = { sessionStarted: () => undefined, sessionEnded: () => undefined }

const from = { module: "Telemetry", method: "send" }

/** Not the program's `Random`: what it draws must not depend on whether telemetry is on. */
const chance = Context.get(DefaultServices.liveServices, Random.Random)

const hex = (n: number, digits: number): string => n.toString(16).padStart(digits, "0")

const uuid: Effect.Effect<string> = Effect.map(
  Effect.all([
    chance.nextIntBetween(0, 2 ** 32),
    chance.nextIntBetween(0, 2 ** 28),
    chance.nextIntBetween(0, 2 ** 30),
    chance.nextIntBetween(0, 2 ** 32)
  ]),
  ([a, b, c, d]) => {
    const second = hex(b, 7)
    const third = hex(c + 2 ** 31, 8)
    return `${hex(a, 8)}-${second.slice(0, 4)}-4${second.slice(4)}-${third.slice(0, 4)}-${third.slice(4)}${hex(d, 8)}`
  }
)

/** One for the whole process, whatever its clients. */
const processId = globalValue(
  "effect-tinker/internal/telemetry/process",
  (): { value: string | undefined } => ({ value: undefined })
)

const processUuid = Effect.suspend(() =>
  processId.value === undefined
    ? Effect.map(uuid, (made) => processId.value ??= made)
    : Effect.succeed(processId.value)
)

const build = ({ at, content, index }: Pending, id: string): TelemetryEvent.TelemetryEvent => {
  const common = { eventId: id, eventSessionIndex: index, timestamp: DateTime.unsafeMake(at) }
  switch (content._tag) {
    case "SessionStart":
      return new TelemetryEvent.SessionStartEvent({ ...common, severity: "INFO" })
    case "SessionEnd":
      return new TelemetryEvent.SessionEndEvent({ ...common, severity: "INFO", duration: content.duration })
    case "Exception":
      return new TelemetryEvent.UnhandledExceptionEvent({
        ...common,
        severity: "ERROR",
        errorType: content.type,
        errorMessage: content.message
      })
    case "Generic":
      return new TelemetryEvent.GenericEvent({
        ...common,
        severity: content.severity,
        eventName: content.name,
        eventData: content.data
      })
  }
}

/** A failure after which the same events may be sent again. */
const isPassing = (error: TinkerError.TinkerError): boolean =>
  TinkerError.isRetryable(error) || error._tag === "BillingBlocked" || error._tag === "Authentication"

/** The server has no telemetry endpoint. */
const isUnwanted = (error: TinkerError.TinkerError): boolean =>
  error._tag === "NotFound" || error._tag === "Unsupported"

/**
 * Reports what the transport's observers see until the scope closes, which sends what is left within
 * {@link closeWithin}. Does nothing where telemetry is off.
 *
 * @internal
 */
export const make: (api: ApiClient.Service) => Effect.Effect<Telemetry, never, Scope.Scope> = Effect.fnUntraced(
  function*(api) {
    if (!api.config.telemetry) return none
    const clock = yield* Effect.clock
    const queue: Array<Pending> = []
    const filled = Effect.unsafeMakeLatch(false)
    const urgent = Effect.unsafeMakeLatch(false)
    let count = 0
    let unwanted = false
    let session: { readonly id: SessionId; readonly start: number; ended: boolean } | undefined
    let anonymous: string | undefined

    const lose = (n: number) => Metrics.telemetryDropped.unsafeUpdate(n, [])

    const push = (content: TelemetryEvents.Content, at: number) => {
      if (unwanted) return
      queue.push({ id: undefined, index: count++, at, content })
      // Trimmed by a batch at a time: dropping them one by one would move the whole queue for each.
      if (queue.length > maxQueue) lose(queue.splice(0, maxBatch).length)
      filled.unsafeOpen()
      if (queue.length >= maxBatch || content._tag === "Exception") urgent.unsafeOpen()
    }

    const request = Effect.fnUntraced(function*(batch: ReadonlyArray<Pending>) {
      const events: Array<TelemetryEvent.TelemetryEvent> = []
      for (const pending of batch) events.push(build(pending, pending.id ??= yield* uuid))
      return new TelemetryEvent.TelemetrySendRequest({
        events,
        platform: system(),
        sdkVersion: TinkerConfig.wireVersion,
        sessionId: session?.id ?? (anonymous ??= `sessionless-${yield* uuid}`),
        processUuid: yield* processUuid
      })
    })

    const send = (batch: ReadonlyArray<Pending>, retry: RetryPolicy.Policy | undefined) =>
      request(batch).pipe(
        Effect.flatMap((body) => api.call(Api.telemetry, body, { from, retry })),
        Effect.either,
        Effect.onInterrupt(() => Effect.sync(() => queue.unshift(...batch)))
      )

    /** Sends batch after batch; false as soon as one fails. */
    const drain = (retry?: RetryPolicy.Policy): Effect.Effect<boolean> =>
      Effect.gen(function*() {
        while (queue.length > 0) {
          const batch = queue.splice(0, maxBatch)
          const answer = yield* send(batch, retry)
          // An unreadable response is still a response: sending the events again would not help.
          if (Either.isRight(answer) || answer.left._tag === "MalformedResponse") {
            Metrics.telemetryEvents.unsafeUpdate(batch.length, [])
            continue
          }
          yield* Effect.logDebug("Telemetry could not be sent", TelemetryEvents.summaryOf(answer.left))
          if (isUnwanted(answer.left)) {
            unwanted = true
            lose(batch.length + queue.splice(0).length)
          } else if (isPassing(answer.left)) {
            queue.unshift(...batch)
            if (queue.length > maxQueue) lose(queue.splice(0, queue.length - maxQueue).length)
            return false
          } else {
            lose(batch.length)
          }
        }
        filled.unsafeClose()
        return true
      })

    const loop = Effect.gen(function*() {
      let pause = interval
      while (!unwanted) {
        yield* filled.await
        if (pause === interval) yield* Effect.timeoutOption(urgent.await, interval)
        else yield* Effect.sleep(pause)
        urgent.unsafeClose()
        pause = (yield* drain()) ? interval : Duration.min(Duration.times(pause, 2), longestPause)
      }
    })

    const quietly = <A>(self: Effect.Effect<A>): Effect.Effect<A> =>
      self.pipe(
        Effect.withTracerEnabled(false),
        Logs.of("Telemetry")
      )

    const sessionEnded = () => {
      if (session === undefined || session.ended) return
      session.ended = true
      const now = clock.unsafeCurrentTimeMillis()
      push({ _tag: "SessionEnd", duration: TelemetryEvent.formatDuration(now - session.start) }, now)
    }

    yield* Effect.acquireRelease(
      Effect.forkDaemon(Effect.interruptible(quietly(loop))),
      (fiber) =>
        Fiber.interrupt(fiber).pipe(
          Effect.zipRight(Effect.suspend(() => {
            sessionEnded()
            return drain(RetryPolicy.never)
          })),
          quietly,
          Effect.interruptible,
          Effect.timeoutOption(closeWithin),
          Effect.map(() => lose(queue.splice(0).length))
        )
    )
    yield* api.observe((event) => {
      const now = clock.unsafeCurrentTimeMillis()
      const content = TelemetryEvents.content(event, now)
      if (content !== undefined) push(content, now)
    }, { traffic: false })

    return {
      sessionStarted: (id) => {
        const start = clock.unsafeCurrentTimeMillis()
        session = { id, start, ended: false }
        push({ _tag: "SessionStart" }, start)
      },
      sessionEnded
    }
  }
)
