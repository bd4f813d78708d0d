/**
 * The smallest thing that takes OpenTelemetry over HTTP: it keeps the spans, metrics and log records it is sent.
 */
import { Effect, Schema } from "effect"
import { createServer } from "node:http"

const Value = Schema.Struct({
  stringValue: Schema.optional(Schema.String),
  intValue: Schema.optional(Schema.Union(Schema.String, Schema.Number)),
  doubleValue: Schema.optional(Schema.Number),
  boolValue: Schema.optional(Schema.Boolean)
})

const Attributes = Schema.Array(Schema.Struct({ key: Schema.String, value: Value }))

const Span = Schema.Struct({
  traceId: Schema.String.pipe(Schema.pattern(/^[0-9a-f]{32}$/)),
  spanId: Schema.String.pipe(Schema.pattern(/^[0-9a-f]{16}$/)),
  parentSpanId: Schema.optional(Schema.String),
  name: Schema.String,
  startTimeUnixNano: Schema.NumberFromString,
  endTimeUnixNano: Schema.NumberFromString,
  attributes: Attributes,
  status: Schema.Struct({ code: Schema.Number, message: Schema.optional(Schema.String) })
})

const Point = Schema.Struct({
  attributes: Attributes,
  asDouble: Schema.optional(Schema.Number),
  asInt: Schema.optional(Schema.Union(Schema.String, Schema.Number)),
  count: Schema.optional(Schema.Union(Schema.String, Schema.Number)),
  sum: Schema.optional(Schema.Number)
})

const Points = Schema.optional(Schema.Struct({ dataPoints: Schema.Array(Point) }))

const Metric = Schema.Struct({ name: Schema.String, sum: Points, gauge: Points, histogram: Points })

const LogRecord = Schema.Struct({ severityText: Schema.String, body: Schema.Unknown, attributes: Attributes })

const Traces = Schema.parseJson(Schema.Struct({
  resourceSpans: Schema.Array(Schema.Struct({
    scopeSpans: Schema.Array(Schema.Struct({ spans: Schema.Array(Span) }))
  }))
}))

const Metrics = Schema.parseJson(Schema.Struct({
  resourceMetrics: Schema.Array(Schema.Struct({
    scopeMetrics: Schema.Array(Schema.Struct({ metrics: Schema.Array(Metric) }))
  }))
}))

const Logs = Schema.parseJson(Schema.Struct({
  resourceLogs: Schema.Array(Schema.Struct({
    scopeLogs: Schema.Array(Schema.Struct({ logRecords: Schema.Array(LogRecord) }))
  }))
}))

/** Attributes by name. */
export const attributesOf = (
  { attributes }: { readonly attributes: typeof Attributes.Type }
): Readonly<Record<string, string | number | boolean | undefined>> =>
  Object.fromEntries(attributes.map(({ key, value }) => [
    key,
    value.stringValue ?? value.doubleValue ?? value.boolValue ??
      (value.intValue === undefined ? undefined : Number(value.intValue))
  ]))

export type Span = typeof Span.Type

export interface Collector {
  /** What exporters take as their base URL. */
  readonly url: string
  readonly spans: ReadonlyArray<Span>
  /** The latest value of each metric. */
  readonly metrics: ReadonlyMap<string, typeof Metric.Type>
  readonly logs: ReadonlyArray<typeof LogRecord.Type>
  /** Bodies as they came. */
  readonly received: ReadonlyArray<string>
  /** Why a body was refused. */
  readonly refused: ReadonlyArray<string>
}

/** Listens on a port of its own until the scope closes. */
export const start = Effect.acquireRelease(
  Effect.async<Collector & { readonly close: () => void }>((resume) => {
    const spans: Array<Span> = []
    const metrics = new Map<string, typeof Metric.Type>()
    const logs: Array<typeof LogRecord.Type> = []
    const received: Array<string> = []
    const refused: Array<string> = []
    const take = (path: string, body: string): void => {
      switch (path) {
        case "/v1/traces":
          for (const resource of Schema.decodeSync(Traces)(body).resourceSpans) {
            for (const scope of resource.scopeSpans) spans.push(...scope.spans)
          }
          return
        case "/v1/metrics":
          for (const resource of Schema.decodeSync(Metrics)(body).resourceMetrics) {
            for (const scope of resource.scopeMetrics) for (const one of scope.metrics) metrics.set(one.name, one)
          }
          return
        case "/v1/logs":
          for (const resource of Schema.decodeSync(Logs)(body).resourceLogs) {
            for (const scope of resource.scopeLogs) logs.push(...scope.logRecords)
          }
          return
        default:
          throw new Error(`there is nothing at ${path}`)
      }
    }
    const server = createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        const body = Buffer.concat(chunks).toString()
        received.push(body)
        try {
          take(request.url ?? "", body)
          response.writeHead(200, { "content-type": "application/json" }).end("{}")
        } catch (cause) {
          refused.push(String(cause))
          response.writeHead(400).end()
        }
      })
    })
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      const close = () => {
        server.close()
        server.closeAllConnections()
      }
      resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, spans, metrics, logs, received, refused, close }))
    })
  }),
  ({ close }) => Effect.sync(close)
)
