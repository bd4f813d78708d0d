/**
 * Spans of a training step, sent to an OpenTelemetry collector. The collector here is a server that counts them.
 */
import { TinkerLocal } from "@effect-tinker/local"
import * as Otlp from "@effect/opentelemetry/Otlp"
import { HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse } from "@effect/platform"
import { NodeHttpClient, NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer, Schema } from "effect"
import { Datum, TinkerFuture, TrainingClient } from "effect-tinker"
import { createServer } from "node:http"

const model = "local/small"

const Traces = Schema.Struct({
  resourceSpans: Schema.Array(Schema.Struct({
    scopeSpans: Schema.Array(Schema.Struct({ spans: Schema.Array(Schema.Struct({ name: Schema.String })) }))
  }))
})

const seen = new Map<string, number>()

const Server = HttpRouter.empty.pipe(
  HttpRouter.post(
    "/v1/traces",
    Effect.gen(function*() {
      const { resourceSpans } = yield* HttpServerRequest.schemaBodyJson(Traces)
      for (const { name } of resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))) {
        seen.set(name, (seen.get(name) ?? 0) + 1)
      }
      return HttpServerResponse.empty()
    })
  ),
  HttpRouter.all("*", HttpServerResponse.empty()),
  HttpServer.serve(),
  Layer.provideMerge(NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" }))
)

const collector = (baseUrl: string) =>
  Otlp.layerJson({ baseUrl, resource: { serviceName: "my-training" }, shutdownTimeout: "20 seconds" }).pipe(
    Layer.provide(NodeHttpClient.layerUndici)
  )

const train = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 8, seed: 1 })
  const batch = [yield* Datum.fromTokens([3, 1, 4, 1, 5, 9, 2, 6])]
  yield* training.trainStep(batch, "cross_entropy", { learningRate: 1e-4 }).pipe(TinkerFuture.await)
}).pipe(Effect.scoped, Effect.withSpan("my-step"))

const program = Effect.gen(function*() {
  const url = yield* HttpServer.addressFormattedWith(Effect.succeed)
  // The last spans leave when the layer is closed.
  yield* Effect.provide(train, TinkerLocal.layer().pipe(Layer.provideMerge(collector(url))))
  for (const name of ["my-step", "TrainingClient.trainStep", "tinker.encode", "tinker.send"]) {
    yield* Console.log(`${name}: ${seen.has(name) ? "arrived" : "missing"}`)
  }
})

NodeRuntime.runMain(program.pipe(Effect.provide(Server)))
