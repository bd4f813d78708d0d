/**
 * Effects and streams that hold a scope, where what else they need is a type parameter.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"

/**
 * A stream that holds a scope from its beginning to its end. `R` never contains `Scope` here, which `Exclude` cannot know of
 * a type parameter.
 *
 * @internal
 */
export const stream = <A, E, R, E2, R2>(
  make: Effect.Effect<Stream.Stream<A, E, R>, E2, R2 | Scope.Scope>
): Stream.Stream<A, E | E2, R | R2> => Stream.unwrapScoped(make) as Stream.Stream<A, E | E2, R | R2>

/**
 * An Effect that holds a scope while it runs.
 *
 * @internal
 */
export const effect = <A, E, R>(self: Effect.Effect<A, E, R | Scope.Scope>): Effect.Effect<A, E, R> =>
  Effect.scoped(self) as Effect.Effect<A, E, R>
