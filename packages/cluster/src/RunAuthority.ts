/**
 * Which rollouts a worker runs: those that the trainer of a run has signed, of a run that the database knows. A signature
 * covers the whole request, so that nobody without the secret of the cluster can have another checkpoint sampled, another
 * problem tried, or a trajectory stored for the keys of a run.
 *
 * The secret is a text that trainers and workers share: one that is given to all of them, or one that the first of them
 * leaves in the database.
 *
 * @since 0.2.0
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Encoding from "effect/Encoding"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as TrajectoryStore from "./TrajectoryStore.js"

/**
 * A worker was asked for something that no trainer of a known run has asked for.
 *
 * @since 0.2.0
 * @category errors
 */
export class RequestRefused
  extends Schema.TaggedError<RequestRefused>("@effect-tinker/cluster/RunAuthority/RequestRefused")(
    "RequestRefused",
    { run: Schema.String, description: Schema.String }
  )
{
  override get message(): string {
    return `a request for the run ${this.run} is refused: ${this.description}`
  }
}

/**
 * Signs what a trainer asks for, and tells a worker whether to do it.
 *
 * @since 0.2.0
 * @category services
 */
export class RunAuthority extends Context.Tag("@effect-tinker/cluster/RunAuthority")<RunAuthority, {
  /** Makes a run known to workers. */
  readonly register: (run: string) => Effect.Effect<void, TrajectoryStore.TrajectoryStoreFailed>
  readonly sign: (run: string, request: string) => Effect.Effect<string>
  readonly check: (
    run: string,
    request: string,
    signature: string
  ) => Effect.Effect<void, RequestRefused | TrajectoryStore.TrajectoryStoreFailed>
}>() {}

const utf8 = new TextEncoder()

const algorithm = { name: "HMAC", hash: "SHA-256" }

const hmacKey = (secret: Redacted.Redacted, usages: Array<KeyUsage>) =>
  Effect.promise(() =>
    globalThis.crypto.subtle.importKey("raw", utf8.encode(Redacted.value(secret)), algorithm, false, usages)
  )

/** A key for one purpose, from the secret of the cluster. @internal */
export const derive = (secret: Redacted.Redacted, purpose: string): Effect.Effect<Uint8Array> =>
  Effect.flatMap(
    hmacKey(secret, ["sign"]),
    (key) =>
      Effect.promise(async () =>
        new Uint8Array(await globalThis.crypto.subtle.sign(algorithm, key, utf8.encode(purpose)))
      )
  )

/** Unambiguous: the name of a run cannot run on into its request. */
const signed = (run: string, request: string) => utf8.encode(`rollout\n${JSON.stringify(run)}\n${request}`)

const failed = (cause: unknown) =>
  new TrajectoryStore.TrajectoryStoreFailed({
    description: cause instanceof Error ? cause.message : String(cause),
    cause
  })

/** Two that create a table at the same time: one of them loses, and finds it. */
const created = <A, E>(create: Effect.Effect<A, E>) => Effect.retry(Effect.mapError(create, failed), { times: 3 })

/**
 * The secret in the database, for clusters that are given none: a process that can read it can already do everything the secret allows.
 *
 * @since 0.2.0
 * @category constructors
 */
export const secretOf: Effect.Effect<Redacted.Redacted, TrajectoryStore.TrajectoryStoreFailed, SqlClient.SqlClient> =
  Effect.gen(
    function*() {
      const sql = (yield* SqlClient.SqlClient).withoutTransforms()
      yield* created(sql`CREATE TABLE IF NOT EXISTS tinker_cluster_secret (
      id INTEGER PRIMARY KEY CHECK (id = 1),
      secret TEXT NOT NULL
    )`)
      const secret = Encoding.encodeHex(globalThis.crypto.getRandomValues(new Uint8Array(32)))
      yield* Effect.mapError(
        sql`INSERT INTO tinker_cluster_secret ${sql.insert({ id: 1, secret })} ON CONFLICT DO NOTHING`,
        failed
      )
      const [row] = yield* Effect.mapError(
        sql<{ readonly secret: string }>`SELECT secret FROM tinker_cluster_secret WHERE id = 1`,
        failed
      )
      return row === undefined ? yield* failed("the secret of the cluster is not there") : Redacted.make(row.secret)
    }
  )

/**
 * Runs are known by a table of the database, `tinker_runs`, which is created where it is missing.
 *
 * @since 0.2.0
 * @category layers
 */
export const layerSql = (options: {
  /** Secret that trainers and workers share. At least 32 characters of chance. */
  readonly secret: Redacted.Redacted
}): Layer.Layer<RunAuthority, TrajectoryStore.TrajectoryStoreFailed, SqlClient.SqlClient> =>
  Layer.effect(
    RunAuthority,
    Effect.gen(function*() {
      const sql = (yield* SqlClient.SqlClient).withoutTransforms()
      yield* created(sql`CREATE TABLE IF NOT EXISTS tinker_runs (run TEXT PRIMARY KEY)`)
      const key = yield* hmacKey(options.secret, ["sign", "verify"])
      const { subtle } = globalThis.crypto
      // A run that is known stays known: the database is asked once.
      const known = new Set<string>()
      const isKnown = (run: string) =>
        known.has(run)
          ? Effect.succeed(true)
          : sql`SELECT 1 AS found FROM tinker_runs WHERE run = ${run}`.pipe(
            Effect.map((rows) => {
              if (rows.length > 0) known.add(run)
              return rows.length > 0
            }),
            Effect.mapError(failed)
          )
      return RunAuthority.of({
        register: (run) =>
          Effect.mapError(
            Effect.asVoid(sql`INSERT INTO tinker_runs ${sql.insert({ run })} ON CONFLICT DO NOTHING`),
            failed
          ),
        sign: (run, request) =>
          Effect.promise(async () =>
            Encoding.encodeHex(new Uint8Array(await subtle.sign(algorithm, key, signed(run, request))))
          ),
        check: Effect.fnUntraced(function*(run, request, signature) {
          const refused = (description: string) => new RequestRefused({ run, description })
          const bytes = yield* Effect.mapError(
            Encoding.decodeHex(signature),
            () => refused("its signature is not one")
          )
          const isSigned = yield* Effect.promise(() =>
            subtle.verify(algorithm, key, Uint8Array.from(bytes), signed(run, request))
          )
          if (!isSigned) return yield* refused("no trainer with the secret of this cluster has signed it")
          if (!(yield* isKnown(run))) return yield* refused("the database does not know the run")
        })
      })
    })
  )
