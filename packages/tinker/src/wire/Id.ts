/**
 * The ids of the service, each with its own branded type. They are strings on the wire and opaque here.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * A session: what one client process opens, keeps alive and finishes.
 *
 * @since 0.1.0
 * @category schemas
 */
export const SessionId = Schema.NonEmptyString.pipe(Schema.brand("effect-tinker/SessionId"))

/**
 * Id of a session.
 *
 * @since 0.1.0
 * @category models
 */
export type SessionId = typeof SessionId.Type

/**
 * A model in training. The service uses the same id for the training run it records.
 *
 * @since 0.1.0
 * @category schemas
 */
export const ModelId = Schema.NonEmptyString.pipe(Schema.brand("effect-tinker/ModelId"))

/**
 * Id of a model in training, and of its run.
 *
 * @since 0.1.0
 * @category models
 */
export type ModelId = typeof ModelId.Type

/**
 * A sampling session, which the REST surface calls a sampler.
 *
 * @since 0.1.0
 * @category schemas
 */
export const SamplingSessionId = Schema.NonEmptyString.pipe(Schema.brand("effect-tinker/SamplingSessionId"))

/**
 * Id of a sampler.
 *
 * @since 0.1.0
 * @category models
 */
export type SamplingSessionId = typeof SamplingSessionId.Type

/**
 * An accepted operation whose result is fetched later.
 *
 * @since 0.1.0
 * @category schemas
 */
export const RequestId = Schema.NonEmptyString.pipe(Schema.brand("effect-tinker/RequestId"))

/**
 * Id of an accepted operation.
 *
 * @since 0.1.0
 * @category models
 */
export type RequestId = typeof RequestId.Type

/**
 * One sampled sequence, as the provenance of training data names it.
 *
 * @since 0.1.0
 * @category schemas
 */
export const SequenceId = Schema.NonEmptyString.pipe(Schema.brand("effect-tinker/SequenceId"))

/**
 * Id of a sampled sequence.
 *
 * @since 0.1.0
 * @category models
 */
export type SequenceId = typeof SequenceId.Type

/**
 * A checkpoint within its run: its kind and its name, e.g. `weights/0001`.
 *
 * @since 0.1.0
 * @category schemas
 */
export const CheckpointId = Schema.NonEmptyString.pipe(Schema.brand("effect-tinker/CheckpointId"))

/**
 * Id of a checkpoint within its run.
 *
 * @since 0.1.0
 * @category models
 */
export type CheckpointId = typeof CheckpointId.Type

/**
 * A loss registered with the service.
 *
 * @since 0.1.0
 * @category schemas
 */
export const LossId = Schema.NonEmptyString.pipe(Schema.brand("effect-tinker/LossId"))

/**
 * Id of an uploaded loss.
 *
 * @since 0.1.0
 * @category models
 */
export type LossId = typeof LossId.Type
