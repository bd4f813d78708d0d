/**
 * A loss registered with the service as a graph of operations, for servers that run custom losses themselves.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import {
  Count,
  Json,
  JsonRecord,
  lenient,
  required,
  responseTag,
  strict,
  tag,
  withDefault
} from "../internal/wire/json.js"
import { LossId, SessionId } from "./Id.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/CustomLossGraph/${name}` as const

/**
 * One operation. Its arguments are JSON; what JSON lacks is an object of one key, e.g. `{ "ref": name }` for the result
 * of another node.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CustomLossNode extends Schema.Class<CustomLossNode>(id("CustomLossNode"))({
  op: Schema.Literal("placeholder", "get_attr", "call_function", "call_method", "call_module", "output"),
  /** Unique within the graph. */
  name: Schema.String,
  /** Name of the function, input or output. */
  target: Schema.String,
  /** Defaults to none. */
  args: withDefault(Schema.Array(Json), "args", () => []),
  /** Defaults to none. */
  kwargs: withDefault(JsonRecord, "kwargs", () => ({}))
}, strict) {}

/**
 * Operations in the order they run.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CustomLossGraph extends Schema.Class<CustomLossGraph>(id("CustomLossGraph"))({
  /** Defaults to `1`. */
  format: Schema.optionalWith(Schema.Literal(1), { default: () => 1 as const }),
  nodes: Schema.Array(CustomLossNode)
}, strict) {}

/**
 * A tensor the loss is given.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CustomLossInput extends Schema.Class<CustomLossInput>(id("CustomLossInput"))({
  name: Schema.String,
  /** Number of its dimensions. */
  rank: Schema.Literal(0, 1, 2)
}, strict) {}

/**
 * Uploads a loss.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CreateCustomLossRequest extends Schema.Class<CreateCustomLossRequest>(id("CreateCustomLossRequest"))({
  sessionId: required(SessionId, "session_id"),
  /** Number of the loss within its session. */
  customLossSeqId: required(Count, "custom_loss_seq_id"),
  name: Schema.String,
  inputs: Schema.Array(CustomLossInput),
  graph: CustomLossGraph,
  type: tag("create_custom_loss")
}, strict) {}

/**
 * The id of an uploaded loss.
 *
 * @since 0.1.0
 * @category schemas
 */
export class CreateCustomLossResponse extends Schema.Class<CreateCustomLossResponse>(id("CreateCustomLossResponse"))({
  lossId: required(LossId, "loss_id"),
  type: responseTag("create_custom_loss")
}, lenient) {}
