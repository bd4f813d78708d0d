/**
 * Ours over TLS, with HTTP/2 or without.
 */
import { Effect, Layer, Logger, ManagedRuntime } from "effect"
import { ModelInput, SamplingClient, ServiceClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { prompt, serve } from "../sampling/measure.js"
import { tls } from "./tls.js"

const [base, version] = process.argv.slice(2)

const runtime = ManagedRuntime.make(
  SamplingClient.layer({ baseModel: "bench" }).pipe(
    Layer.provide(ServiceClient.layer({ baseUrl: base, apiKey: "tml-bench" })),
    Layer.provide(NodeTinker.layer({ caFile: tls("authority.pem"), http2: version === "2" })),
    // figures are all that may be on standard output
    Layer.provideMerge(Logger.replace(Logger.defaultLogger, Logger.withConsoleError(Logger.logfmtLogger)))
  )
)

const client = await runtime.runPromise(SamplingClient.SamplingClient)
const request = { prompt: ModelInput.fromInts(prompt), maxTokens: 200 }

serve(() => runtime.runPromise(Effect.asVoid(client.sample(request))))
