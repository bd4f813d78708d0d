/**
 * Timeline of a session's operations as a Perfetto trace: one track for each model and sampler.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** One operation, from when work on it began to when it ended. @internal */
export interface Span {
  /** The model or sampler it belongs to. */
  readonly track: string
  readonly name: string
  /** Milliseconds. */
  readonly start: number
  readonly end: number
}

/** @internal */
export interface TraceShape {
  /** Runs an effect and notes when. */
  readonly span: <A, E, R>(
    sessionId: string | undefined,
    track: string,
    name: string,
    effect: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E, R>
  readonly export: (sessionId: string) => Uint8Array
}

/** @internal */
export class Trace extends Context.Tag("@effect-tinker/local/Trace")<Trace, TraceShape>() {}

// what is kept of one session; older operations are forgotten first
const maxSpans = 20_000

const utf8 = new TextEncoder()

const varint = (value: bigint): ReadonlyArray<number> => {
  const bytes: Array<number> = []
  let rest = value
  while (rest >= 0x80n) {
    bytes.push(Number(rest & 0x7fn) | 0x80)
    rest >>= 7n
  }
  return [...bytes, Number(rest)]
}

const integer = (field: number, value: bigint | number): ReadonlyArray<number> => [
  ...varint(BigInt(field << 3)),
  ...varint(BigInt(value))
]

const bytes = (field: number, content: ArrayLike<number>): ReadonlyArray<number> => [
  ...varint(BigInt((field << 3) | 2)),
  ...varint(BigInt(content.length)),
  ...Array.from(content)
]

const text = (field: number, content: string): ReadonlyArray<number> => bytes(field, utf8.encode(content))

// Perfetto's own field numbers: Trace.packet 1; TracePacket.timestamp 8, .trusted_packet_sequence_id 10,
// .track_event 11, .track_descriptor 60; TrackDescriptor.uuid 1, .name 2; TrackEvent.type 9, .track_uuid 11, .name 23.
const packet = (...fields: ReadonlyArray<ReadonlyArray<number>>): ReadonlyArray<number> =>
  bytes(1, [...fields.flat(), ...integer(10, 1)])

const event = (at: number, type: "begin" | "end", track: number, name?: string) =>
  packet(
    integer(8, BigInt(Math.round(at * 1e6))),
    bytes(11, [
      ...integer(9, type === "begin" ? 1 : 2),
      ...integer(11, track),
      ...(name === undefined ? [] : text(23, name))
    ])
  )

/** @internal */
export const encode = (spans: ReadonlyArray<Span>): Uint8Array => {
  const tracks = new Map<string, number>()
  const out: Array<number> = []
  const add = (part: ReadonlyArray<number>) => {
    for (const byte of part) out.push(byte)
  }
  const timeline: Array<{ readonly at: number; readonly packet: ReadonlyArray<number> }> = []
  for (const span of spans) {
    let track = tracks.get(span.track)
    if (track === undefined) {
      track = tracks.size + 1
      tracks.set(span.track, track)
      add(packet(bytes(60, [...integer(1, track), ...text(2, span.track)])))
    }
    timeline.push({ at: span.start, packet: event(span.start, "begin", track, span.name) })
    timeline.push({ at: span.end, packet: event(span.end, "end", track) })
  }
  for (const entry of timeline.sort((a, b) => a.at - b.at)) add(entry.packet)
  return Uint8Array.from(out)
}

/** @internal */
export const layer: Layer.Layer<Trace> = Layer.sync(Trace, () => {
  const sessions = new Map<string, Array<Span>>()
  return Trace.of({
    span: (sessionId, track, name, effect) =>
      sessionId === undefined ? effect : Effect.flatMap(Clock.currentTimeMillis, (start) =>
        Effect.ensuring(
          effect,
          Effect.map(Clock.currentTimeMillis, (end) => {
            const spans = sessions.get(sessionId) ?? []
            if (spans.length >= maxSpans) spans.shift()
            spans.push({ track, name, start, end })
            sessions.set(sessionId, spans)
          })
        )),
    export: (sessionId) => encode(sessions.get(sessionId) ?? [])
  })
})
