/**
 * One request to the hub: redirects followed here, answers as typed errors, the credential sent to the hub alone.
 */
import * as HubDirectory from "@effect-tinker/platform/HubDirectory"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import type * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import type { TokenizerError } from "../TokenizerError.js"
import {
  TokenizerGated,
  TokenizerMalformed,
  TokenizerNotFound,
  TokenizerUnauthorized,
  TokenizerUnavailable
} from "../TokenizerError.js"

/** @internal */
export interface Where {
  readonly repo: string
  readonly revision: string
  readonly file: string
}

/** @internal */
export interface Answer {
  readonly commit: Option.Option<string>
  /** `None` when the commit has no such file. */
  readonly content: Option.Option<Uint8Array>
}

const maxRedirects = 8

const unavailable = (where: Where, description: string, more: {
  readonly isRetryable: boolean
  readonly status?: number | undefined
  readonly retryAfter?: Duration.Duration | undefined
  readonly cause?: unknown
}): TokenizerUnavailable => new TokenizerUnavailable({ ...where, description, ...more })

const retryAfter = (response: HttpClientResponse.HttpClientResponse): Duration.Duration | undefined => {
  const seconds = Number(response.headers["retry-after"])
  return seconds > 0 && seconds <= 60 ? Duration.seconds(seconds) : undefined
}

/** The code of what broke a connection, such as ENOTFOUND, wherever it is among its causes. */
const codeOf = (cause: unknown): string | undefined =>
  Predicate.hasProperty(cause, "code") && typeof cause.code === "string"
    ? cause.code
    : Predicate.hasProperty(cause, "cause")
    ? codeOf(cause.cause)
    : undefined

const unreachable = (where: Where, url: string, error: HttpClientError.HttpClientError): TokenizerUnavailable =>
  unavailable(
    where,
    `${new URL(url).host} cannot be reached (${codeOf(error) ?? error.reason})\n  Check the network and HF_ENDPOINT. ` +
      "With the files in the cache HF_HUB_OFFLINE=1 sends no requests; TokenizerFiles.layerDirectory reads your own.",
    { isRetryable: true }
  )

/** Meaning of an answer; `undefined` when it is the file, `"absent"` when there is none. */
const problem = (
  where: Where,
  response: HttpClientResponse.HttpClientResponse,
  hasToken: boolean
): TokenizerError | "absent" | undefined => {
  const { headers, status } = response
  if (status >= 200 && status < 300) return undefined
  const code = headers["x-error-code"]
  const words = headers["x-error-message"] ?? ""
  if (code === "EntryNotFound") return "absent"
  if (code === "RevisionNotFound") {
    return new TokenizerNotFound({ ...where, description: "the repository has no such revision" })
  }
  if (code === "GatedRepo") {
    return new TokenizerGated({
      ...where,
      description: hasToken
        ? "access is not granted to this account; accept the terms on the model's page"
        : "accept the terms on the model's page, then give an access token (HF_TOKEN)"
    })
  }
  if (code === "RepoNotFound") {
    return new TokenizerNotFound({
      ...where,
      description: hasToken
        ? "no such repository, or this account may not see it"
        : "no such repository; if it is private, give an access token (HF_TOKEN)"
    })
  }
  if (status === 401 || status === 403) {
    return new TokenizerUnauthorized({
      ...where,
      description: `${hasToken ? "the access token was refused" : "an access token is needed (HF_TOKEN)"}${
        words === "" ? "" : `: ${words}`
      }`
    })
  }
  if (status === 404) return "absent"
  const isRetryable = status === 408 || status === 429 || status >= 500
  return unavailable(where, `the hub answered ${status}${words === "" ? "" : `: ${words}`}`, {
    status,
    isRetryable,
    retryAfter: retryAfter(response)
  })
}

/**
 * How often a download is tried again.
 *
 * @internal
 */
export const policy: Schedule.Schedule<unknown, TokenizerError> = Schedule.exponential("500 millis").pipe(
  Schedule.union(Schedule.spaced("8 seconds")),
  Schedule.jitteredWith({ min: 0.75, max: 1 }),
  Schedule.whileInput((error: TokenizerError) => error.isRetryable),
  Schedule.passthrough,
  Schedule.modifyDelay((error, delay) =>
    error._tag === "TokenizerUnavailable" && error.retryAfter !== undefined ? error.retryAfter : delay
  ),
  Schedule.intersect(Schedule.recurs(4))
)

const parseUrl = (where: Where, url: string, base?: string) =>
  Effect.try({
    try: () => new URL(url, base),
    catch: () => new TokenizerMalformed({ ...where, description: `not an address: ${url}` })
  })

/** @internal */
export interface Connection {
  readonly client: HttpClient.HttpClient
  readonly endpoint: string
  readonly token: Option.Option<Redacted.Redacted>
}

/** The last response of a trail of redirects, and what the hub said about the file on the way. @internal */
export interface Exchange {
  /** The commit the revision stands for. */
  readonly commit: Option.Option<string>
  readonly size: Option.Option<number>
  /** `None` when there is no such file, or when leaving the hub was answer enough. */
  readonly response: Option.Option<HttpClientResponse.HttpClientResponse>
}

/** Address of a file of a repository. @internal */
export const fileUrl = (endpoint: string, where: Where): string =>
  `${endpoint.replace(/\/+$/, "")}/${
    [...where.repo.split("/"), "resolve", where.revision, ...where.file.split("/")].map(encodeURIComponent).join("/")
  }`

/** One request: redirects are followed here, and the token never leaves the hub. @internal */
export const exchange = Effect.fnUntraced(function*(
  connection: Connection,
  method: "GET" | "HEAD",
  where: Where,
  start: string,
  headers: Readonly<Record<string, string>> = {}
) {
  const { client, token } = connection
  const home = (yield* parseUrl(where, start)).origin
  let url = start
  let commit = Option.none<string>()
  let size = Option.none<number>()
  // once the trail has left the hub, the token stays behind even if it comes back
  let trusted = true
  for (let hop = 0; hop <= maxRedirects; hop++) {
    trusted = trusted && (yield* parseUrl(where, url)).origin === home
    const request = HttpClientRequest.make(method)(url, {
      // a compressed body could not be checked against the announced length
      headers: {
        ...headers,
        "accept-encoding": "identity",
        ...(trusted && Option.isSome(token) ? { authorization: `Bearer ${Redacted.value(token.value)}` } : {})
      }
    })
    const response = yield* client.execute(request).pipe(
      // otherwise fetch follows redirects itself, and the commit is only in the first answer
      Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" }),
      // the cause of a failed request holds its headers: it is not passed on
      Effect.mapError((error) => unreachable(where, url, error))
    )
    // it becomes part of a path: only the hub may name it, and only as what can be nothing else
    if (trusted) {
      const named = Option.fromNullable(response.headers["x-repo-commit"])
      commit = Option.orElse(commit, () => Option.filter(named, HubDirectory.isCommit))
    }
    size = Option.orElse(size, () => Option.fromNullable(response.headers["x-linked-size"]).pipe(Option.map(Number)))
    const location = response.headers["location"]
    if (response.status >= 300 && response.status < 400 && location !== undefined) {
      const next = yield* parseUrl(where, location, url)
      // for a question about the commit, leaving the hub is answer enough
      if (method === "HEAD" && next.origin !== home) return { commit, size, response: Option.none() } satisfies Exchange
      url = next.href
      continue
    }
    const failure = problem(where, response, Option.isSome(token) && trusted)
    if (failure === "absent") return { commit, size, response: Option.none() } satisfies Exchange
    if (failure !== undefined) return yield* failure
    return { commit, size, response: Option.some(response) } satisfies Exchange
  }
  return yield* new TokenizerMalformed({ ...where, description: `more than ${maxRedirects} redirects` })
})

/** The body of a response broke off. @internal */
export const brokenOff = (where: Where, reason: string): TokenizerUnavailable =>
  unavailable(where, `the download broke off: ${reason}`, { isRetryable: true })

/** @internal */
export const make = (
  options: Connection & { readonly timeout: Duration.DurationInput }
): (method: "GET" | "HEAD", where: Where) => Effect.Effect<Answer, TokenizerError> => {
  const attempt = Effect.fnUntraced(function*(method: "GET" | "HEAD", where: Where) {
    const { commit, response, size } = yield* exchange(options, method, where, fileUrl(options.endpoint, where))
    if (method === "HEAD" || Option.isNone(response)) return { commit, content: Option.none() }
    const { headers } = response.value
    const body = yield* response.value.arrayBuffer.pipe(
      Effect.mapError((error) => brokenOff(where, error.reason))
    )
    const expected = Option.orElse(size, () => Option.fromNullable(headers["content-length"]).pipe(Option.map(Number)))
    if (headers["content-encoding"] === undefined && Option.isSome(expected) && expected.value !== body.byteLength) {
      return yield* unavailable(where, `the download has ${body.byteLength} of ${expected.value} bytes`, {
        isRetryable: true
      })
    }
    return { commit, content: Option.some(new Uint8Array(body)) }
  })
  return (method, where) =>
    attempt(method, where).pipe(
      Effect.scoped,
      Effect.timeoutFail({
        duration: options.timeout,
        onTimeout: () => unavailable(where, "the hub did not answer in time", { isRetryable: true })
      }),
      Effect.retry(policy)
    )
}
