/**
 * Refusals as the service gives them.
 *
 * @since 0.1.0
 */
import * as Api from "effect-tinker/Api"
import { ModelId } from "effect-tinker/Id"
import { LoraConfig } from "effect-tinker/LoraConfig"
import * as Model from "effect-tinker/Model"
import * as Effect from "effect/Effect"
import type { Check } from "./support.js"
import { check, need, option, refused, step } from "./support.js"

/** @internal */
export const errors: ReadonlyArray<Check> = [
  option("no key is refused", (probe) => refused(probe.send("GET", Api.capabilities.path, { key: false }), 401, 403)),
  option(
    "an unknown base model is refused",
    (probe, known) =>
      Effect.flatMap(need(known, "sessionId"), (sessionId) =>
        refused(
          probe.ask(
            Api.createModel,
            new Model.CreateModelRequest({
              sessionId,
              modelSeqId: known.models++,
              baseModel: "no/such-model",
              loraConfig: new LoraConfig({ rank: 8 })
            })
          ),
          400,
          404,
          422
        ))
  ),
  option(
    "an unknown model is refused",
    (probe) => refused(probe.ask(Api.optimStep, step(ModelId.make("no-such:train:0"), 1)), 400, 404)
  ),
  check("a body that is no JSON is refused", (probe) =>
    refused(
      probe.send("POST", Api.optimStep.path, { body: "{", headers: { "content-type": "application/json" } }),
      400,
      422
    )),
  check("a poll for nothing is refused", (probe) =>
    refused(
      probe.ask(Api.retrieveFuture, { requestId: "no-such-request", allowMetadataOnly: true }),
      400,
      404,
      410
    )),
  check("an unknown path is not found", (probe) => refused(probe.send("GET", "/api/v1/no_such_path"), 404))
]
