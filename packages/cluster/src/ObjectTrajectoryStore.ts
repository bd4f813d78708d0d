/**
 * Trajectories in a bucket of any S3-compatible server: for rollouts with images or long transcripts, of which neither
 * messages nor a database should hear. Workers put each trajectory there themselves, and the trainer reads it.
 *
 * A trajectory is an object, written on the condition that there is none. A server that does not keep to the condition
 * (`If-None-Match`) cannot be used, since a rollout that ran twice would count twice; that is tried when the layer is built.
 *
 * @since 0.2.0
 */
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import type { ConfigError } from "effect/ConfigError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as codec from "./internal/codec.js"
import * as objectSigning from "./internal/objectSigning.js"
import * as RunControl from "./RunControl.js"
import * as TrajectoryStore from "./TrajectoryStore.js"

/**
 * Which bucket, and who may use it.
 *
 * @since 0.2.0
 * @category models
 */
export interface Options {
  readonly bucket: string
  /** What the names of objects begin with. Defaults to nothing. */
  readonly prefix?: string | undefined
  /** Where the server is, such as `https://minio.example.com`. Defaults to that of AWS for the region. */
  readonly endpoint?: string | undefined
  /** Defaults to `us-east-1`. */
  readonly region?: string | undefined
  readonly accessKeyId: string
  readonly secretAccessKey: Redacted.Redacted
  readonly sessionToken?: Redacted.Redacted | undefined
}

/** Longest object that is read: a trajectory of a thousand images is smaller. */
const maxBytes = 512 * 1024 * 1024

/** A large object over a slow line takes minutes. */
const timeout = "10 minutes"

const empty = new Uint8Array()

const failed = (description: string, cause?: unknown) =>
  new TrajectoryStore.TrajectoryStoreFailed({ description, ...(cause === undefined ? {} : { cause }) })

/** Answers that another attempt may not have. */
const isTransient = (status: number) => status === 409 || status === 429 || status >= 500

const retries = Schedule.exponential("200 millis").pipe(
  Schedule.jittered,
  Schedule.intersect(Schedule.recurs(5))
)

/** Texts of an element, wherever it is. */
const elements = (xml: string, name: string): ReadonlyArray<string> =>
  Array.from(xml.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, "g")), ([, text = ""]) => text)

interface Call {
  readonly method: "GET" | "PUT" | "HEAD" | "DELETE"
  /** Name of the object; that of the bucket without it. */
  readonly name?: string | undefined
  readonly query?: Readonly<Record<string, string>> | undefined
  readonly body?: Uint8Array | undefined
  readonly onlyNew?: boolean | undefined
}

const make = Effect.fnUntraced(function*(options: Options) {
  const client = yield* HttpClient.HttpClient
  const region = options.region ?? "us-east-1"
  const prefix = options.prefix === undefined || options.prefix === "" ? "" : `${options.prefix.replace(/\/$/, "")}/`
  const endpoint = options.endpoint ?? `https://s3.${region}.amazonaws.com`
  if (!URL.canParse(endpoint)) return yield* failed(`${JSON.stringify(endpoint)} is no address of an object store`)
  const base = new URL(endpoint)

  const urlOf = ({ name, query }: Call) => {
    const url = new URL(base)
    const path = [options.bucket, ...(name === undefined ? [] : name.split("/"))].map(objectSigning.encode).join("/")
    url.pathname = `${base.pathname.replace(/\/$/, "")}/${path}`
    for (const [key, value] of Object.entries(query ?? {})) url.searchParams.set(key, value)
    return url
  }

  const once = Effect.fnUntraced(function*(call: Call) {
    const url = urlOf(call)
    const body = call.body ?? empty
    const headers = yield* objectSigning.sign(
      { method: call.method, url, body, headers: call.onlyNew === true ? { "if-none-match": "*" } : {} },
      { credentials: options, region, now: yield* Clock.currentTimeMillis }
    )
    const request = HttpClientRequest.make(call.method)(url.href, { headers })
    return yield* client.execute(
      call.body === undefined
        ? request
        : HttpClientRequest.setBody(request, HttpBody.uint8Array(body, "application/json"))
    )
  })

  const describe = (call: Call) =>
    `${call.method} ${call.name === undefined ? options.bucket : `${options.bucket}/${call.name}`}`

  /** Sends until there is an answer that counts, and reads it. */
  const send = <A>(
    call: Call,
    read: (response: HttpClientResponse.HttpClientResponse) => Effect.Effect<A, unknown>
  ): Effect.Effect<A, TrajectoryStore.TrajectoryStoreFailed> =>
    Effect.suspend(() => {
      // The second attempt finds what the first one may have stored.
      let isRetryable = true
      return Effect.scoped(Effect.flatMap(once(call), (response) => {
        isRetryable = isTransient(response.status)
        return isRetryable
          ? Effect.fail(failed(`${describe(call)}: the server answered ${response.status}`))
          : read(response)
      })).pipe(
        Effect.timeout(timeout),
        Effect.mapError((error) =>
          error instanceof TrajectoryStore.TrajectoryStoreFailed
            ? error
            : failed(`${describe(call)}: ${error instanceof Error ? error.message : String(error)}`, error)
        ),
        Effect.retry({ schedule: retries, while: () => isRetryable })
      )
    })

  const unexpected = (call: Call, response: HttpClientResponse.HttpClientResponse) =>
    Effect.flatMap(
      Effect.orElseSucceed(response.text, () => ""),
      (text) => {
        const [code] = elements(text, "Code")
        return failed(
          `${describe(call)}: the server answered ${response.status}${code === undefined ? "" : `, ${code}`}`
        )
      }
    )

  /** Whether there was none. */
  const putNew = (name: string, body: Uint8Array) => {
    const call: Call = { method: "PUT", name, body, onlyNew: true }
    return send(call, (response) =>
      response.status === 412
        ? Effect.succeed(false)
        : response.status >= 200 && response.status < 300
        ? Effect.succeed(true)
        : unexpected(call, response))
  }

  const textOf = (name: string) => {
    const call: Call = { method: "GET", name }
    return send(call, (response) => {
      if (response.status === 404) return Effect.succeedNone
      if (response.status !== 200) return unexpected(call, response)
      return Number(response.headers["content-length"] ?? 0) > maxBytes
        ? Effect.fail(failed(`${describe(call)}: larger than ${maxBytes} bytes`))
        : Effect.asSome(response.text)
    })
  }

  /** Names, or with a delimiter what they have before it; all pages. */
  const list = Effect.fnUntraced(function*(under: string, delimiter?: string) {
    const found: Array<string> = []
    let token: string | undefined
    do {
      const call: Call = {
        method: "GET",
        query: {
          "list-type": "2",
          "encoding-type": "url",
          prefix: under,
          ...(delimiter === undefined ? {} : { delimiter }),
          ...(token === undefined ? {} : { "continuation-token": token })
        }
      }
      const xml: string = yield* send(
        call,
        (response) => response.status === 200 ? response.text : unexpected(call, response)
      )
      const names = delimiter === undefined
        ? elements(xml, "Key")
        : Array.from(xml.matchAll(/<CommonPrefixes>\s*<Prefix>([^<]*)<\/Prefix>/g), ([, text = ""]) => text)
      const isEncoded = elements(xml, "EncodingType")[0] === "url"
      for (const name of names) found.push(isEncoded ? yield* decoded(call, name) : name)
      token = elements(xml, "IsTruncated")[0] === "true" ? elements(xml, "NextContinuationToken")[0] : undefined
    } while (token !== undefined)
    return found
  })

  const decoded = (call: Call, name: string) =>
    Effect.try({
      try: () => decodeURIComponent(name.replace(/\+/g, " ")),
      catch: (cause) => failed(`${describe(call)}: the server names an object ${JSON.stringify(name)}`, cause)
    })

  const remove = (name: string) => {
    const call: Call = { method: "DELETE", name }
    return send(
      call,
      (response) => response.status < 300 || response.status === 404 ? Effect.void : unexpected(call, response)
    )
  }

  const runFolder = (run: string) => `${prefix}${TrajectoryStore.safe(run)}/`
  const nameOf = ({ run, sample, step, task }: TrajectoryStore.RolloutKey) =>
    `${runFolder(run)}${step}/${TrajectoryStore.safe(task)}-${sample}.json`
  const utf8 = new TextEncoder()

  /** The steps of a run, and the prefix of each. */
  const stepsOf = (run: string) =>
    Effect.map(
      list(runFolder(run), "/"),
      (folders) =>
        folders.map((folder) => ({ folder, step: Number(folder.slice(runFolder(run).length).replace(/\/$/, "")) }))
    )

  // Nobody else has this name; another process may try at the same time.
  const { bytes } = yield* RunControl.Entropy
  const probe = `${prefix}.probe-${Array.from(yield* bytes(8), (byte) => byte.toString(16).padStart(2, "0")).join("")}`
  const isKept = yield* Effect.zipRight(putNew(probe, utf8.encode("1")), putNew(probe, utf8.encode("2"))).pipe(
    Effect.map((isNew) => !isNew),
    Effect.ensuring(Effect.ignore(remove(probe)))
  )
  if (!isKept) {
    return yield* failed(
      `${base.host} replaces objects that were to be written only if there are none (If-None-Match): a rollout that ran twice ` +
        "would count twice. Use a server that keeps to the condition, such as AWS, MinIO or versitygw"
    )
  }

  return TrajectoryStore.makeSeparate({
    put: (key, trajectories) => putNew(nameOf(key), utf8.encode(codec.encode(trajectories))),
    has: (key) => {
      const call: Call = { method: "HEAD", name: nameOf(key) }
      return send(call, (response) =>
        response.status === 200
          ? Effect.succeed(true)
          : response.status === 404
          ? Effect.succeed(false)
          : unexpected(call, response))
    },
    get: (key) =>
      Effect.flatMap(
        textOf(nameOf(key)),
        Option.match({
          onNone: () => Effect.succeedNone,
          onSome: (text) => Effect.asSome(Effect.mapError(codec.decode(text), (description) => failed(description)))
        })
      ),
    latest: (run) => Effect.map(stepsOf(run), (steps) => TrajectoryStore.lastOf(steps.map(({ step }) => step))),
    prune: Effect.fnUntraced(function*(run, before) {
      for (const { folder, step } of yield* stepsOf(run)) {
        if (!(step < before)) continue
        yield* Effect.forEach(yield* list(folder), remove, { concurrency: 8, discard: true })
      }
    })
  })
})

/**
 * In a bucket.
 *
 * @since 0.2.0
 * @category layers
 */
export const layer = (
  options: Options
): Layer.Layer<TrajectoryStore.TrajectoryStore, TrajectoryStore.TrajectoryStoreFailed, HttpClient.HttpClient> =>
  Layer.effect(TrajectoryStore.TrajectoryStore, make(options))

/**
 * In the bucket of an address, `s3://BUCKET/PREFIX`, with the server and the credentials of the environment, by the names
 * that other tools use: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, and where they are needed `AWS_SESSION_TOKEN`,
 * `AWS_REGION` and `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`.
 *
 * @since 0.2.0
 * @category layers
 */
export const layerConfig = (
  address: string
): Layer.Layer<
  TrajectoryStore.TrajectoryStore,
  TrajectoryStore.TrajectoryStoreFailed | ConfigError,
  HttpClient.HttpClient
> =>
  Layer.unwrapEffect(Effect.gen(function*() {
    const match = /^s3:\/\/([^/?#]+)(?:\/([^?#]*))?$/.exec(address)
    if (match === null) return yield* failed(`${JSON.stringify(address)} is not s3://BUCKET/PREFIX`)
    const found = yield* Config.all({
      accessKeyId: Config.string("AWS_ACCESS_KEY_ID"),
      secretAccessKey: Config.redacted("AWS_SECRET_ACCESS_KEY"),
      sessionToken: Config.option(Config.redacted("AWS_SESSION_TOKEN")),
      region: Config.withDefault(
        Config.orElse(Config.string("AWS_REGION"), () => Config.string("AWS_DEFAULT_REGION")),
        "us-east-1"
      ),
      endpoint: Config.option(
        Config.orElse(Config.string("AWS_ENDPOINT_URL_S3"), () => Config.string("AWS_ENDPOINT_URL"))
      )
    })
    return layer({
      ...found,
      bucket: match[1] ?? "",
      prefix: match[2],
      sessionToken: Option.getOrUndefined(found.sessionToken),
      endpoint: Option.getOrUndefined(found.endpoint)
    })
  }))
