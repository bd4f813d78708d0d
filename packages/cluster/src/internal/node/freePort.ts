import * as Effect from "effect/Effect"
import * as Net from "node:net"

/** A port that nothing listens on. @internal */
export const freePort: Effect.Effect<number> = Effect.async((resume) => {
  const probe = Net.createServer()
  probe.once("error", (error) => resume(Effect.die(error)))
  probe.listen(0, () => {
    const address = probe.address()
    probe.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})
