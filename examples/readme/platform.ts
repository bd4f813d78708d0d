import { DirectoryLock } from "@effect-tinker/platform"
import { Effect, Option } from "effect"

const exclusively = Effect.gen(function*() {
  const lock = yield* DirectoryLock.acquire("runs/support")
  if (Option.isNone(lock.owner)) yield* Effect.log("this process is the only one that writes there")
}).pipe(Effect.scoped)

export { exclusively }
