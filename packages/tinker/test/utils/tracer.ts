import { Cause, Exit, Option, Tracer } from "effect"

export interface Recorded {
  readonly name: string
  readonly spanId: string
  readonly traceId: string
  readonly parent: string | undefined
  readonly kind: Tracer.SpanKind
  readonly attributes: Record<string, unknown>
  readonly start: bigint
  end: bigint | undefined
  failure: string | undefined
  exit: Exit.Exit<unknown, unknown> | undefined
}

/** A tracer that keeps what it is given. */
export const recording = () => {
  const spans: Array<Recorded> = []
  const tracer = Tracer.make({
    span: (name, parent, context, links, startTime, kind, options) => {
      const id = spans.length + 1
      const up = Option.getOrUndefined(parent)
      const one: Recorded = {
        name,
        spanId: id.toString(16).padStart(16, "0"),
        traceId: up?.traceId ?? id.toString(16).padStart(32, "a"),
        parent: up?.spanId,
        kind,
        attributes: { ...options?.attributes },
        start: startTime,
        end: undefined,
        failure: undefined,
        exit: undefined
      }
      spans.push(one)
      const attributes = new Map(Object.entries(one.attributes))
      return {
        _tag: "Span",
        name,
        spanId: one.spanId,
        traceId: one.traceId,
        parent,
        context,
        links: [...links],
        kind,
        sampled: true,
        status: { _tag: "Started", startTime },
        attributes,
        end: (endTime, exit) => {
          one.end = endTime
          one.exit = exit
          if (Exit.isFailure(exit)) one.failure = Cause.pretty(exit.cause, { renderErrorCause: true })
        },
        attribute: (key, value) => {
          one.attributes[key] = value
          attributes.set(key, value)
        },
        event: (event, _, given) => {
          one.attributes[`event.${event}`] = given
        },
        addLinks: () => undefined
      }
    },
    context: (f) => f()
  })
  return {
    tracer,
    spans,
    named: (name: string) => spans.filter((span) => span.name === name),
    /** Names from the outermost span to this one. */
    path: (span: Recorded): string => pathOf(spans, span)
  }
}

const pathOf = (spans: ReadonlyArray<Recorded>, span: Recorded): string => {
  const up = spans.find((other) => other.spanId === span.parent)
  return up === undefined ? span.name : `${pathOf(spans, up)} > ${span.name}`
}
