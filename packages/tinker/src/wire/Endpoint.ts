/**
 * One HTTP endpoint as data: what a client calls and a server serves.
 *
 * The request of an endpoint is one flat value. Encoded, the fields named in the path template go into the path, and
 * the others into the query (`GET`, `DELETE`) or the JSON body; binary bodies have their own codec.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import { decodeWithout } from "../internal/wire/unknownFields.js"
import type * as RetryPolicy from "../RetryPolicy.js"

/**
 * Requests that must not wait for each other travel in different pools.
 *
 * @since 0.1.0
 * @category models
 */
export type Pool = "session" | "training" | "sampling" | "futures" | "completions" | "rest" | "telemetry"

/**
 * HTTP methods of the service.
 *
 * @since 0.1.0
 * @category models
 */
export type Method = "GET" | "POST" | "PUT" | "DELETE"

/**
 * A request on its way to the wire, still free of host and credentials.
 *
 * @since 0.1.0
 * @category models
 */
export interface Encoded {
  /** Values of the path template's names. */
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | undefined
}

/**
 * Translates a value to and from a body. Functions answer `Left` with a sentence when they cannot.
 *
 * @since 0.1.0
 * @category models
 */
export interface Codec<A> {
  /** Schema of the request's body. `undefined`: there is no body. */
  readonly contentType: string | undefined
  readonly encode: (value: A) => Either.Either<string | Uint8Array | undefined, string>
  readonly decode: (body: Uint8Array, contentType: string | undefined) => Either.Either<A, string>
}

/**
 * A request as a server reads it.
 *
 * @since 0.2.0
 * @category models
 */
export interface Decoded<Request> {
  readonly request: Request
  /** Names of fields that only a newer client knows. Those that would change a result are refused instead. */
  readonly ignored: ReadonlyArray<string>
}

/**
 * One call of the service: where it goes, how it is encoded, how it is tried again.
 *
 * @since 0.1.0
 * @category models
 */
export interface Endpoint<in out Request, in out Response> {
  /** Unique; also the method name in errors. */
  readonly name: string
  readonly method: Method
  /** Template such as `/api/v1/samplers/{sampler_id}`. */
  readonly path: string
  /** Names in the template. A value may contain `/`, which stays a separator. */
  readonly params: ReadonlyArray<string>
  readonly pool: Pool
  /** Longest time one attempt may take. */
  readonly timeout: Duration.Duration
  readonly retry: RetryPolicy.Class
  /** `refuse`: a redirect is an error. `return`: it is the response. `follow`: go there, without credentials. */
  readonly redirects: "refuse" | "return" | "follow"
  /** Where the credential goes: `X-API-Key`, `Authorization: Bearer`, or nowhere. */
  readonly auth: "key" | "bearer" | "none"
  /** Whether its bodies may be compressed when the server asks for it. */
  readonly compress: boolean
  /** Whether responses may be as large as results are; others are refused above a few megabytes. */
  readonly large: boolean
  /** Headers of every request to this endpoint, names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly encodeRequest: (request: Request) => Either.Either<Encoded, string>
  readonly decodeRequest: (encoded: {
    readonly params: Readonly<Record<string, string>>
    readonly query: Readonly<Record<string, string>>
    readonly body: Uint8Array
    readonly contentType: string | undefined
  }) => Either.Either<Decoded<Request>, string>
  readonly response: Codec<Response>
}

/**
 * The part of an endpoint that does not depend on what it carries.
 *
 * @since 0.1.0
 * @category models
 */
export type Plain = Omit<Endpoint<never, never>, "encodeRequest" | "decodeRequest" | "response">

/**
 * Settings an endpoint may state; the rest has defaults.
 *
 * @since 0.1.0
 * @category models
 */
export interface Settings {
  readonly pool: Pool
  readonly retry: RetryPolicy.Class
  /** Defaults to 60 seconds. */
  readonly timeout?: Duration.DurationInput | undefined
  /** Defaults to `refuse`. */
  readonly redirects?: "refuse" | "return" | "follow" | undefined
  /** Defaults to `key`. */
  readonly auth?: "key" | "bearer" | "none" | undefined
  /** Defaults to false. */
  readonly compress?: boolean | undefined
  /** Defaults to false. */
  readonly large?: boolean | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
}

const strict = { onExcessProperty: "error" } as const

/** Made when it is first needed: of the many endpoints, most programs call a few. */
const lazy = <A extends ReadonlyArray<unknown>, B>(make: () => (...args: A) => B): (...args: A) => B => {
  let made: ((...args: A) => B) | undefined
  return (...args) => (made ??= make())(...args)
}

/** The formatter walks the whole value, however deep and large it is; a reader wants neither. */
const sentence = (issue: ParseResult.ParseIssue): string => {
  try {
    const text = ParseResult.TreeFormatter.formatIssueSync(issue)
    return text.length > 2_000 ? `${text.slice(0, 2_000)}…` : text
  } catch {
    return "not of the expected shape, and nested too deeply to say where"
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true })

/**
 * Parses a JSON body strictly as UTF-8.
 *
 * @since 0.1.0
 * @category combinators
 */
export const parseJson = (body: Uint8Array): Either.Either<unknown, string> => {
  let text: string
  try {
    text = utf8.decode(body)
  } catch {
    return Either.left("the body is not valid UTF-8")
  }
  try {
    return Either.right(JSON.parse(text))
  } catch {
    return Either.left(text.length === 0 ? "the body is empty" : "the body is not JSON")
  }
}

/**
 * A JSON body described by a schema. Unknown fields are refused on the way out and ignored on the way in.
 *
 * @since 0.1.0
 * @category constructors
 */
export const json = <A, I>(schema: Schema.Schema<A, I>): Codec<A> => {
  const encode = lazy(() => ParseResult.encodeEither(schema, strict))
  const decode = lazy(() => ParseResult.decodeUnknownEither(schema))
  return {
    contentType: "application/json",
    encode: (value) =>
      Either.mapBoth(encode(value), { onLeft: sentence, onRight: (encoded) => JSON.stringify(encoded) }),
    decode: (body, contentType) => {
      const parsed = parseJson(body)
      if (Either.isLeft(parsed)) {
        return Either.left(`${parsed.left} (content type: ${contentType ?? "none"})`)
      }
      return Either.mapLeft(decode(parsed.right), sentence)
    }
  }
}

/**
 * No body, or one that does not matter.
 *
 * @since 0.1.0
 * @category constructors
 */
export const none: Codec<void> = {
  contentType: undefined,
  encode: () => Either.right(undefined),
  decode: () => Either.right(undefined)
}

/**
 * The body as it is.
 *
 * @since 0.1.0
 * @category constructors
 */
export const bytes = (contentType: string): Codec<Uint8Array> => ({
  contentType,
  encode: Either.right,
  decode: Either.right
})

/**
 * Known by identity, so that the many requests without a query need not look for one.
 *
 * @internal
 */
export const noQuery: Readonly<Record<string, string>> = {}

const names = (path: string): ReadonlyArray<string> =>
  Array.from(path.matchAll(/\{([a-z_]+)\}/g), (match) => match[1] ?? "")

const build = <Request, Response>(
  name: string,
  method: Method,
  path: string,
  settings: Settings,
  response: Codec<Response>,
  codec: Pick<Endpoint<Request, Response>, "encodeRequest" | "decodeRequest">
): Endpoint<Request, Response> => ({
  name,
  method,
  path,
  params: names(path),
  pool: settings.pool,
  retry: settings.retry,
  timeout: Duration.decode(settings.timeout ?? "60 seconds"),
  redirects: settings.redirects ?? "refuse",
  auth: settings.auth ?? "key",
  compress: settings.compress ?? false,
  large: settings.large ?? false,
  headers: settings.headers ?? {},
  response,
  ...codec
})

const queryValue = (value: unknown): string | undefined => {
  if (value === undefined || value === null || value === "") return undefined
  return Array.isArray(value) ? value.join(",") : String(value)
}

/**
 * An endpoint whose request is a schema over flat fields.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <Request, I extends object, Response>(
  name: string,
  method: Method,
  path: string,
  settings: Settings & {
    readonly request: Schema.Schema<Request, I>
    readonly response: Codec<Response>
    /** Whether to send a body at all. Defaults to true for `POST` and `PUT`. */
    readonly body?: boolean | undefined
  }
): Endpoint<Request, Response> => {
  const encode = lazy(() => ParseResult.encodeEither(settings.request, strict))
  const decode = lazy(() => decodeWithout(settings.request))
  const params = names(path)
  const inBody = settings.body ?? (method === "POST" || method === "PUT")
  const split = (flat: I): Encoded => {
    if (params.length === 0 && inBody) return { params: {}, query: noQuery, body: JSON.stringify(flat) }
    const values: Record<string, string> = {}
    const query: Record<string, string> = {}
    const body: Record<string, unknown> = {}
    for (const [key, value] of Object.entries(flat)) {
      if (params.includes(key)) {
        values[key] = String(value)
      } else if (inBody) {
        body[key] = value
      } else {
        const text = queryValue(value)
        if (text !== undefined) query[key] = text
      }
    }
    return { params: values, query, body: inBody ? JSON.stringify(body) : undefined }
  }
  return build(name, method, path, settings, settings.response, {
    encodeRequest: (request) => Either.mapBoth(encode(request), { onLeft: sentence, onRight: split }),
    decodeRequest: (encoded) => {
      const parsed = inBody ? parseJson(encoded.body) : Either.right({})
      return Either.flatMap(parsed, (body) =>
        Either.mapLeft(
          decode(typeof body === "object" && body !== null ? { ...encoded.query, ...encoded.params, ...body } : body),
          sentence
        ))
    }
  })
}

/**
 * An endpoint whose request is one body in a custom format.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeBody = <Request, Response>(
  name: string,
  method: "POST" | "PUT",
  path: string,
  settings: Settings & {
    readonly request: Codec<Request>
    readonly response: Codec<Response>
    /** How a server reads the body. Defaults to the codec, for which there are no unknown fields. */
    readonly decodeRequest?: Endpoint<Request, Response>["decodeRequest"] | undefined
  }
): Endpoint<Request, Response> =>
  build(
    name,
    method,
    path,
    {
      ...settings,
      headers: settings.request.contentType === undefined
        ? settings.headers
        : { ...settings.headers, "content-type": settings.request.contentType }
    },
    settings.response,
    {
      encodeRequest: (request) =>
        Either.map(settings.request.encode(request), (body) => ({ params: {}, query: noQuery, body })),
      decodeRequest: settings.decodeRequest ?? ((encoded) =>
        Either.map(settings.request.decode(encoded.body, encoded.contentType), (request) => ({ request, ignored: [] })))
    }
  )

/**
 * Reads a JSON body as servers do: fields that only a newer client knows are left out and named.
 *
 * @since 0.2.0
 * @category combinators
 */
export const decodeJson = <A, I>(
  schema: Schema.Schema<A, I>
): (encoded: { readonly body: Uint8Array }) => Either.Either<Decoded<A>, string> => {
  const decode = lazy(() => decodeWithout(schema))
  return ({ body }) => Either.flatMap(parseJson(body), (value) => Either.mapLeft(decode(value), sentence))
}

/**
 * An endpoint whose requests are written as those of another: `forwardBackward` in the JSON of `forward`, for servers of
 * the era before protobuf.
 *
 * @since 0.1.0
 * @category combinators
 */
export const withBodyOf = <Request, Response>(
  self: Endpoint<Request, Response>,
  other: Endpoint<Request, Response>
): Endpoint<Request, Response> => ({
  ...self,
  compress: other.compress,
  headers: other.headers,
  encodeRequest: other.encodeRequest,
  decodeRequest: other.decodeRequest
})
