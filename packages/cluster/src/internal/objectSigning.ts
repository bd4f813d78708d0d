/**
 * Signs requests to an object store as S3 defines it (Signature Version 4), with the cryptography of the platform. It is one
 * hash and five of its keyed kind: `@aws-sdk/client-s3` would do the same with dozens of packages, and its transport would not
 * be Effect's.
 */
import * as Effect from "effect/Effect"
import * as Encoding from "effect/Encoding"
import * as Redacted from "effect/Redacted"

/** @internal */
export interface Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: Redacted.Redacted
  readonly sessionToken?: Redacted.Redacted | undefined
}

/** @internal */
export interface Unsigned {
  readonly method: string
  readonly url: URL
  readonly body: Uint8Array
  /** Headers that are signed too, in lower case. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

const utf8 = new TextEncoder()

const sha256 = async (bytes: Uint8Array): Promise<string> =>
  Encoding.encodeHex(new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", Uint8Array.from(bytes))))

const hmac = async (key: Uint8Array, text: string): Promise<Uint8Array> => {
  const imported = await globalThis.crypto.subtle.importKey(
    "raw",
    Uint8Array.from(key),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"]
  )
  return new Uint8Array(await globalThis.crypto.subtle.sign("HMAC", imported, utf8.encode(text)))
}

/** As S3 reads names: all but letters, digits and four marks. @internal */
export const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`)

const queryOf = (url: URL): string =>
  Array.from(url.searchParams, ([name, value]) => [encode(name), encode(value)] as const)
    .sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0)
    .map(([name, value]) => `${name}=${value}`)
    .join("&")

const dateOf = (millis: number): string => new Date(millis).toISOString().replace(/[-:]|\.\d{3}/g, "")

/**
 * The headers of a signed request, without `host`, which every client sends.
 *
 * @internal
 */
export const sign = (
  request: Unsigned,
  options: { readonly credentials: Credentials; readonly region: string; readonly now: number }
): Effect.Effect<Record<string, string>> =>
  Effect.promise(async () => {
    const { credentials, region } = options
    const date = dateOf(options.now)
    const day = date.slice(0, 8)
    const headers: Record<string, string> = {
      ...request.headers,
      "x-amz-content-sha256": await sha256(request.body),
      "x-amz-date": date,
      ...(credentials.sessionToken === undefined
        ? {}
        : { "x-amz-security-token": Redacted.value(credentials.sessionToken) })
    }
    const signed = Object.entries({ ...headers, host: request.url.host }).sort(([a], [b]) => a < b ? -1 : 1)
    const names = signed.map(([name]) => name).join(";")
    const canonical = [
      request.method,
      request.url.pathname,
      queryOf(request.url),
      ...signed.map(([name, value]) => `${name}:${value.trim()}`),
      "",
      names,
      headers["x-amz-content-sha256"]
    ].join("\n")
    const scope = `${day}/${region}/s3/aws4_request`
    const text = ["AWS4-HMAC-SHA256", date, scope, await sha256(utf8.encode(canonical))].join("\n")
    let key: Uint8Array = utf8.encode(`AWS4${Redacted.value(credentials.secretAccessKey)}`)
    for (const part of [day, region, "s3", "aws4_request"]) key = await hmac(key, part)
    const signature = Encoding.encodeHex(await hmac(key, text))
    return {
      ...headers,
      authorization:
        `AWS4-HMAC-SHA256 Credential=${credentials.accessKeyId}/${scope},SignedHeaders=${names},Signature=${signature}`
    }
  })
