import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Checkpoint from "../../Checkpoint.js"
import type * as Endpoint from "../../Endpoint.js"
import * as Id from "../../Id.js"
import * as TinkerError from "../../TinkerError.js"
import * as Observer from "../observability/observer.js"
import type * as ApiClient from "../transport/apiClient.js"
import * as ErrorChannel from "../transport/errorChannel.js"
import * as Input from "../transport/input.js"
import * as startup from "../transport/startup.js"

/** @internal */
export type Call<A> = Effect.Effect<A, TinkerError.RestError>

/** @internal */
export const module = "RestClient"

/** @internal */
export const invalid = (method: string, description: string) =>
  new TinkerError.InvalidInput({ module, method, description })

/** @internal */
export const request = <A>(method: string, build: () => A): Call<A> => Input.request({ module, method }, build)

const id = <A>(method: string, what: string, value: string, make: (value: string) => A): Call<A> =>
  value === "" ? invalid(method, `the ${what} is empty`) : Effect.sync(() => make(value))

/** @internal */
export const runId = (method: string, value: string) => id(method, "training run id", value, Id.ModelId.make)

/** @internal */
export const sessionId = (method: string, value: string) => id(method, "session id", value, Id.SessionId.make)

/** @internal */
export const samplerId = (method: string, value: string) => id(method, "sampler id", value, Id.SamplingSessionId.make)

/** @internal */
export const checkpointPath = (method: string, tinkerPath: string): Call<Checkpoint.ParsedPath> =>
  Either.mapLeft(Checkpoint.parsePath(tinkerPath), (error) => invalid(method, error.description ?? "not a path"))

/** @internal */
export interface Caller {
  readonly via: ApiClient.Service
  /** Reads the server's configuration, once: it decides which credential the calls present. */
  readonly begin: Call<void>
  readonly call: <Request, Response>(
    method: string,
    endpoint: Endpoint.Endpoint<Request, Response>,
    request: Request,
    options?: ApiClient.CallOptions
  ) => Call<Response>
}

/** @internal */
export const make = (via: ApiClient.Service): Caller => {
  let configured = false
  const begin: Call<void> = Effect.suspend(() =>
    configured ?
      Effect.void :
      Effect.map(ErrorChannel.request(startup.configure(via, { from: { module, method: "connect" } })), () => {
        configured = true
      })
  )
  return {
    via,
    begin,
    call: (method, endpoint, request, options = {}) =>
      Observer.reported(
        via.emit,
        Effect.zipRight(
          begin,
          ErrorChannel.request(via.call(endpoint, request, { ...options, from: { module, method } }))
        )
      )
  }
}
