/**
 * One query after the other on a connection that is held: the cluster's engine asks its connection for several things at
 * once, which `pg` warns of, and will refuse.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type * as SqlConnection from "@effect/sql/SqlConnection"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

const serial = (connection: SqlConnection.Connection): SqlConnection.Connection => {
  const one = Effect.unsafeMakeSemaphore(1)
  const turn = one.withPermits(1)
  return {
    execute: (...args) => turn(connection.execute(...args)),
    executeRaw: (...args) => turn(connection.executeRaw(...args)),
    executeValues: (...args) => turn(connection.executeValues(...args)),
    executeUnprepared: (...args) => turn(connection.executeUnprepared(...args)),
    executeStream: (...args) =>
      Stream.unwrapScoped(
        Effect.as(Effect.acquireRelease(one.take(1), () => one.release(1)), connection.executeStream(...args))
      )
  }
}

/** The client, whose reserved connections do one thing at a time. @internal */
export const make = <Client extends SqlClient.SqlClient>(client: Client): Client =>
  new Proxy(client, {
    get: (target, name): unknown => name === "reserve" ? Effect.map(target.reserve, serial) : Reflect.get(target, name)
  })
