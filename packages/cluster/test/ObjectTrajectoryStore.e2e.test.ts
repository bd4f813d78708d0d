import { ObjectTrajectoryStore, TrajectoryStore } from "@effect-tinker/cluster"
import { FetchHttpClient, HttpClient, HttpClientResponse } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Redacted } from "effect"
import { start } from "./utils/objectStore.js"

const credentials = { accessKeyId: "tinker", secretAccessKey: Redacted.make("of-nobody") }

const key = (step: number, sample = 0, run = "a/b c") =>
  new TrajectoryStore.RolloutKey({ run, step, task: "file.jsonl#1/../ä+x", sample })

const example = (reward: number) => [{ turns: [], stop: "completed" as const, reward, metrics: { none: NaN } }]

const inStore = <A, E, R>(
  context: { readonly skip: (note: string) => unknown },
  effect: Effect.Effect<A, E, R>,
  more: Partial<ObjectTrajectoryStore.Options> = {}
) =>
  Effect.flatMap(start, (found) =>
    Option.isNone(found)
      ? Effect.sync(() => context.skip("there is no Go on this machine, which versitygw is built with"))
      : Effect.provide(
        effect,
        ObjectTrajectoryStore.layer({ ...found.value, prefix: "tinker", ...more }).pipe(
          Layer.provide(FetchHttpClient.layer)
        )
      )).pipe(Effect.provide(NodeContext.layer))

describe("trajectories in a bucket", { timeout: 660_000 }, () => {
  it.scopedLive("the first result of a rollout stays, of two that are written at once too", (context) =>
    inStore(
      context,
      Effect.gen(function*() {
        const store = yield* TrajectoryStore.TrajectoryStore
        assert.isTrue(Option.isNone(yield* store.get(key(1))))
        assert.isFalse(yield* store.has(key(1)))
        assert.isTrue(Option.isNone(yield* store.latest("a/b c")))
        const eight = yield* Effect.forEach(
          [1, 2, 3, 4, 5, 6, 7, 8],
          (reward) => store.put(key(1), example(reward)),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(eight.filter(Boolean).length, 1)
        assert.strictEqual(Option.getOrThrow(yield* store.get(key(1)))[0]?.reward, eight.indexOf(true) + 1)
        assert.isFalse(yield* store.put(key(1), example(9)))
        assert.deepStrictEqual(
          yield* store.putMany([{ key: key(1), trajectories: [] }, { key: key(12), trajectories: example(5) }]),
          [false, true]
        )
        assert.deepStrictEqual(Option.getOrThrow(yield* store.get(key(12))), example(5))
        assert.deepStrictEqual((yield* store.getMany([key(2), key(12)])).map(Option.isSome), [false, true])
        assert.deepStrictEqual(yield* store.latest("a/b c"), Option.some(12))
        assert.deepStrictEqual(yield* store.latest("a"), Option.none())
        yield* store.prune("a/b c", 12)
        assert.isFalse(yield* store.has(key(1)))
        assert.isTrue(yield* store.has(key(12)))
      })
    ))

  it.scopedLive("more than a page of them is removed; large ones come back as they were", (context) =>
    inStore(
      context,
      Effect.gen(function*() {
        const store = yield* TrajectoryStore.TrajectoryStore
        const keys = Array.from({ length: 1010 }, (_, sample) => key(3, sample, "pages"))
        yield* store.putMany(keys.map((key) => ({ key, trajectories: [] })))
        assert.strictEqual((yield* store.getMany(keys)).filter(Option.isSome).length, 1010)
        yield* store.prune("pages", 4)
        assert.strictEqual((yield* store.getMany(keys)).filter(Option.isSome).length, 0)
        assert.isTrue(Option.isNone(yield* store.latest("pages")))
        const large = [{
          turns: [{
            prompt: Int32Array.from({ length: 4_000_000 }, (_, n) => n),
            action: {
              tokens: Int32Array.of(1),
              logprobs: Float32Array.of(-0),
              stopReason: "stop" as const,
              policyVersion: 0
            },
            reward: 1,
            masked: false,
            metrics: {}
          }],
          stop: "completed" as const,
          reward: 1,
          metrics: {}
        }]
        assert.isTrue(yield* store.put(key(1, 0, "large"), large))
        const [back] = Option.getOrThrow(yield* store.get(key(1, 0, "large")))
        assert.strictEqual(back?.turns[0]?.prompt.length, 4_000_000)
        assert.strictEqual(back?.turns[0]?.prompt.at(-1), 3_999_999)
      })
    ))

  it.scopedLive("need the key, whose secret is in no error; a bucket that is missing is named", (context) =>
    Effect.gen(function*() {
      const secretAccessKey = Redacted.make("another-secret-than-the-right-one")
      const wrong = yield* Effect.exit(inStore(context, Effect.void, { secretAccessKey }))
      if (wrong._tag === "Success") return
      assert.include(String(wrong.cause), "SignatureDoesNotMatch")
      assert.notInclude(JSON.stringify(wrong), Redacted.value(secretAccessKey))
      const missing = yield* Effect.exit(inStore(context, Effect.void, { bucket: "elsewhere" }))
      assert.include(String(missing), "NoSuchBucket")
    }))

  it.effect("a server that replaces what is there is refused", () =>
    Effect.gen(function*() {
      const careless = HttpClient.make((request) =>
        Effect.succeed(HttpClientResponse.fromWeb(request, new Response(null, { status: 200 })))
      )
      const error = yield* Effect.flip(
        Effect.provide(
          TrajectoryStore.TrajectoryStore,
          ObjectTrajectoryStore.layer({ ...credentials, bucket: "any", endpoint: "http://127.0.0.1:1" }).pipe(
            Layer.provide(Layer.succeed(HttpClient.HttpClient, careless))
          )
        )
      )
      assert.include(error.message, "If-None-Match")
    }))
})
