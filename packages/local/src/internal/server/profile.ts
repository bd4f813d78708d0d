/**
 * The eras of the wire, so that clients of each can be tested against a server of their time.
 */
import * as Effect from "effect/Effect"
import { HttpFailure, json } from "./message.js"
import type { Call, Route } from "./router.js"

/**
 * - `0.36`: today's: passes and results in protobuf, and whatever came with it.
 * - `0.24`: that of `tinker` 0.24.1, which most self-hosted servers implement: passes and results in JSON alone,
 *   `/forward` for passes without gradients, no dynamic configuration, no end of a session.
 *
 * @internal
 */
export type Profile = "0.24" | "0.36"

/** Endpoints that came after 0.24, by name. */
const later: ReadonlySet<string> = new Set([
  "dynamicConfig",
  "finishSession",
  "joinSamplingSession",
  "retrieveFutures",
  "cancelFuture",
  "saveWeightsExternal",
  "externalWeightsUrls",
  "copyWeights",
  "createCustomLoss",
  "searchSessions",
  "checkpointStorage",
  "apiKeyInfo",
  "deleteApiKey"
])

/** Flags of the client configuration that came after 0.24. */
const laterFlags = [
  "fwdbwd_max_chunk_len",
  "fwdbwd_max_chunk_bytes_count",
  "fwdbwd_dispatch_bytes_semaphore_size",
  "sample_use_retrieve_futures",
  "custom_loss_server_side",
  "sample_join_sampling_session"
]

/** FastAPI's answer to a body that is not JSON. */
const notJson = new HttpFailure({
  status: 422,
  detail: [{
    type: "model_attributes_type",
    loc: ["body"],
    msg: "Input should be a valid dictionary or object to extract fields from"
  }]
})

const isProtobuf = (header: string | undefined): boolean => header?.includes("application/x-protobuf") === true

const text = new TextDecoder()

const early = <R>(route: Route<R>): Route<R> => {
  switch (route.name) {
    case "forward":
    case "forwardBackward":
      return {
        ...route,
        handle: (call, params, query) =>
          isProtobuf(call.headers["content-type"]) ? notJson : route.handle(call, params, query)
      }
    case "retrieveFuture":
      return {
        ...route,
        handle: (call, params, query) => {
          const asked: Call = { ...call, headers: { ...call.headers, accept: "application/json" } }
          return route.handle(asked, params, query)
        }
      }
    case "clientConfig":
      return {
        ...route,
        handle: (call, params, query) =>
          Effect.map(route.handle(call, params, query), (reply) => {
            if (!(reply.body instanceof Uint8Array)) return reply
            const flags = Object.entries(JSON.parse(text.decode(reply.body)))
            return json(reply.status, Object.fromEntries(flags.filter(([flag]) => !laterFlags.includes(flag))))
          })
      }
    default:
      return route
  }
}

/** The routes a server of that time has. @internal */
export const apply = <R>(profile: Profile, routes: ReadonlyArray<Route<R>>): ReadonlyArray<Route<R>> =>
  profile === "0.36" ? routes : routes.filter(({ name }) => !later.has(name)).map(early)
