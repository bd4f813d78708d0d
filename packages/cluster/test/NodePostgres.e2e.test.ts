import * as NodeCluster from "@effect-tinker/cluster/NodeCluster"
import * as NodePostgres from "@effect-tinker/cluster/NodePostgres"
import { NodeContext } from "@effect/platform-node"
import { SqlClient } from "@effect/sql"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Redacted } from "effect"
import { existsSync, readdirSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const directories = () => readdirSync(tmpdir()).filter((name) => name.startsWith("tinker-postgres-"))

describe("NodePostgres", { timeout: 120_000 }, () => {
  it.scopedLive("asks for a password over every way in, and lets nobody else into its directory", (context) =>
    Effect.gen(function*() {
      const before = new Set(directories())
      const started = yield* NodePostgres.start
      if (Option.isNone(started)) {
        return context.skip("there is no Postgres on this machine: apt-get install postgresql")
      }
      const url = new URL(Redacted.value(started.value))
      assert.match(url.password, /^[0-9a-f]{64}$/)
      const ask = (address: string) =>
        Effect.exit(
          Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT 1 AS one`).pipe(
            Effect.provide(NodeCluster.layerPostgres({ url: Redacted.make(address) }))
          )
        )
      assert.strictEqual((yield* ask(url.href))._tag, "Success")
      const without = new URL(url)
      without.password = ""
      const wrong = new URL(url)
      wrong.password = "tinker"
      for (const { href } of [without, wrong]) assert.strictEqual((yield* ask(href))._tag, "Failure")
      const own = directories().filter((name) => !before.has(name)).map((name) => join(tmpdir(), name))
      assert.isNotEmpty(own)
      for (const directory of own) {
        assert.strictEqual(statSync(directory).mode & 0o777, 0o700)
        assert.isFalse(existsSync(join(directory, "password")))
      }
    }).pipe(Effect.provide(NodeContext.layer)))
})
