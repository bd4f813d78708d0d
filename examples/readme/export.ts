import * as Otlp from "@effect/opentelemetry/Otlp"
import { FetchHttpClient } from "@effect/platform"
import { Layer } from "effect"
import { ServiceClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"

const Observability = Otlp.layerJson({
  baseUrl: "http://localhost:4318",
  resource: { serviceName: "training-run" }
}).pipe(Layer.provide(FetchHttpClient.layer))

const Service = ServiceClient.layerFromEnv().pipe(
  Layer.provide(NodeTinker.layerFromEnv()),
  Layer.provideMerge(Observability)
)

export { Service }
