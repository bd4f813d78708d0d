/**
 * Checks of this machine: Node, and what the embedded backend computes with.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as text from "../../terminal/text.js"
import { oldest, problem } from "../nodeVersion.js"
import type { Check } from "./check.js"
import { failed, ok, warning } from "./check.js"

/** @internal */
export const node = (): Check => {
  const tooOld = problem(process.versions.node)
  return tooOld === undefined
    ? ok("node", process.version)
    : failed("node", process.version, `Install Node ${oldest} or newer.`)
}

/** Names of models, with what is wrong with each. */
const named = (models: ReadonlyArray<{ readonly name: string; readonly why: string }>): string => {
  const [first] = models
  const more = models.length - 1
  return first === undefined ? "" : `${first.name}: ${first.why}${more > 0 ? `, and ${more} more` : ""}`
}

/** The engine's kernels, threads and memory, and the models it can serve. Loaded on demand: it brings in the engine. @internal */
export const engine: Effect.Effect<ReadonlyArray<Check>> = Effect.gen(function*() {
  const backend = yield* Effect.promise(() => import("../localBackend.js"))
  const { freeMemory, kernels, threads } = yield* backend.machine
  const models = yield* backend.listed
  const unusable = models.flatMap(({ name, usable }) =>
    Either.isLeft(usable) ? [{ name, why: text.safe(usable.left) }] : []
  )
  const tooLarge = models.flatMap(({ name, usable }) =>
    Either.isRight(usable) && !usable.right.memory.fits
      ? [{ name, why: `${text.size(usable.right.memory.least)} of memory` }]
      : []
  )
  const usable = models.length - unusable.length - tooLarge.length
  return [
    Either.match(kernels, {
      onLeft: (reason) =>
        warning(
          "kernels",
          `WebAssembly: ${reason}`,
          "Training and sampling take about twice the time of native kernels."
        ),
      onRight: (file) => ok("kernels", `native, ${file}`)
    }),
    ok("machine", `${text.count(threads, "engine thread")}, ${text.size(freeMemory)} of memory free`),
    tooLarge.length > 0
      ? warning(
        "models",
        `${usable} of ${models.length} fit; ${named(tooLarge)}`,
        "Close other programs, choose a smaller model, or use --quantize int8: a quarter of the memory for weights."
      )
      : unusable.length > 0
      ? warning(
        "models",
        `${usable} of ${models.length} can be used; ${named(unusable)}`,
        "`tinker models --base-url local` names each with its reason."
      )
      : ok("models", `${text.count(models.length, "model")} fit in memory`)
  ]
})
