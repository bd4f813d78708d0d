/**
 * What a command does is loaded when it is run: the tree alone is enough for help and completions.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"

/** @internal */
export const lazily = <M, A, B, E, R>(
  load: () => Promise<M>,
  pick: (module: M) => (argument: A) => Effect.Effect<B, E, R>
) =>
(argument: A): Effect.Effect<B, E, R> => Effect.flatMap(Effect.promise(load), (module) => pick(module)(argument))
