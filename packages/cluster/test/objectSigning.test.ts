import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as objectSigning from "../src/internal/objectSigning.js"

// The examples of the documentation of S3.
const options = {
  credentials: {
    accessKeyId: "AKIAIOSFODNN7EXAMPLE",
    secretAccessKey: Redacted.make("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
  },
  region: "us-east-1",
  now: Date.UTC(2013, 4, 24)
}

const signatureOf = (method: string, path: string, headers?: Record<string, string>, body = "") =>
  Effect.map(
    objectSigning.sign({
      method,
      url: new URL(`https://examplebucket.s3.amazonaws.com${path}`),
      body: new TextEncoder().encode(body),
      headers
    }, options),
    ({ authorization = "" }) => /Signature=([0-9a-f]+)$/.exec(authorization)?.[1]
  )

describe("signatures of an object store", () => {
  it.effect("are those of the examples of S3", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        yield* signatureOf("GET", "/test.txt", { range: "bytes=0-9" }),
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
      )
      assert.strictEqual(
        yield* signatureOf(
          "PUT",
          "/test%24file.text",
          { date: "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY" },
          "Welcome to Amazon S3."
        ),
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
      )
      assert.strictEqual(
        yield* signatureOf("GET", "/?lifecycle"),
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
      )
      assert.strictEqual(
        yield* signatureOf("GET", "/?max-keys=2&prefix=J"),
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
      )
    }))
})
