/**
 * Runs the command line of this process.
 *
 * @since 0.1.0
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Cli from "./Cli.js"
import type { CommandLine, Question, Reading } from "./internal/commandLine.js"
import * as Stdio from "./terminal/Stdio.js"

/** @internal */
export const main = (reading: Reading, from: IteratorResult<Question, CommandLine>): void => {
  const fiber = Effect.runFork(
    Cli.runReading(reading, from).pipe(Effect.provide(Stdio.layer()), Effect.provide(NodeContext.layer))
  )
  let signals = 0
  let stopCode = 130
  const onSignal = (code: number) => () => {
    // A second signal means: do not wait for cleaning up.
    if (++signals > 1) process.exit(code)
    stopCode = code
    fiber.unsafeInterruptAsFork(Fiber.id(fiber))
  }
  process.on("SIGINT", () => Stdio.interrupted() || onSignal(130)())
  process.on("SIGTERM", onSignal(143))
  fiber.addObserver((exit) => {
    if (Exit.isSuccess(exit)) process.exit(exit.value)
    const interrupted = signals > 0 || Cause.isInterruptedOnly(exit.cause)
    process.stderr.write(interrupted ? "\nInterrupted\n" : `error: ${Cause.pretty(exit.cause)}\n`)
    process.exit(interrupted ? stopCode : 1)
  })
}
