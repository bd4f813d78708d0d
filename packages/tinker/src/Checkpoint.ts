/**
 * Checkpoints and the `tinker://` paths that name them.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { Open } from "./internal/wire/json.js"
import { Instant, lenient, open, optional, required, strict, StringRecord, withDefault } from "./internal/wire/json.js"
import { InvalidInput } from "./TinkerError.js"
import { Cursor } from "./wire/Cursor.js"
import { CheckpointId, ModelId } from "./wire/Id.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/Checkpoint/${name}` as const

/**
 * Whether checkpoints outlive the process that saves them: they do, unless a backend in this process keeps them in its memory.
 * Lifetime of checkpoints, which a resumable run asks for first.
 *
 * @since 0.2.0
 * @category services
 */
export class Lifetime extends Context.Reference<Lifetime>()("effect-tinker/Checkpoint/Lifetime", {
  defaultValue: (): {
    /** `process`: gone with it. */
    readonly of: "server" | "process"
    /** How to keep them, for people to read. */
    readonly keepWith?: string | undefined
  } => ({ of: "server" })
}) {}

/**
 * Purpose of a checkpoint. A newer service may know more kinds.
 *
 * @since 0.1.0
 * @category models
 */
export type CheckpointType = Open<"training" | "sampler" | "external">

/**
 * Purpose of a checkpoint: training goes on from it, or samples come from it.
 *
 * @since 0.1.0
 * @category schemas
 */
export const CheckpointType: Schema.Schema<CheckpointType, string> = open("training", "sampler", "external")

/**
 * The record of a checkpoint.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Checkpoint extends Schema.Class<Checkpoint>("effect-tinker/Checkpoint")({
  checkpointId: required(CheckpointId, "checkpoint_id"),
  checkpointType: required(CheckpointType, "checkpoint_type"),
  /** When it was saved. */
  time: Instant,
  tinkerPath: required(Schema.String, "tinker_path"),
  sizeBytes: optional(Schema.Int, "size_bytes"),
  /** Whether anyone may read it. Defaults to `false`. */
  public: withDefault(Schema.Boolean, "public", () => false),
  userMetadata: optional(StringRecord, "user_metadata"),
  /** It never expires when absent. */
  expiresAt: optional(Instant, "expires_at")
}, lenient) {}

/**
 * One page of checkpoints.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CheckpointsListResponse extends Schema.Class<CheckpointsListResponse>(id("CheckpointsListResponse"))({
  checkpoints: Schema.Array(Checkpoint),
  /** Absent when the list is whole. */
  cursor: optional(Cursor, "cursor")
}, lenient) {}

/**
 * A signed address of a checkpoint's archive.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CheckpointArchiveUrlResponse
  extends Schema.Class<CheckpointArchiveUrlResponse>(id("CheckpointArchiveUrlResponse"))({
    url: Schema.String,
    expires: Instant
  }, lenient)
{}

/**
 * Let a checkpoint expire so many seconds from now; `null`, which is sent, removes the expiry.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SetTtlRequest extends Schema.Class<SetTtlRequest>(id("SetTtlRequest"))({
  ttlSeconds: required(Schema.NullOr(Schema.Int), "ttl_seconds")
}, strict) {}

/**
 * The parts of a `tinker://` path.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ParsedPath extends Schema.Class<ParsedPath>(id("ParsedPath"))({
  tinkerPath: required(Schema.String, "tinker_path"),
  trainingRunId: required(ModelId, "training_run_id"),
  checkpointType: required(Schema.Literal("training", "sampler", "external"), "checkpoint_type"),
  checkpointId: required(CheckpointId, "checkpoint_id")
}, lenient) {}

const scheme = "tinker://"

const kinds = { weights: "training", sampler_weights: "sampler", external_weights: "external" } as const

const isKind = (segment: string | undefined): segment is keyof typeof kinds =>
  segment !== undefined && Object.hasOwn(kinds, segment)

/**
 * Reads `tinker://RUN/KIND/NAME`, where KIND is `weights`, `sampler_weights` or `external_weights`, and
 * `tinker://RUN/NAME`, as SkyRL names the weights of a sampler. The id of the second is the bare name.
 *
 * @since 0.1.0
 * @category constructors
 */
export const parsePath = (path: string): Either.Either<ParsedPath, InvalidInput> => {
  const segments = path.startsWith(scheme) ? path.slice(scheme.length).split("/") : []
  const [run, second, third] = segments
  const parsed = (checkpointType: ParsedPath["checkpointType"], checkpointId: string, run: string) =>
    Either.right(
      new ParsedPath({
        tinkerPath: path,
        trainingRunId: ModelId.make(run),
        checkpointType,
        checkpointId: CheckpointId.make(checkpointId)
      })
    )
  if (run && segments.length === 3 && isKind(second) && third) return parsed(kinds[second], `${second}/${third}`, run)
  if (run && segments.length === 2 && second && !isKind(second)) return parsed("sampler", second, run)
  return Either.left(
    new InvalidInput({
      module: "Checkpoint",
      method: "parsePath",
      description: `${JSON.stringify(path)} is not of the form tinker://RUN/KIND/NAME, where KIND is ${
        Object.keys(kinds).join(", ")
      }`
    })
  )
}
