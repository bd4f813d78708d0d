/**
 * bubblewrap on this machine: installed where that is possible.
 */
import * as NodeSandbox from "@effect-tinker/cookbook/NodeSandbox"
import { Effect, Either } from "effect"
import { spawnSync } from "node:child_process"

const has = (command: string) => spawnSync(command, ["--version"]).status === 0

const install = Effect.sync(() => {
  if (has("bwrap") || process.getuid?.() !== 0 || !has("apt-get")) return
  spawnSync("sh", ["-c", "apt-get update && apt-get install -y --no-install-recommends bubblewrap"], {
    timeout: 120_000,
    stdio: "ignore"
  })
})

/** Why there is no such sandbox on this machine, or nothing. */
export const missing: Effect.Effect<string | undefined> = install.pipe(
  Effect.zipRight(Effect.either(NodeSandbox.makeBubblewrap())),
  Effect.map((made) => Either.isLeft(made) ? `${made.left.message}; apt-get install bubblewrap` : undefined)
)
