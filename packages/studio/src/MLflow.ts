/**
 * Runs on an MLflow tracking server, by its REST API: metrics with their steps and times, the configuration as parameters,
 * and how the run stands. Exporting again adds what is new; a run that was resumed from an earlier step since then is
 * replaced, because MLflow keeps every value of a step that it ever got.
 *
 * @since 0.1.0
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as ParseResult from "effect/ParseResult"
import type * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Json from "./internal/json.js"
import * as RunDirectory from "./RunDirectory.js"
import type * as Series from "./Series.js"

/**
 * The server did not take the runs.
 *
 * @since 0.1.0
 * @category errors
 */
export class MLflowFailed extends Schema.TaggedError<MLflowFailed>("@effect-tinker/studio/MLflow/MLflowFailed")(
  "MLflowFailed",
  { url: Schema.String, description: Schema.String, cause: Schema.Defect }
) {
  override get message(): string {
    return `${this.url}: ${this.description}`
  }
}

/**
 * How to prove who you are, where the server asks.
 *
 * @since 0.1.0
 * @category models
 */
export type Credential =
  | { readonly _tag: "Bearer"; readonly token: Redacted.Redacted }
  | { readonly _tag: "Basic"; readonly username: string; readonly password: Redacted.Redacted }

/**
 * Which runs to export, and where to.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** A run directory, or a directory that has some below it. */
  readonly from: string
  /** The tracking server, e.g. `http://127.0.0.1:5000`. */
  readonly url: string
  /** Made where there is none of this name. */
  readonly experiment: string
  readonly credential?: Credential | undefined
}

/**
 * A run that was exported.
 *
 * @since 0.1.0
 * @category models
 */
export interface Exported {
  readonly run: string
  /** The server's id of it. */
  readonly id: string
  /** Values that were sent; those that the server had already are not sent again. */
  readonly values: number
}

// =============================================================================
// the wire
// =============================================================================

/** Limits of the server for one request. */
const batch = { metrics: 1000, params: 100 } as const
const maxParam = 500
const maxKey = 250

interface Metric {
  readonly key: string
  /** Protobuf's JSON writes what is not finite as text. */
  readonly value: number | string
  readonly timestamp: number
  readonly step: number
}

interface Entry {
  readonly key: string
  readonly value: string
}

/** Names may have letters, digits and a few signs. */
const nameOf = (name: string): string => name.replace(/[^\w.\-/ ]/g, "_").slice(0, maxKey)

const jsonNumber = (value: number): number | string => Number.isFinite(value) ? value : String(value)

/** The values of a table after a step. */
const metricsAfter = (table: Series.Table, after: number, fallback: number): ReadonlyArray<Metric> =>
  table.names().flatMap((name) => {
    const found: Array<Metric> = []
    const key = nameOf(name)
    table.each(name, (step, value, time) => {
      if (step > after) {
        found.push({ key, value: jsonNumber(value), timestamp: Math.round(time ?? fallback), step: Math.round(step) })
      }
    })
    return found
  })

const paramsOf = (config: unknown, path = ""): ReadonlyArray<Entry> =>
  Json.isObject(config)
    ? Object.entries(config).flatMap(([key, value]) => paramsOf(value, path === "" ? key : `${path}.${key}`))
    : config === undefined || path === ""
    ? []
    : [{ key: nameOf(path), value: (typeof config === "string" ? config : JSON.stringify(config)).slice(0, maxParam) }]

const chunksOf = <A>(items: ReadonlyArray<A>, size: number): ReadonlyArray<ReadonlyArray<A>> =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size))

const statuses: Readonly<Record<RunDirectory.Status, string>> = {
  running: "RUNNING",
  gone: "KILLED",
  silent: "KILLED",
  complete: "FINISHED",
  interrupted: "KILLED",
  failed: "FAILED"
}

const Experiment = Schema.Struct({ experiment: Schema.Struct({ experiment_id: Schema.String }) })
const Created = Schema.Struct({ experiment_id: Schema.String })
const Run = Schema.Struct({
  info: Schema.Struct({ run_id: Schema.String }),
  data: Schema.optionalWith(
    Schema.Struct({
      tags: Schema.optionalWith(Schema.Array(Schema.Struct({ key: Schema.String, value: Schema.String })), {
        default: () => []
      })
    }),
    { default: () => ({ tags: [] }) }
  )
})
const CreatedRun = Schema.Struct({ run: Run })
const Found = Schema.Struct({ runs: Schema.optionalWith(Schema.Array(Run), { default: () => [] }) })

/** Which run of ours it is, and how much of it the server has. */
const tags = { run: "tinker.run", step: "tinker.step", resumes: "tinker.resumes" } as const

type Failure = HttpClientError.HttpClientError | ParseResult.ParseError

const isTransient = (error: Failure): boolean =>
  HttpClientError.isHttpClientError(error) &&
  (error._tag === "RequestError" || error.response.status >= 500 || error.response.status === 429)

const makeClient = Effect.fnUntraced(function*({ credential, url }: Options) {
  const http = HttpClient.filterStatusOk(yield* HttpClient.HttpClient)
  const base = `${url.replace(/\/+$/, "")}/api/2.0/mlflow`
  const authorize = credential === undefined
    ? (request: HttpClientRequest.HttpClientRequest) => request
    : credential._tag === "Bearer"
    ? HttpClientRequest.bearerToken(credential.token)
    : HttpClientRequest.basicAuth(credential.username, credential.password)
  const decode = <A, I>(schema: Schema.Schema<A, I>) => Schema.decodeUnknown(schema)
  const call = <A, I>(request: HttpClientRequest.HttpClientRequest, schema: Schema.Schema<A, I>) =>
    http.execute(authorize(request)).pipe(
      Effect.flatMap((response) => response.json),
      Effect.flatMap(decode(schema)),
      Effect.scoped,
      Effect.timeoutFail({
        duration: "60 seconds",
        onTimeout: () => new HttpClientError.RequestError({ request, reason: "Transport", description: "timed out" })
      }),
      // Everything that is sent can be sent again: the server keeps equal values once.
      Effect.retry({ schedule: Schedule.exponential("200 millis"), times: 4, while: isTransient })
    )
  /** In the server's words where it said some. */
  const explain = (cause: Failure) =>
    HttpClientError.isHttpClientError(cause) && cause._tag === "ResponseError"
      ? cause.response.text.pipe(
        Effect.orElseSucceed(() => ""),
        Effect.map((body) => Json.textOf(Json.objectOf(Json.parse(body))["message"]) ?? cause.message)
      )
      : Effect.succeed(cause.message)
  const failed = <A>(effect: Effect.Effect<A, Failure>): Effect.Effect<A, MLflowFailed> =>
    Effect.catchAll(
      effect,
      (cause) => Effect.flatMap(explain(cause), (description) => new MLflowFailed({ url, description, cause }))
    )
  return {
    failed,
    get: <A, I>(path: string, query: Record<string, string>, schema: Schema.Schema<A, I>) =>
      call(HttpClientRequest.get(`${base}/${path}`, { urlParams: query }), schema),
    post: <A, I>(path: string, body: unknown, schema: Schema.Schema<A, I>) =>
      failed(call(HttpClientRequest.bodyUnsafeJson(HttpClientRequest.post(`${base}/${path}`), body), schema))
  }
})

type Client = Effect.Effect.Success<ReturnType<typeof makeClient>>

// =============================================================================
// runs
// =============================================================================

const experimentId = (client: Client, name: string): Effect.Effect<string, MLflowFailed> =>
  client.get("experiments/get-by-name", { experiment_name: name }, Experiment).pipe(
    Effect.map(({ experiment }) => experiment.experiment_id),
    Effect.catchIf(
      (error) => error._tag === "ResponseError" && error.response.status === 404,
      () => Effect.succeed(undefined)
    ),
    client.failed,
    Effect.flatMap((found) =>
      found === undefined
        ? Effect.map(client.post("experiments/create", { name }, Created), (made) => made.experiment_id)
        : Effect.succeed(found)
    )
  )

/** The run of an earlier export and the last step it has; a new one where there is none, or none that still holds. */
const findRun = Effect.fnUntraced(function*(
  client: Client,
  experiment: string,
  name: string,
  detail: RunDirectory.Detail,
  now: number
) {
  const mark = encodeURIComponent(name).replaceAll("'", "%27")
  const { runs } = yield* client.post("runs/search", {
    experiment_ids: [experiment],
    filter: `tags.\`${tags.run}\` = '${mark}'`,
    max_results: 100
  }, Found)
  for (const { data, info } of runs) {
    const tag = (key: string) => data.tags.find((other) => other.key === key)?.value
    const step = Number(tag(tags.step) ?? NaN)
    if (tag(tags.resumes) === String(detail.resumes) && Number.isFinite(step)) return { id: info.run_id, after: step }
    yield* client.post("runs/delete", { run_id: info.run_id }, Schema.Unknown)
  }
  const { run } = yield* client.post("runs/create", {
    experiment_id: experiment,
    run_name: name,
    start_time: Math.round(detail.startedAt ?? now),
    tags: [{ key: tags.run, value: mark }, { key: tags.resumes, value: String(detail.resumes) }]
  }, CreatedRun)
  return { id: run.info.run_id, after: -Infinity }
})

const exportRun = Effect.fnUntraced(function*(
  client: Client,
  experiment: string,
  name: string,
  { detail, table }: { readonly detail: RunDirectory.Detail; readonly table: Series.Table }
) {
  const now = yield* Clock.currentTimeMillis
  const { after, id } = yield* findRun(client, experiment, name, detail, now)
  const log = (body: object) => client.post("runs/log-batch", { run_id: id, ...body }, Schema.Unknown)
  const values = metricsAfter(table, after, detail.startedAt ?? now)
  if (after === -Infinity) {
    const facts = [["model", detail.model], ["trainer", detail.trainer]].map(([key, value]) => ({ key, value }))
    for (const params of chunksOf(paramsOf(detail.config), batch.params)) yield* log({ params })
    yield* log({ tags: facts })
  }
  for (const metrics of chunksOf(values, batch.metrics)) yield* log({ metrics })
  // Last, so that an export that was cut off sends everything again.
  yield* log({ tags: [{ key: tags.step, value: String(table.lastStep() ?? -1) }] })
  const over = detail.status === "running" ? {} : { end_time: Math.round(detail.updatedAt ?? now) }
  yield* client.post("runs/update", { run_id: id, status: statuses[detail.status], ...over }, Schema.Unknown)
  const exported: Exported = { run: name, id, values: values.length }
  return exported
})

/**
 * Exports all runs below a directory.
 *
 * @since 0.1.0
 * @category constructors
 */
export const write: (
  options: Options
) => Effect.Effect<
  ReadonlyArray<Exported>,
  MLflowFailed,
  FileSystem.FileSystem | Path.Path | HttpClient.HttpClient
> = Effect.fnUntraced(function*(options) {
  const client = yield* makeClient(options)
  const runs = yield* RunDirectory.readAll(options.from)
  if (runs.length === 0) return []
  const experiment = yield* experimentId(client, options.experiment)
  return yield* Effect.forEach(runs, ({ name, ...run }) => exportRun(client, experiment, name, run))
})
