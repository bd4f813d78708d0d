/**
 * What the caller gave, as a request.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as TinkerError from "../../TinkerError.js"

/**
 * Builds a request whose schema may refuse what it is built from: that is the caller's mistake, not a defect.
 *
 * @internal
 */
export const request = <A>(
  from: { readonly module: string; readonly method: string },
  build: () => A
): Effect.Effect<A, TinkerError.InvalidInput> =>
  Effect.try({
    try: build,
    catch: (cause) =>
      new TinkerError.InvalidInput({
        ...from,
        description: cause instanceof Error ? cause.message : String(cause),
        cause
      })
  })
