import { Bytes, Entropy, HostGuard } from "@effect-tinker/platform"
import { assert, describe, it } from "@effect/vitest"
import { Effect, FastCheck as fc, Option } from "effect"

describe("HostGuard", () => {
  it("reads the name in a Host header", () => {
    const names = [
      ["localhost:8080", "localhost"],
      ["[::1]:80", "::1"],
      ["EXAMPLE.com", "example.com"],
      ["my_host", "my_host"]
    ] as const
    for (const [header, name] of names) assert.deepStrictEqual(HostGuard.nameOf(header), Option.some(name))
    for (const header of [undefined, "", "a b", "host:port", "a/b", "user@host", "[::1"]) {
      assert.isTrue(Option.isNone(HostGuard.nameOf(header)), header)
    }
  })

  it("on loopback, answers to loopback names and those it is given, and to no address of a network", () => {
    const isOurs = HostGuard.make({ allow: ["Studio.internal"] })
    for (const name of ["localhost", "tinker.localhost", "127.0.0.1", "127.1.2.3", "::1", "studio.internal"]) {
      assert.isTrue(isOurs(name), name)
    }
    for (const name of ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""]) {
      assert.isFalse(isOurs(name), name)
    }
  })

  it("beyond loopback, answers to addresses, which cannot be rebound, and to no other name", () => {
    const isOurs = HostGuard.make({ host: "0.0.0.0" })
    assert.isTrue(isOurs("10.0.0.1"))
    assert.isTrue(isOurs("fe80::1"))
    assert.isFalse(isOurs("evil.example"))
    assert.isTrue(HostGuard.make({ allow: ["*"] })("evil.example"))
  })
})

describe("Bytes", () => {
  it.prop("parts put together have each part's bytes in turn", [fc.array(fc.uint8Array())], ([parts]) => {
    assert.deepStrictEqual(Array.from(Bytes.concat(parts)), parts.flatMap((part) => Array.from(part)))
  })

  it.prop("secrets are equal where their texts are", [fc.string(), fc.string()], ([a, b]) => {
    assert.strictEqual(Bytes.equalSecrets(a, b), a === b)
    assert.isTrue(Bytes.equalSecrets(a, a))
    assert.isFalse(Bytes.equalSecrets(`${a}x`, a))
  })
})

describe("Entropy", () => {
  it.effect("ids and tokens are made of the bytes of the service", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* Entropy.hex(3), "ffffff")
      assert.strictEqual(yield* Entropy.uuid, "ffffffff-ffff-4fff-bfff-ffffffffffff")
      assert.match(yield* Entropy.token, /^f{64}$/)
    }).pipe(Effect.provideService(Entropy.Entropy, {
      bytes: (count) => Effect.succeed(new Uint8Array(count).fill(255))
    })))
})
