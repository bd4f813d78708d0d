import { RolloutWorker, RunAuthority, TrajectoryStore } from "@effect-tinker/cluster"
import { LibsqlClient } from "@effect/sql-libsql"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Redacted } from "effect"

const secret = Redacted.make("a secret of thirty-two characters")

const Database = LibsqlClient.layer({ url: ":memory:" })

const request = new RolloutWorker.RolloutRequest({
  key: new TrajectoryStore.RolloutKey({ run: "mine", step: 3, task: "0:data.jsonl#7", sample: 1 }),
  problem: "data.jsonl#7",
  seed: 5,
  policy: { path: "tinker://run/sampler_weights/rollouts-000003", version: 3, maxTokens: 8, temperature: 0.5 },
  limits: { maxTurns: 2 }
})

const { key, policy } = request

describe("RunAuthority", () => {
  it.effect("lets exactly what was signed through, and nothing else of the run", () =>
    Effect.gen(function*() {
      const authority = yield* RunAuthority.RunAuthority
      yield* authority.register("mine")
      const text = RolloutWorker.signedText(request)
      const signature = yield* authority.sign("mine", text)
      yield* authority.check("mine", text, signature)
      const changed = [
        { ...request, policy: { ...policy, path: "tinker://another/sampler_weights/its-secret" } },
        { ...request, policy: { ...policy, temperature: 0.6 } },
        { ...request, problem: "data.jsonl#8" },
        { ...request, seed: 6 },
        { ...request, limits: { maxTurns: 200 } },
        { ...request, key: new TrajectoryStore.RolloutKey({ ...key, step: 4 }) },
        { ...request, key: new TrajectoryStore.RolloutKey({ ...key, task: "1:data.jsonl#7" }) },
        { ...request, key: new TrajectoryStore.RolloutKey({ ...key, sample: 2 }) }
      ]
      for (const fields of changed) {
        const other = RolloutWorker.signedText(new RolloutWorker.RolloutRequest(fields))
        const error = yield* Effect.flip(authority.check("mine", other, signature))
        assert.include(error.message, "no trainer with the secret of this cluster has signed it")
      }
      yield* authority.register("another")
      yield* Effect.flip(authority.check("another", text, signature))
      for (const wrong of ["", "00", "zz", signature.slice(2), signature.replace(/^../, "00")]) {
        yield* Effect.flip(authority.check("mine", text, wrong))
      }
    }).pipe(Effect.provide(Layer.provide(RunAuthority.layerSql({ secret }), Database))))

  it.effect("knows the runs of its database only, from when they are registered on", () =>
    Effect.gen(function*() {
      const authority = yield* RunAuthority.RunAuthority
      const signature = yield* authority.sign("mine", "text")
      const error = yield* Effect.flip(authority.check("mine", "text", signature))
      assert.include(error.message, "the database does not know the run")
      yield* authority.register("mine")
      yield* authority.check("mine", "text", signature)
      yield* authority.register("mine")
    }).pipe(Effect.provide(Layer.provide(RunAuthority.layerSql({ secret }), Database))))

  it.effect("refuses what was signed with another secret", () =>
    Effect.gen(function*() {
      const signing = (value: string) =>
        Effect.provide(RunAuthority.RunAuthority, RunAuthority.layerSql({ secret: Redacted.make(value) }))
      const ours = yield* signing("a".repeat(32))
      const theirs = yield* signing("b".repeat(32))
      yield* ours.register("mine")
      assert.isTrue(Exit.isFailure(yield* Effect.exit(ours.check("mine", "text", yield* theirs.sign("mine", "text")))))
    }).pipe(Effect.provide(Database)))

  it.effect("finds the same random secret in a database each time", () =>
    Effect.gen(function*() {
      const found = yield* Effect.all(Array.from({ length: 4 }, () => RunAuthority.secretOf), { concurrency: 4 })
      assert.strictEqual(new Set(found.map(Redacted.value)).size, 1)
      assert.match(Redacted.value(found[0] ?? Redacted.make("")), /^[0-9a-f]{64}$/)
      assert.notInclude(String(found[0]), Redacted.value(found[0] ?? Redacted.make("")))
    }).pipe(Effect.provide(Database)))
})
