/**
 * Handle with which another process or thread samples from the same sampler: an address, not a credential.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Encoding from "effect/Encoding"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { lenient, required, withDefault } from "./internal/wire/json.js"
import { InvalidInput } from "./TinkerError.js"
import { SamplingSessionId, SessionId } from "./wire/Id.js"

const Holder = Schema.Struct({ baseUrl: required(Schema.String, "base_url") })

/**
 * Where a sampler is. Opening it takes the credentials of the client that opens it.
 *
 * @since 0.1.0
 * @category schemas
 */
export class SamplerHandle extends Schema.Class<SamplerHandle>("effect-tinker/SamplerHandle")({
  sessionId: required(SessionId, "session_id"),
  samplingSessionId: required(SamplingSessionId, "sampling_session_id"),
  holder: Holder,
  /** Defaults to `false`. */
  recordStabilityInfo: withDefault(Schema.Boolean, "record_stability_info", () => false)
}, lenient) {}

const Json = Schema.parseJson(SamplerHandle)
const encode = Schema.encodeSync(Json)
const decode = ParseResult.decodeUnknownEither(Json)

/**
 * As text that survives any channel: JSON in base64url.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toText = (handle: SamplerHandle): string => Encoding.encodeBase64Url(encode(handle))

/**
 * Reads what {@link toText}, or the Python SDK's `get_sampler_handle`, wrote.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromText = (text: string): Either.Either<SamplerHandle, InvalidInput> =>
  Either.mapLeft(
    Either.flatMap(
      Either.mapLeft(Encoding.decodeBase64UrlString(text.replace(/=+$/, "")), () => "it is not base64url"),
      (json) => Either.mapLeft(decode(json), (issue) => ParseResult.TreeFormatter.formatIssueSync(issue))
    ),
    (description) => new InvalidInput({ module: "SamplerHandle", method: "fromText", description })
  )
