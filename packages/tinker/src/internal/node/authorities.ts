/**
 * Whom we trust besides the authorities Node comes with.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import type { SecureContext } from "node:tls"
import { createSecureContext, rootCertificates } from "node:tls"
import type * as TinkerConfig from "../../TinkerConfig.js"
import * as Exchange from "../exchange.js"

const certificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

const read = (path: string): ReadonlyArray<string> => {
  const files = statSync(path).isDirectory()
    ? readdirSync(path, { withFileTypes: true }).filter((entry) => !entry.isDirectory()).map(({ name }) =>
      join(path, name)
    )
    : [path]
  return files.flatMap((file) => readFileSync(file, "utf8").match(certificate) ?? [])
}

/** @internal */
export interface Authorities {
  /**
   * What TLS connections are opened with. Throws a `WireError`, because this is needed where only a throw can stop.
   */
  readonly tls: () => { readonly secureContext?: SecureContext }
}

/**
 * One context for all connections: to read a hundred certificates costs more than a handshake.
 *
 * @internal
 */
export const make = (config: TinkerConfig.Service): Authorities => {
  let known: { readonly secureContext?: SecureContext } | undefined
  const load = (path: string) => {
    let found: ReadonlyArray<string>
    try {
      found = read(path)
    } catch (error) {
      throw new Exchange.WireError("setup", `the authorities in ${path} cannot be read`, error)
    }
    if (found.length === 0) {
      throw new Exchange.WireError("setup", `${path} contains no certificate (PEM)`, undefined)
    }
    return { secureContext: createSecureContext({ ca: [...rootCertificates, ...found] }) }
  }
  return { tls: () => known ??= Option.isNone(config.caFile) ? {} : load(config.caFile.value) }
}
