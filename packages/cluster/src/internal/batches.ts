/**
 * Many calls as one: those of a short while are put together, so that what they cost a database is one transaction.
 */
import * as DataLoader from "@effect/experimental/RequestResolver"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Request from "effect/Request"
import * as RequestResolver from "effect/RequestResolver"
import type * as Scope from "effect/Scope"

interface Item<A, B, E> extends Request.Request<B, E> {
  readonly _tag: "Item"
  readonly item: A
}

/**
 * Runs the calls of a window together. What it gives are the results, in the order of the items.
 *
 * @internal
 */
export const make = Effect.fnUntraced(function*<A, B, E>(options: {
  readonly window: Duration.DurationInput
  /** Most items of one call. */
  readonly most: number
  readonly run: (items: ReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, E>
}): Effect.fn.Return<(item: A) => Effect.Effect<B, E>, never, Scope.Scope> {
  const Item = Request.of<Item<A, B, E>>()
  const resolver = yield* DataLoader.dataLoader(
    RequestResolver.makeBatched((requests: ReadonlyArray<Item<A, B, E>>) =>
      Effect.flatMap(
        Effect.exit(options.run(requests.map(({ item }) => item))),
        (exit) =>
          Effect.forEach(requests, (request, index) =>
            Request.complete(
              request,
              Exit.flatMap(exit, (results) => {
                const result = results[index]
                return result === undefined ? Exit.die(new Error("a batch gave too few results")) : Exit.succeed(result)
              })
            ), { discard: true })
      )
    ),
    { window: options.window, maxBatchSize: options.most }
  )
  // Two items may be equal, and are two all the same.
  return (item) => Effect.withRequestCaching(Effect.request(Item({ _tag: "Item", item }), resolver), false)
})
