/**
 * A completion as it is drawn: server-sent events, each a piece, until the server says that it is over.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TinkerError from "../../TinkerError.js"
import * as Endpoint from "../../wire/Endpoint.js"

// -----------------------------------------------------------------------------
// Server-sent events out of bytes: lines end in LF, CR or CRLF wherever chunks happen to be cut, a line is decoded as
// strict UTF-8 once it is whole, and an event that no blank line ends is dropped.
// -----------------------------------------------------------------------------

/** @internal */
export interface Event {
  /** `message` unless the server names another. */
  readonly event: string
  readonly data: string
  /** The last id seen, empty if none. */
  readonly id: string
}

class SseError {
  readonly _tag = "SseError"
  constructor(readonly description: string) {}
}

/** No line and no event may grow beyond this. */
const limit = 16 * 1024 * 1024

const LF = 0x0a
const CR = 0x0d

interface Parser {
  /** The events this chunk completes. */
  readonly push: (chunk: Uint8Array) => ReadonlyArray<Event> | SseError
}

const makeParser = (): Parser => {
  const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
  let pending: Array<Uint8Array> = []
  let pendingSize = 0
  let afterCr = false
  let first = true
  let event = ""
  let data: Array<string> = []
  let dataSize = 0
  let id = ""

  const field = (name: string, value: string) => {
    if (name === "event") event = value
    else if (name === "data") {
      data.push(value)
      dataSize += value.length
    } else if (name === "id" && !value.includes("\0")) id = value
  }

  const line = (text: string, events: Array<Event>) => {
    if (text === "") {
      if (data.length > 0) events.push({ event: event === "" ? "message" : event, data: data.join("\n"), id })
      event = ""
      data = []
      dataSize = 0
      return
    }
    const colon = text.indexOf(":")
    if (colon === 0) return
    if (colon === -1) field(text, "")
    else field(text.slice(0, colon), text.slice(text[colon + 1] === " " ? colon + 2 : colon + 1))
  }

  const decode = (tail: Uint8Array): string => {
    let bytes = tail
    if (pending.length > 0) {
      bytes = new Uint8Array(pendingSize + tail.length)
      let offset = 0
      for (const part of pending) {
        bytes.set(part, offset)
        offset += part.length
      }
      bytes.set(tail, offset)
      pending = []
      pendingSize = 0
    }
    const text = utf8.decode(bytes)
    if (!first) return text
    first = false
    return text.startsWith("\uFEFF") ? text.slice(1) : text
  }

  return {
    push: (chunk) => {
      const events: Array<Event> = []
      let start = 0
      try {
        for (let i = 0; i < chunk.length; i++) {
          const byte = chunk[i]
          if (afterCr) {
            afterCr = false
            // The second half of a CRLF, perhaps in another chunk than the first.
            if (byte === LF) {
              start = i + 1
              continue
            }
          }
          if (byte !== LF && byte !== CR) continue
          line(decode(chunk.subarray(start, i)), events)
          start = i + 1
          afterCr = byte === CR
        }
      } catch {
        return new SseError("an event is not valid UTF-8")
      }
      if (start < chunk.length) {
        pending.push(chunk.slice(start))
        pendingSize += chunk.length - start
      }
      return pendingSize > limit || dataSize > limit ? new SseError(`an event is larger than ${limit} bytes`) : events
    }
  }
}

/** @internal */
export const decodeEvents = <E>(bytes: Stream.Stream<Uint8Array, E>): Stream.Stream<Event, E | SseError> =>
  Stream.suspend(() => {
    const parser = makeParser()
    return Stream.mapConcatEffect(bytes, (chunk): Effect.Effect<ReadonlyArray<Event>, SseError> => {
      const result = parser.push(chunk)
      return result instanceof SseError ? Effect.fail(result) : Effect.succeed(result)
    })
  })

// -----------------------------------------------------------------------------
// Completions as streams.
// -----------------------------------------------------------------------------

const from = (method: string) => ({ module: "OpenAiCompat", method })

const malformed = (method: string, description: string) =>
  new TinkerError.MalformedResponse({ ...from(method), description })

const ErrorEvent = Schema.Struct({
  error: Schema.Union(Schema.String, Schema.Struct({ message: Schema.String }))
})

const isError = Schema.is(ErrorEvent)

/** Fields of every piece of a completion; a choice that is over says why. */
interface Piece {
  readonly choices: ReadonlyArray<{ readonly finish_reason?: string | null | undefined }>
}

const saysWhyItEnds = ({ choices }: Piece): boolean =>
  choices.some(({ finish_reason }) => finish_reason !== undefined && finish_reason !== null)

/**
 * The pieces of a completion out of the bytes of its response.
 *
 * @internal
 */
export const pieces = <A extends Piece, I>(
  method: string,
  schema: Schema.Schema<A, I>,
  bytes: Stream.Stream<Uint8Array, TinkerError.TinkerError>
): Stream.Stream<A, TinkerError.TinkerError> => {
  const decode = Endpoint.json(schema).decode
  const encoder = new TextEncoder()
  const piece = (event: Event): Effect.Effect<A, TinkerError.TinkerError> => {
    const data = encoder.encode(event.data)
    const json = Endpoint.parseJson(data)
    if (Either.isRight(json) && (event.event === "error" || isError(json.right))) {
      const said = isError(json.right) ? json.right.error : event.data
      return new TinkerError.RequestFailed({
        ...from(method),
        category: "unknown",
        description: typeof said === "string" ? said : said.message
      })
    }
    return Either.mapLeft(decode(data, "text/event-stream"), (description) => malformed(method, description))
  }
  return Stream.suspend(() => {
    // Not every server says [DONE]; one that says neither that nor why it ends was cut off, however orderly.
    let ended = false
    return decodeEvents(bytes).pipe(
      Stream.mapError((error) => error._tag === "SseError" ? malformed(method, error.description) : error),
      Stream.takeWhile((event) => {
        const isDone = event.data.trim() === "[DONE]"
        ended ||= isDone
        return !isDone
      }),
      Stream.mapEffect(piece),
      Stream.tap((one) =>
        Effect.sync(() => {
          ended ||= saysWhyItEnds(one)
        })
      ),
      Stream.concat(Stream.suspend(() =>
        ended ? Stream.empty : Stream.fail(
          new TinkerError.TransportFailed({
            ...from(method),
            description: "the stream ended before the completion did"
          })
        )
      ))
    )
  })
}
