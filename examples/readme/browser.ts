import * as ServiceClient from "effect-tinker/ServiceClient"
import * as TinkerTransport from "effect-tinker/TinkerTransport"
import * as Layer from "effect/Layer"

const service = (baseUrl: string, apiKey: string) =>
  ServiceClient.layer({ baseUrl, apiKey }).pipe(Layer.provide(TinkerTransport.layerFetch))

export { service }
