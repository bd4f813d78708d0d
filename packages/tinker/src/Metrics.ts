/**
 * Counters of the SDK as Effect metrics: read them with `Metric.value`, or let an exporter
 * (`@effect/opentelemetry`) read all of them. They are for you; nothing here is sent to the service.
 *
 * Counting costs a few additions for each request, whether someone reads or not. Times are milliseconds.
 *
 * @since 0.1.0
 */
import * as Metric from "effect/Metric"
import * as MetricBoundaries from "effect/MetricBoundaries"
import type * as MetricKeyType from "effect/MetricKeyType"
import type * as MetricState from "effect/MetricState"

/**
 * A distribution of milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export type Millis = Metric.Metric<MetricKeyType.MetricKeyType.Histogram, number, MetricState.MetricState.Histogram>

const counter = (name: string, description: string): Metric.Metric.Counter<number> =>
  Metric.counter(name, { description, incremental: true })

/** From a millisecond to more than half an hour, doubling. */
const millis = (name: string, description: string): Millis =>
  Metric.histogram(name, MetricBoundaries.exponential({ start: 1, factor: 2, count: 22 }), description)

/**
 * HTTP requests sent, each attempt and each poll counted. Tag: `endpoint`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const requests = counter("tinker_requests_total", "HTTP requests sent")

/**
 * Attempts that failed. Tags: `endpoint`, `error` (the tag of the `TinkerError`).
 *
 * @since 0.1.0
 * @category metrics
 */
export const failures = counter("tinker_failures_total", "Attempts that failed")

/**
 * Attempts retried. Tag: `endpoint`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const retries = counter("tinker_retries_total", "Attempts retried")

/**
 * Time spent waiting before attempts were made again. Tag: `endpoint`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const backoffTime = counter("tinker_backoff_milliseconds_total", "Time spent waiting between attempts")

/**
 * Requests in flight. Tag: `pool`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const inFlight: Metric.Metric.Gauge<number> = Metric.gauge("tinker_in_flight", {
  description: "HTTP requests in flight"
})

/**
 * Bytes of request bodies. Tag: `endpoint`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const bytesSent = counter("tinker_sent_bytes_total", "Bytes of request bodies")

/**
 * Bytes of response bodies. Tag: `endpoint`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const bytesReceived = counter("tinker_received_bytes_total", "Bytes of response bodies")

/**
 * Time an operation waited in this process before it was sent. Tag: `queue` (`turn`: for earlier operations of its
 * model; `dispatch`: for a place among the samples in flight).
 *
 * @since 0.1.0
 * @category metrics
 */
export const queueWait = millis("tinker_queue_wait_milliseconds", "Time spent queued in the client before sending")

/**
 * Time from the start of an operation to its result. Tag: `operation` (`ForwardBackward`, `OptimStep`, `Sample`, …).
 *
 * @since 0.1.0
 * @category metrics
 */
export const operationTime = millis("tinker_operation_milliseconds", "Time from start to result")

/**
 * Time from one optimizer step's result to the next one's of the same model.
 *
 * @since 0.1.0
 * @category metrics
 */
export const stepTime = millis("tinker_step_milliseconds", "Time between two optimizer steps of a model")

/**
 * Tokens given to the service: prompts and training data. Tag: `operation`.
 *
 * @since 0.1.0
 * @category metrics
 */
export const tokensIn = counter("tinker_tokens_in_total", "Tokens given to the service")

/**
 * Tokens sampled by the service.
 *
 * @since 0.1.0
 * @category metrics
 */
export const tokensOut = counter("tinker_tokens_out_total", "Tokens sampled by the service")

/**
 * Events reported to the service.
 *
 * @since 0.1.0
 * @category metrics
 */
export const telemetryEvents = counter("tinker_telemetry_events_total", "Events reported to the service")

/**
 * Events that were not reported: the queue was full, or the service did not take them.
 *
 * @since 0.1.0
 * @category metrics
 */
export const telemetryDropped = counter("tinker_telemetry_dropped_total", "Events that were not reported")
