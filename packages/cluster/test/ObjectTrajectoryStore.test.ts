import { ObjectTrajectoryStore, TrajectoryStore } from "@effect-tinker/cluster"
import { HttpClient, HttpClientResponse } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, Exit, Layer, Option, Redacted } from "effect"

/** A bucket by the rules of S3: objects that are new, lists in pages of so many names, prefixes up to a delimiter. */
const bucket = (pageSize: number) => {
  const objects = new Map<string, string>()
  const seen: Array<string> = []
  let answer: (method: string, url: URL) => Response | undefined = () => undefined
  const escaped = (text: string) => encodeURIComponent(text).replaceAll("%2F", "/").replaceAll("%20", "+")
  const list = (query: URLSearchParams) => {
    const [prefix = "", delimiter] = [query.get("prefix") ?? "", query.get("delimiter") ?? undefined]
    const names = new Set(
      Array.from(objects.keys()).filter((name) => name.startsWith(prefix)).sort().map((name) => {
        const at = delimiter === undefined ? -1 : name.indexOf(delimiter, prefix.length)
        return at < 0 ? name : name.slice(0, at + 1)
      })
    )
    const from = Number(query.get("continuation-token") ?? 0)
    const page = Array.from(names).slice(from, from + pageSize)
    const rest = names.size > from + pageSize
    return [
      "<?xml version=\"1.0\"?><ListBucketResult><EncodingType>url</EncodingType>",
      `<IsTruncated>${rest}</IsTruncated>`,
      // Servers may name a page to go on with where there is none.
      `<NextContinuationToken>${from + pageSize}</NextContinuationToken>`,
      ...page.map((name) =>
        delimiter !== undefined && name.endsWith(delimiter)
          ? `<CommonPrefixes> <Prefix>${escaped(name)}</Prefix></CommonPrefixes>`
          : `<Contents><Key>${escaped(name)}</Key></Contents>`
      ),
      "</ListBucketResult>"
    ].join("")
  }
  const respond = (method: string, url: URL, body: string, onlyNew: boolean): Response => {
    const given = answer(method, url)
    if (given !== undefined) return given
    const name = decodeURIComponent(url.pathname.replace(/^\/bucket\/?/, ""))
    switch (method) {
      case "PUT":
        if (onlyNew && objects.has(name)) return new Response(null, { status: 412 })
        objects.set(name, body)
        return new Response(null, { status: 200 })
      case "DELETE":
        objects.delete(name)
        return new Response(null, { status: 204 })
      case "HEAD":
        return new Response(null, { status: objects.has(name) ? 200 : 404 })
      default: {
        if (name === "") return new Response(list(url.searchParams))
        const text = objects.get(name)
        return new Response(text ?? null, { status: text === undefined ? 404 : 200 })
      }
    }
  }
  const sent: Array<{ readonly host: string; readonly headers: Readonly<Record<string, string>> }> = []
  const client = HttpClient.make((request, url) =>
    Effect.sync(() => {
      seen.push(`${request.method} ${url.pathname}`)
      sent.push({ host: url.host, headers: request.headers })
      const body = request.body._tag === "Uint8Array" ? new TextDecoder().decode(request.body.body) : ""
      return HttpClientResponse.fromWeb(
        request,
        respond(request.method, url, body, request.headers["if-none-match"] === "*")
      )
    })
  )
  const Client = Layer.succeed(HttpClient.HttpClient, client)
  return {
    objects,
    seen,
    sent,
    Client,
    answerWith: (next: typeof answer) => {
      answer = next
    },
    layer: ObjectTrajectoryStore.layer({
      bucket: "bucket",
      endpoint: "http://objects.test",
      prefix: "here",
      accessKeyId: "id",
      secretAccessKey: Redacted.make("secret")
    }).pipe(Layer.provide(Client))
  }
}

const key = (step: number, sample = 0, run = "a/b c") =>
  new TrajectoryStore.RolloutKey({ run, step, task: "file.jsonl#1", sample })

const example = (reward: number) => [{ turns: [], stop: "completed" as const, reward, metrics: {} }]

describe("ObjectTrajectoryStore", () => {
  it.effect("finds and removes what is on further pages, and asks for no page that is not there", () =>
    Effect.gen(function*() {
      const { layer, objects, seen } = bucket(2)
      yield* Effect.gen(function*() {
        const store = yield* TrajectoryStore.TrajectoryStore
        for (const step of [1, 2, 3, 10, 20]) {
          for (const sample of [0, 1, 2]) yield* store.put(key(step, sample), example(1))
        }
        yield* store.put(key(7, 0, "another"), example(1))
        // As texts 3 would be the last of five; two pages of two and one of one.
        seen.length = 0
        assert.deepStrictEqual(yield* store.latest("a/b c"), Option.some(20))
        assert.strictEqual(seen.length, 3)
        yield* store.prune("a/b c", 10)
        assert.deepStrictEqual(
          yield* Effect.forEach([1, 2, 3, 10, 20], (step) => store.has(key(step, 2))),
          [false, false, false, true, true]
        )
        assert.strictEqual(objects.size, 7)
        assert.isTrue(yield* store.has(key(7, 0, "another")))
        assert.deepStrictEqual(yield* store.latest("a"), Option.none())
      }).pipe(Effect.provide(layer))
    }))

  it.effect("the first result stays, and what is missing is nothing", () =>
    Effect.gen(function*() {
      const { layer, objects } = bucket(10)
      yield* Effect.gen(function*() {
        const store = yield* TrajectoryStore.TrajectoryStore
        // The object that was written to see whether the server keeps to the condition is gone.
        assert.strictEqual(objects.size, 0)
        assert.isTrue(yield* store.put(key(1), example(1)))
        assert.isFalse(yield* store.put(key(1), example(2)))
        assert.deepStrictEqual(yield* store.get(key(1)), Option.some(example(1)))
        assert.deepStrictEqual(yield* store.get(key(2)), Option.none())
        assert.deepStrictEqual(Array.from(objects.keys(), (name) => name.split("/").length), [4])
      }).pipe(Effect.provide(layer))
    }))

  it.live("tries again where a server is busy, and not where it refuses or an answer is too large", () =>
    Effect.gen(function*() {
      const { answerWith, layer, seen } = bucket(10)
      yield* Effect.gen(function*() {
        const store = yield* TrajectoryStore.TrajectoryStore
        yield* store.put(key(1), example(1))
        let busy = 2
        answerWith(() => busy-- > 0 ? new Response(null, { status: 503 }) : undefined)
        seen.length = 0
        assert.isTrue(yield* store.has(key(1)))
        assert.strictEqual(seen.length, 3)
        const refused = Effect.fnUntraced(function*(response: () => Response, ask: Effect.Effect<unknown, Error>) {
          answerWith(response)
          seen.length = 0
          const error = yield* Effect.flip(ask)
          assert.strictEqual(seen.length, 1)
          return error.message
        })
        const denied = () => new Response("<Error><Code>AccessDenied</Code></Error>", { status: 403 })
        for (
          const ask of [
            store.has(key(1)),
            store.get(key(1)),
            store.put(key(2), example(1)),
            store.latest("a/b c"),
            store.prune("a/b c", 3)
          ]
        ) {
          assert.include(yield* refused(denied, ask), "the server answered 403, AccessDenied")
        }
        const large = () => new Response("[]", { headers: { "content-length": String(1024 ** 3) } })
        assert.include(yield* refused(large, store.get(key(1))), "larger than")
        assert.include(yield* refused(() => new Response("no json"), store.get(key(1))), "the trajectory store failed")
      }).pipe(Effect.provide(layer))
    }))

  it.effect("an address that is none is refused", () =>
    Effect.gen(function*() {
      const exit = yield* Effect.exit(Effect.provide(
        TrajectoryStore.TrajectoryStore,
        ObjectTrajectoryStore.layer({
          bucket: "bucket",
          endpoint: "objects",
          accessKeyId: "id",
          secretAccessKey: Redacted.make("secret")
        }).pipe(Layer.provide(Layer.succeed(HttpClient.HttpClient, HttpClient.make(() => Effect.never))))
      ))
      assert.isTrue(Exit.isFailure(exit))
      assert.include(String(exit), "is no address of an object store")
    }))

  it.effect("takes the bucket from an address, and the rest from the environment by the names of other tools", () =>
    Effect.gen(function*() {
      const environment = {
        AWS_ACCESS_KEY_ID: "id",
        AWS_SECRET_ACCESS_KEY: "secret",
        AWS_DEFAULT_REGION: "eu-north-1",
        AWS_SESSION_TOKEN: "session",
        AWS_ENDPOINT_URL: "http://elsewhere.test"
      }
      const opened = Effect.fnUntraced(function*(address: string, more: Readonly<Record<string, string>> = {}) {
        const { Client, objects, sent } = bucket(10)
        yield* Effect.flatMap(TrajectoryStore.TrajectoryStore, (store) => store.put(key(1), example(1))).pipe(
          Effect.provide(Layer.provide(ObjectTrajectoryStore.layerConfig(address), Client)),
          Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries({ ...environment, ...more }))))
        )
        const [first] = sent
        return {
          host: first?.host,
          token: first?.headers["x-amz-security-token"],
          signedFor: /Credential=([^,]*)/.exec(first?.headers["authorization"] ?? "")?.[1]?.replace(/\d{8}/, "DAY"),
          folder: Array.from(objects.keys())[0]?.split("/").slice(0, -3).join("/")
        }
      })
      assert.deepStrictEqual(yield* opened("s3://bucket/runs/mine"), {
        host: "elsewhere.test",
        token: "session",
        signedFor: "id/DAY/eu-north-1/s3/aws4_request",
        folder: "runs/mine"
      })
      const nearer = { AWS_ENDPOINT_URL_S3: "http://objects.test", AWS_REGION: "eu-west-1" }
      assert.deepInclude(yield* opened("s3://bucket", nearer), {
        host: "objects.test",
        signedFor: "id/DAY/eu-west-1/s3/aws4_request",
        folder: ""
      })
      for (const wrong of ["s3://", "http://bucket", "bucket", "s3://bucket?x"]) {
        assert.include((yield* Effect.flip(opened(wrong))).message, "is not s3://BUCKET/PREFIX")
      }
    }))
})
