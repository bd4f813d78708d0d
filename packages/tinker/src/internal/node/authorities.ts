/**
 * Certificate authorities to trust in addition to those Node ships with.
 *
 * @since 0.1.0
 */
import { readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import type { SecureContext } from "node:tls"
import { createSecureContext, rootCertificates } from "node:tls"
import * as TinkerTransport from "../../TinkerTransport.js"

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
   * Options of TLS connections. Throws a `TransportError`, because it is needed where only a throw can stop.
   */
  readonly tls: () => { readonly secureContext?: SecureContext }
}

/**
 * One context for all connections: reading a hundred certificates costs more than a handshake.
 *
 * @internal
 */
export const make = (caFile: string | undefined): Authorities => {
  let known: { readonly secureContext?: SecureContext } | undefined
  const load = (path: string) => {
    let found: ReadonlyArray<string>
    try {
      found = read(path)
    } catch (error) {
      throw new TinkerTransport.TransportError("setup", `the authorities in ${path} cannot be read`, error)
    }
    if (found.length === 0) {
      throw new TinkerTransport.TransportError("setup", `${path} contains no certificate (PEM)`, undefined)
    }
    return { secureContext: createSecureContext({ ca: [...rootCertificates, ...found] }) }
  }
  return { tls: () => known ??= caFile === undefined ? {} : load(caFile) }
}
