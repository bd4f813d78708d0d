/**
 * One query after the other on a connection that is held: the cluster's engine asks its connection for several things at
 * once, which `pg` warns of, and will refuse.
 */
import * as Permits from "@effect-tinker/platform/Permits"
import type * as SqlClient from "@effect/sql/SqlClient"
import type * as SqlConnection from "@effect/sql/SqlConnection"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

const serial = (connection: SqlConnection.Connection): SqlConnection.Connection => {
  const turn = Permits.unsafeMake(1).withPermits(1)
  return {
    execute: (...args) => turn(connection.execute(...args)),
    executeRaw: (...args) => turn(connection.executeRaw(...args)),
    executeValues: (...args) => turn(connection.executeValues(...args)),
    executeUnprepared: (...args) => turn(connection.executeUnprepared(...args)),
    executeStream: (...args) =>
      Stream.unwrapScoped(Effect.gen(function*() {
        const begun = yield* Deferred.make<void>()
        // The turn lasts as long as the scope of the stream.
        yield* Effect.forkScoped(turn(Effect.zipRight(Deferred.succeed(begun, undefined), Effect.never)))
        yield* Deferred.await(begun)
        return connection.executeStream(...args)
      }))
  }
}

/** The client, whose reserved connections do one thing at a time. @internal */
export const make = <Client extends SqlClient.SqlClient>(client: Client): Client =>
  new Proxy(client, {
    get: (target, name): unknown => name === "reserve" ? Effect.map(target.reserve, serial) : Reflect.get(target, name)
  })
