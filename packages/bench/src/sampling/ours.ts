/**
 * Ours as people use it on Node: everything on.
 */
import { Effect, Layer, ManagedRuntime } from "effect"
import { ModelInput, SamplingClient, ServiceClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { prompt, serve } from "./measure.js"

const [base] = process.argv.slice(2)

const runtime = ManagedRuntime.make(
  SamplingClient.layer({ baseModel: "bench" }).pipe(
    Layer.provide(ServiceClient.layer({ baseUrl: base, apiKey: "tml-bench" })),
    Layer.provide(NodeTinker.layer())
  )
)

const client = await runtime.runPromise(SamplingClient.SamplingClient)
const request = { prompt: ModelInput.fromInts(prompt), maxTokens: 200 }

serve(() => runtime.runPromise(Effect.asVoid(client.sample(request))))
