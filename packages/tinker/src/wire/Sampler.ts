/**
 * Sampling sessions, which the REST surface calls samplers.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Count, lenient, optional, required, responseTag, strict, tag } from "../internal/wire/json.js"
import { SamplingSessionId, SessionId } from "./Id.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/Sampler/${name}` as const

/**
 * Open a sampler over a base model, a checkpoint, or a checkpoint of a base model.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CreateSamplingSessionRequest
  extends Schema.Class<CreateSamplingSessionRequest>(id("CreateSamplingSessionRequest"))({
    sessionId: required(SessionId, "session_id"),
    /** Number of the sampler within its session. */
    samplingSessionSeqId: required(Count, "sampling_session_seq_id"),
    baseModel: optional(Schema.String, "base_model"),
    /** A `tinker://` path. */
    modelPath: optional(Schema.String, "model_path"),
    type: tag("create_sampling_session")
  }, strict)
{}

/**
 * A sampler that is open.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CreateSamplingSessionResponse
  extends Schema.Class<CreateSamplingSessionResponse>(id("CreateSamplingSessionResponse"))({
    samplingSessionId: required(SamplingSessionId, "sampling_session_id"),
    type: responseTag("create_sampling_session")
  }, lenient)
{}

/**
 * Take a client number of an existing sampler, so that two processes never number their requests alike.
 *
 * @since 0.1.0
 * @category schemas
 */
export class JoinSamplingSessionRequest
  extends Schema.Class<JoinSamplingSessionRequest>(id("JoinSamplingSessionRequest"))({
    samplingSessionId: required(SamplingSessionId, "sampling_session_id"),
    type: tag("join_sampling_session")
  }, strict)
{}

/**
 * A sampler that was joined.
 *
 * @since 0.1.0
 * @category schemas
 */
export class JoinSamplingSessionResponse
  extends Schema.Class<JoinSamplingSessionResponse>(id("JoinSamplingSessionResponse"))({
    /** Unique among the clients of the sampler, counted from 1. */
    clientCounter: required(Schema.Int, "client_counter"),
    type: responseTag("join_sampling_session")
  }, lenient)
{}

/**
 * Source of a sampler.
 *
 * @since 0.1.0
 * @category schemas
 */
export class GetSamplerResponse extends Schema.Class<GetSamplerResponse>(id("GetSamplerResponse"))({
  samplerId: required(SamplingSessionId, "sampler_id"),
  baseModel: required(Schema.String, "base_model"),
  modelPath: optional(Schema.String, "model_path")
}, lenient) {}
