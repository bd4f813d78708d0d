/**
 * One undici dispatcher for each pool, made when the pool is first used.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import { readFileSync } from "node:fs"
import { rootCertificates } from "node:tls"
import type { Dispatcher } from "undici"
import { Agent, EnvHttpProxyAgent } from "undici"
import type { Pool } from "../../Endpoint.js"
import type * as TinkerConfig from "../../TinkerConfig.js"

/** @internal */
export interface Dispatchers {
  readonly get: (pool: Pool) => Dispatcher
  /** Lets go of a pool's connections; what is under way on them ends undisturbed. */
  readonly reset: (pool: Pool) => void
  readonly destroy: () => Promise<void>
}

/** A little below what servers and balancers usually grant an idle connection. */
const keepAlive = 15_000

/** Streams of one HTTP/2 connection; undici multiplexes only where pipelining allows it. */
const http2 = { connections: 8, pipelining: 100 }

const options = (config: TinkerConfig.Service, pool: Pool) => ({
  connections: config.poolLimits[pool],
  pipelining: 1,
  keepAliveTimeout: keepAlive,
  connect: {
    timeout: Duration.toMillis(config.connectTimeout),
    ...(Option.isSome(config.caFile) ? { ca: [...rootCertificates, readFileSync(config.caFile.value, "utf8")] } : {})
  },
  ...(config.http2 ? { allowH2: true, ...http2 } : {})
})

const hasProxy = ({ all, http, https }: TinkerConfig.Proxy): boolean =>
  [all, http, https].some((url) => url !== undefined && url !== "")

const make_ = (config: TinkerConfig.Service, pool: Pool): Dispatcher => {
  const { proxy } = config
  if (!hasProxy(proxy)) return new Agent(options(config, pool))
  const all = proxy.all ?? ""
  return new EnvHttpProxyAgent({
    ...options(config, pool),
    // Everything is stated, so that undici does not look at the environment itself.
    httpProxy: proxy.http || all,
    httpsProxy: proxy.https || all,
    noProxy: proxy.no ?? ""
  })
}

/**
 * @internal
 */
export const make = (config: TinkerConfig.Service): Dispatchers => {
  const open = new Map<Pool, Dispatcher>()
  const leaving = new Set<Dispatcher>()
  return {
    get: (pool) => {
      const known = open.get(pool)
      if (known !== undefined) return known
      const dispatcher = make_(config, pool)
      open.set(pool, dispatcher)
      return dispatcher
    },
    reset: (pool) => {
      const dispatcher = open.get(pool)
      if (dispatcher === undefined) return
      open.delete(pool)
      leaving.add(dispatcher)
      const gone = () => leaving.delete(dispatcher)
      dispatcher.close().then(gone, gone)
    },
    destroy: () => {
      const all = [...open.values(), ...leaving]
      open.clear()
      return Promise.all(all.map((dispatcher) => dispatcher.destroy())).then(() => undefined, () => undefined)
    }
  }
}
