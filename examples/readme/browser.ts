import { FetchHttpClient } from "@effect/platform"
import * as ServiceClient from "effect-tinker/ServiceClient"
import * as Layer from "effect/Layer"

const service = (baseUrl: string, apiKey: string) =>
  ServiceClient.layer({ baseUrl, apiKey }).pipe(Layer.provide(FetchHttpClient.layer))

export { service }
