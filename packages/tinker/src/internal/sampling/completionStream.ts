/**
 * A completion as it is drawn: server-sent events, each a piece, until the server says that it is over.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Endpoint from "../../Endpoint.js"
import * as TinkerError from "../../TinkerError.js"
import * as Sse from "./sse.js"

const from = (method: string) => ({ module: "OpenAiCompat", method })

const malformed = (method: string, description: string) =>
  new TinkerError.MalformedResponse({ ...from(method), description })

const ErrorEvent = Schema.Struct({
  error: Schema.Union(Schema.String, Schema.Struct({ message: Schema.String }))
})

const isError = Schema.is(ErrorEvent)

/** What every piece of a completion has; a choice that is over says why. */
interface Piece {
  readonly choices: ReadonlyArray<{ readonly finish_reason?: string | null | undefined }>
}

const saysWhyItEnds = ({ choices }: Piece): boolean =>
  choices.some(({ finish_reason }) => finish_reason !== undefined && finish_reason !== null)

/**
 * The pieces of a completion out of the bytes of its answer.
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
  const piece = (event: Sse.Event): Effect.Effect<A, TinkerError.TinkerError> => {
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
    return Sse.decode(bytes).pipe(
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
