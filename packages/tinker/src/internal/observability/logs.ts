/**
 * How the SDK's log lines are marked, so that they can be told from the program's own and filtered.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"

/**
 * Lines of this module, and what else is known as fields.
 *
 * @internal
 */
export const of = (module: string, fields: Readonly<Record<string, unknown>> = {}) =>
  Effect.annotateLogs({ ...fields, package: "effect-tinker", module })
