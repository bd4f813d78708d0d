/**
 * The certificates of the tests: a private authority, and a server on this machine that it vouches for.
 */
import { fileURLToPath } from "node:url"

export const tls = (name: "authority.pem" | "server.pem" | "server-key.pem"): string =>
  fileURLToPath(new URL(`../../../tinker/test/fixtures/tls/${name}`, import.meta.url))
