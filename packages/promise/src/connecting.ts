/**
 * The clients and their data, which need no tokenizer and no files.
 */
import * as Datum from "effect-tinker/Datum"
import * as Inner from "effect-tinker/Promise"
import * as Errors from "effect-tinker/TinkerError"
import * as Either from "effect/Either"
import type { Supervised } from "./Chat.js"
import type { ConnectOptions, Tinker } from "./Clients.js"
import type * as Data from "./Data.js"
import type { TinkerError } from "./Errors.js"
import { bare } from "./internal/connection.js"

/**
 * Connects to a server over `fetch`; nothing is sent until something is asked for.
 *
 * @since 0.1.0
 * @category constructors
 */
export const connect = async (options: ConnectOptions = {}): Promise<Tinker> =>
  bare(await Inner.Tinker.connect(options))

/**
 * Whether something is a failure of a call.
 *
 * @since 0.1.0
 * @category guards
 */
export const isTinkerError = (u: unknown): u is TinkerError => Errors.isTinkerError(u)

/**
 * Whether the same call may succeed when it is made again.
 *
 * @since 0.1.0
 * @category guards
 */
export const isRetryable = (error: TinkerError): boolean => Errors.isTinkerError(error) && Errors.isRetryable(error)

/**
 * An example of next-token prediction; weights say which tokens are learned, by default all.
 *
 * @throws a `TinkerError` when the tokens or weights cannot be used
 * @since 0.1.0
 * @category constructors
 */
export const fromTokens = (
  tokens: Data.Tokens,
  options?: { readonly weights?: ReadonlyArray<number> | Float32Array | undefined }
): Data.Datum => Inner.fromTokens(tokens, options)

/**
 * Data of examples, such as a chat makes of conversations.
 *
 * @throws a `TinkerError` when the tokens or weights cannot be used
 * @since 0.1.0
 * @category constructors
 */
export const fromExamples = (examples: Iterable<Supervised>): ReadonlyArray<Data.Datum> => Inner.fromExamples(examples)

/**
 * An example from the tokens a model reads and the tensors of its loss.
 *
 * @throws a `TinkerError` when they cannot be used
 * @since 0.1.0
 * @category constructors
 */
export const datum = (
  modelInput: Data.Tokens,
  lossFnInputs: Readonly<Record<string, Data.Values>>
): Data.Datum => Either.getOrThrowWith(Datum.make({ modelInput, lossFnInputs }), (error) => error)
