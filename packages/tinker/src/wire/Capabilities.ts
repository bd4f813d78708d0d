/**
 * Models and limits of a server.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { lenient, optional, required } from "../internal/wire/json.js"

/**
 * A model of the server's catalogue.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SupportedModel extends Schema.Class<SupportedModel>("effect-tinker/Capabilities/SupportedModel")({
  modelName: optional(Schema.String, "model_name"),
  maxContextLength: optional(Schema.Int, "max_context_length"),
  /** Whether it can be trained; older servers do not say. */
  trainable: optional(Schema.Boolean, "trainable"),
  /** Whether it can be sampled from; older servers do not say. */
  sampleable: optional(Schema.Boolean, "sampleable")
}, lenient) {}

/**
 * Models and limits of a server.
 *
 * @since 0.1.0
 * @category schemas
 */
export class GetServerCapabilitiesResponse
  extends Schema.Class<GetServerCapabilitiesResponse>("effect-tinker/Capabilities/GetServerCapabilitiesResponse")({
    supportedModels: required(Schema.Array(SupportedModel), "supported_models")
  }, lenient)
{}

/**
 * Whether a server is well.
 *
 * @since 0.1.0
 * @category schemas
 */
export class HealthResponse extends Schema.Class<HealthResponse>("effect-tinker/Capabilities/HealthResponse")({
  status: Schema.Literal("ok")
}, lenient) {}
