/**
 * The embedded backend behind one port, with a recorder in front. Each side of each scenario has a backend of its own,
 * at a path of its own.
 */
import { Engine, Faults, LocalServer, Storage } from "@effect-tinker/local"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import type { HttpServerError } from "@effect/platform"
import { Clock, Context, Effect, Layer } from "effect"
import type { Scope } from "effect"
import type { Scenario } from "./Scenario.js"

export type Side = "theirs" | "ours"

/** A request as it arrived, and what became of it. */
export interface Seen {
  readonly method: string
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Uint8Array
  readonly at: number
  /** When it was answered, with which status (0 for a broken connection) and with which JSON. */
  answer: { readonly at: number; readonly status: number; readonly json: unknown } | undefined
}

export interface Recorder {
  /** Sets up the backend of a scenario and gives its address. */
  readonly open: (side: Side, scenario: Scenario) => Effect.Effect<string, never, Scope.Scope>
  readonly seen: (side: Side, scenario: Scenario) => ReadonlyArray<Seen>
}

interface Recording {
  readonly backend: LocalServer.Service
  readonly seen: Array<Seen>
}

const keyOf = (side: Side, scenario: Scenario): string => `${side}/${scenario.name}`

const parsed = ({ body, headers }: LocalServer.Response): unknown => {
  if (!(body instanceof Uint8Array) || headers["content-type"]?.includes("json") !== true) return undefined
  try {
    return JSON.parse(new TextDecoder().decode(body))
  } catch {
    return undefined
  }
}

/** `retry-after: in 4 s` becomes the date it will be then, which no rule can know beforehand. */
const dated = (response: LocalServer.Response, now: number): LocalServer.Response => {
  const seconds = /^in (\d+) s$/.exec(response.headers["retry-after"] ?? "")?.[1]
  return seconds === undefined ? response : {
    ...response,
    headers: { ...response.headers, "retry-after": new Date(now + Number(seconds) * 1000).toUTCString() }
  }
}

const elsewhere: LocalServer.Response = { status: 404, headers: {}, body: undefined }

export const make: Effect.Effect<Recorder, HttpServerError.ServeError, Scope.Scope> = Effect.gen(function*() {
  const recordings = new Map<string, Recording>()
  const engine = Layer.succeed(Engine.Engine, yield* Engine.make())

  const handle: LocalServer.Service["handle"] = Effect.fnUntraced(function*(request) {
    const [, key, path] = /^\/([^/]+\/[^/]+)(\/.*)$/.exec(request.url.pathname) ?? []
    const recording = recordings.get(key ?? "")
    if (recording === undefined || path === undefined) return elsewhere
    const body = yield* LocalServer.readBody(request)
    const seen: Seen = {
      method: request.method,
      path,
      query: Object.fromEntries(request.url.searchParams),
      headers: request.headers,
      body,
      at: yield* Clock.currentTimeMillis,
      answer: undefined
    }
    recording.seen.push(seen)
    const answered = (status: number, json?: unknown) =>
      Effect.map(Clock.currentTimeMillis, (at) => {
        seen.answer = { at, status, json }
      })
    const response = yield* recording.backend.handle({ ...request, body }).pipe(
      Effect.tapBoth({
        onFailure: () => answered(0),
        onSuccess: (response) => answered(response.status, parsed(response))
      })
    )
    return dated(response, yield* Clock.currentTimeMillis)
  })

  const front: LocalServer.Service = {
    handle,
    yieldIfDue: Effect.void,
    models: [],
    importAdapter: () => new LocalServer.ImportRefused({ description: "a recorder keeps no checkpoints" }),
    endpoints: [],
    pause: () => Effect.void,
    resume: Effect.void,
    activity: Effect.succeed({ requests: 0, models: 0, tokens: 0 }),
    setClientConfig: () => Effect.void,
    setDynamicConfig: () => Effect.void
  }
  const { baseUrl } = yield* NodeTinkerLocal.listen(front)

  return {
    open: Effect.fnUntraced(function*(side, scenario) {
      const context = yield* Layer.build(
        LocalServer.layer(scenario.server).pipe(
          Layer.provide([engine, Storage.layerMemory, Faults.layer({ rules: scenario.faults })])
        )
      ).pipe(Effect.orDie)
      const key = keyOf(side, scenario)
      recordings.set(key, { backend: Context.get(context, LocalServer.LocalServer), seen: [] })
      return `${baseUrl}/${key}`
    }),
    seen: (side, scenario) => recordings.get(keyOf(side, scenario))?.seen ?? []
  }
})
