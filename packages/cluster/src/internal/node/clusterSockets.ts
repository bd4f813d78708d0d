/**
 * The sockets between trainers and workers: TLS with a key that both sides have. Nothing is read from a peer that does not
 * have it, each record is authenticated and counted, so none can be changed or sent again, and what was recorded cannot be
 * read by somebody who learns the key later.
 */
import * as Runners from "@effect/cluster/Runners"
import * as NodeSocket from "@effect/platform-node/NodeSocket"
import * as Socket from "@effect/platform/Socket"
import * as SocketServer from "@effect/platform/SocketServer"
import * as RpcClient from "@effect/rpc/RpcClient"
import * as RpcSerialization from "@effect/rpc/RpcSerialization"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Runtime from "effect/Runtime"
import * as Scope from "effect/Scope"
import * as Tls from "node:tls"

const identity = "effect-tinker"

/** Suites that need the key and nothing else: a certificate is never asked for, and never enough. */
const suite: Tls.SecureContextOptions = {
  ciphers: "ECDHE-PSK-CHACHA20-POLY1305",
  ecdhCurve: "X25519:P-256",
  // Keys that are agreed on beforehand are a suite of its own in this version, and Node has no other way to give them.
  minVersion: "TLSv1.2",
  maxVersion: "TLSv1.2"
}

/** How long a peer may take to show that it has the key. */
const handshakeTimeout = 5000

/** A trainer or worker has one connection to another one; there are 128 workers of a label at most. */
const maxConnections = 1024

const openError = (cause: unknown) => new Socket.SocketGenericError({ reason: "Open", cause })

const close = (connection: Tls.TLSSocket) =>
  Effect.sync(() => {
    if (!connection.closed) connection.destroySoon()
  })

/**
 * Listens for peers that have the key.
 *
 * @internal
 */
export const layerServer = (options: {
  readonly host: string
  readonly port: number
  readonly key: Uint8Array
}): Layer.Layer<SocketServer.SocketServer, SocketServer.SocketServerError> =>
  Layer.scoped(
    SocketServer.SocketServer,
    Effect.gen(function*() {
      const runtime = yield* Effect.runtime()
      const waiting: Array<Tls.TLSSocket> = []
      let accept = (connection: Tls.TLSSocket): void => void waiting.push(connection)

      let warnedAt = -Infinity
      const warn = Effect.fnUntraced(function*(from: string, code: string) {
        const now = yield* Clock.currentTimeMillis
        if (now - warnedAt < 60_000) return
        warnedAt = now
        yield* Effect.annotateLogs(
          Effect.logWarning(`refused ${from}, which has not shown the secret of this cluster (${code})`),
          { package: "@effect-tinker/cluster", module: "NodeCluster" }
        )
      })

      const server = yield* Effect.acquireRelease(
        Effect.sync(() =>
          Tls.createServer({
            ...suite,
            handshakeTimeout,
            pskIdentityHint: identity,
            pskCallback: (_, name) => name === identity ? options.key : null
          }, (connection) => accept(connection))
        ),
        (server) =>
          Effect.async<void>((resume) => {
            server.close(() => resume(Effect.void))
          })
      )
      server.maxConnections = maxConnections
      server.on("tlsClientError", (error, connection) => {
        const code = "code" in error ? String(error.code) : error.name
        connection.destroy()
        Runtime.runFork(runtime)(warn(connection.remoteAddress ?? "a connection", code))
      })
      yield* Effect.async<void, SocketServer.SocketServerError>((resume) => {
        const failed = (cause: Error) =>
          resume(Effect.fail(new SocketServer.SocketServerError({ reason: "Open", cause })))
        server.once("error", failed)
        server.listen({ host: options.host, port: options.port }, () => {
          server.off("error", failed)
          // Later errors are those of single connections that could not be accepted.
          server.on("error", (cause) => Runtime.runFork(runtime)(Effect.logDebug("a connection was lost", cause)))
          resume(Effect.void)
        })
      })

      return SocketServer.SocketServer.of({
        address: { _tag: "TcpAddress", hostname: options.host, port: options.port },
        run: <R, E, A>(handler: (socket: Socket.Socket) => Effect.Effect<A, E, R>) =>
          Effect.scoped(Effect.gen(function*() {
            const run = yield* FiberSet.makeRuntime<R>()
            const connected = (connection: Tls.TLSSocket) => {
              // One that breaks before it is read has nobody else to tell.
              connection.on("error", () => undefined)
              run(
                NodeSocket.fromDuplex(Effect.acquireRelease(
                  Effect.suspend(() =>
                    connection.closed
                      ? Effect.fail(new Socket.SocketCloseError({ reason: "Close", code: 1000 }))
                      : Effect.succeed(connection)
                  ),
                  close
                )).pipe(
                  Effect.flatMap(handler),
                  Effect.catchAllCause((cause) => Effect.logDebug("a connection ended", cause))
                )
              )
            }
            yield* Effect.acquireRelease(
              Effect.sync(() => {
                const before = accept
                accept = connected
                for (const connection of waiting.splice(0)) connected(connection)
                return before
              }),
              (before) =>
                Effect.sync(() => {
                  accept = before
                })
            )
            return yield* Effect.never
          }))
      })
    })
  )

const connect = (options: { readonly host: string; readonly port: number; readonly key: Uint8Array }) =>
  Effect.uninterruptibleMask((restore) =>
    restore(Effect.async<Tls.TLSSocket, Socket.SocketError>((resume) => {
      const connection = Tls.connect({
        ...suite,
        host: options.host,
        port: options.port,
        pskCallback: () => ({ psk: options.key, identity }),
        // The peer has shown that it has the key; there is no certificate to look at.
        checkServerIdentity: () => undefined
      })
      connection.once("secureConnect", () => resume(Effect.succeed(connection)))
      connection.on("error", (cause) => resume(Effect.fail(openError(cause))))
      return Effect.sync(() => connection.destroy())
    })).pipe(Effect.tap((connection) => Effect.addFinalizer(() => close(connection))))
  )

const isCloseable = (scope: Scope.Scope): scope is Scope.CloseableScope => Scope.CloseableScopeTypeId in scope

/**
 * Connects to peers that have the key.
 *
 * Messages that are sent at once to a peer without a connection may open one each: `RcMap`, in which the engine keeps them,
 * looks for an entry before it waits for its turn to make one. The last one takes the place of the others, which are closed
 * after minutes without use, and not at all when the map is closed before. So their scopes are closed here.
 *
 * @internal
 */
export const layerClient = (
  key: Uint8Array
): Layer.Layer<Runners.RpcClientProtocol, never, RpcSerialization.RpcSerialization> =>
  Layer.scoped(
    Runners.RpcClientProtocol,
    Effect.gen(function*() {
      const serialization = yield* RpcSerialization.RpcSerialization
      const open = new Set<Scope.CloseableScope>()
      yield* Effect.addFinalizer(() =>
        Effect.forEach(Array.from(open), (scope) => Scope.close(scope, Exit.void), { discard: true })
      )
      return Effect.fnUntraced(function*({ host, port }) {
        const scope = yield* Effect.scope
        if (isCloseable(scope)) {
          open.add(scope)
          yield* Scope.addFinalizer(scope, Effect.sync(() => open.delete(scope)))
        }
        const socket = yield* NodeSocket.fromDuplex(connect({ host, port, key }), { openTimeout: handshakeTimeout })
        return yield* RpcClient.makeProtocolSocket().pipe(
          Effect.provideService(Socket.Socket, socket),
          Effect.provideService(RpcSerialization.RpcSerialization, serialization)
        )
      })
    })
  )
