import { assert, describe, it } from "@effect/vitest"
import { Either } from "effect"
import type { Endpoint } from "effect-tinker/wire"
import { Api } from "effect-tinker/wire"
import { compareJson } from "../src/vectors/compare.js"
import * as corpus from "../src/vectors/corpus.js"

type AnyEndpoint = Endpoint.Endpoint<unknown, unknown>

const isEndpoint = (u: unknown): u is AnyEndpoint => typeof u === "object" && u !== null && "encodeRequest" in u

const endpoints: ReadonlyArray<AnyEndpoint> = Object.values<unknown>({ ...Api }).filter(isEndpoint)

/** A checkpoint's id is the one parameter with a slash in it. */
const pattern = (path: string): RegExp =>
  new RegExp(
    `^${
      path.replace(
        /\{([a-z_]+)\}/g,
        (_, name: string) => `(?<${name}>${name === "checkpoint_id" ? "[^/]+/[^/]+" : "[^/]+"})`
      )
    }$`
  )

const routes = endpoints.map((endpoint) => ({ endpoint, pattern: pattern(endpoint.path) }))

const route = (request: corpus.Recorded) => {
  for (const { endpoint, pattern } of routes) {
    const match = endpoint.method === request.method ? pattern.exec(request.path) : null
    if (match !== null) return { endpoint, params: { ...match.groups } }
  }
  return undefined
}

/** Methods of the clients for what the service keeps. */
const records = /^(RestClient|AdminClient)\./

const toBytes = (body: unknown): Uint8Array => {
  if (body === undefined) return new Uint8Array()
  const hex = typeof body === "object" && body !== null && "hex" in body ? body.hex : undefined
  return typeof hex === "string" ? Buffer.from(hex, "hex") : new TextEncoder().encode(JSON.stringify(body))
}

const fromBody = (body: string | Uint8Array | undefined): unknown =>
  body === undefined || typeof body !== "string" ? body && { hex: Buffer.from(body).toString("hex") } : JSON.parse(body)

describe("what the official clients send", () => {
  it.each(corpus.recorded().calls)("$call", ({ requests }) => {
    assert.isNotEmpty(requests)
    for (const request of requests) {
      const found = route(request)
      assert.isDefined(found, `no endpoint for ${request.method} ${request.path}`)
      const { endpoint, params } = found
      const decoded = endpoint.decodeRequest({
        params,
        query: request.query,
        body: toBytes(request.body),
        contentType: request.headers["content-type"]
      })
      assert.isTrue(Either.isRight(decoded), `${endpoint.name}: ${Either.isLeft(decoded) ? decoded.left : ""}`)
      if (Either.isLeft(decoded)) continue
      const encoded = Either.getOrThrow(endpoint.encodeRequest(decoded.right.request))
      assert.deepStrictEqual({ ...encoded.params }, params)
      assert.deepStrictEqual({ ...encoded.query }, { ...request.query })
      assert.isUndefined(compareJson(request.body, fromBody(encoded.body)), endpoint.name)
    }
  })

  it.each(corpus.recorded().calls)("$call, with the headers the service looks at", ({ requests }) => {
    for (const request of requests) {
      const headers = route(request)?.endpoint.headers ?? {}
      const sent = request.headers["x-sdk-method"]
      // requests of the other clients are named by the method that sends them, not by their endpoint
      if (sent !== undefined && records.test(sent)) assert.match(headers["x-sdk-method"] ?? "", records, request.path)
      const backpressure = "x-tinker-sampling-backpressure"
      assert.strictEqual(headers[backpressure], request.headers[backpressure])
    }
  })
})
