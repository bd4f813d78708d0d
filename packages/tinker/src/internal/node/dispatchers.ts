/**
 * One undici dispatcher for each pool, made when the pool is first used.
 *
 * @since 0.1.0
 */
import type { Dispatcher } from "undici"
import { Agent, EnvHttpProxyAgent } from "undici"
import type { Pool } from "../../Endpoint.js"
import type { Authorities } from "./authorities.js"
import type { Proxy, Settings } from "./settings.js"

/** @internal */
export interface Dispatchers {
  readonly get: (pool: Pool) => Dispatcher
  /** Drops a pool's connections; requests in flight on them complete. */
  readonly reset: (pool: Pool) => void
  readonly destroy: () => Promise<void>
}

/**
 * A little below what servers and balancers usually grant an idle connection, in milliseconds.
 *
 * @internal
 */
export const keepAlive = 15_000

const options = (settings: Settings, authorities: Authorities, pool: Pool) => {
  const tls = { timeout: settings.connectTimeout, ...authorities.tls() }
  return {
    // The tenant's limits already bound what is in flight.
    connections: settings.connections[pool] ?? null,
    pipelining: 1,
    keepAliveTimeout: keepAlive,
    connect: tls,
    // Through a proxy: the connection to the host, and that to the proxy itself.
    requestTls: tls,
    proxyTls: tls
  }
}

/** @internal */
export const hasProxy = ({ all, http, https }: Proxy): boolean =>
  [all, http, https].some((url) => url !== undefined && url !== "")

const open = (settings: Settings, authorities: Authorities, pool: Pool): Dispatcher => {
  const { proxy } = settings
  if (!hasProxy(proxy)) return new Agent(options(settings, authorities, pool))
  const all = proxy.all ?? ""
  return new EnvHttpProxyAgent({
    ...options(settings, authorities, pool),
    // Everything is stated, so that undici does not look at the environment itself.
    httpProxy: proxy.http || all,
    httpsProxy: proxy.https || all,
    noProxy: proxy.no ?? ""
  })
}

/**
 * @internal
 */
export const make = (settings: Settings, authorities: Authorities): Dispatchers => {
  const known = new Map<Pool, Dispatcher>()
  const leaving = new Set<Dispatcher>()
  return {
    get: (pool) => {
      const found = known.get(pool)
      if (found !== undefined) return found
      const dispatcher = open(settings, authorities, pool)
      known.set(pool, dispatcher)
      return dispatcher
    },
    reset: (pool) => {
      const dispatcher = known.get(pool)
      if (dispatcher === undefined) return
      known.delete(pool)
      leaving.add(dispatcher)
      const gone = () => leaving.delete(dispatcher)
      dispatcher.close().then(gone, gone)
    },
    destroy: () => {
      const all = [...known.values(), ...leaving]
      known.clear()
      return Promise.all(all.map((dispatcher) => dispatcher.destroy())).then(() => undefined, () => undefined)
    }
  }
}
