/**
 * The chat format of a model.
 *
 * @since 0.1.0
 */
export * as Chat from "./Chat.js"

/**
 * The clients as an Effect 4 service.
 *
 * - An operation starts when its Effect does: what starts first reaches the server first.
 * - Interruption aborts the call; what was not sent never is.
 * - Clients are closed with their scope.
 *
 * @since 0.1.0
 */
export * as Tinker from "./Tinker.js"

/**
 * Failures of calls. Each has a `_tag`, so that `Effect.catchTag` handles one of them, and a message that says what to do.
 *
 * @since 0.1.0
 */
export * as TinkerError from "./TinkerError.js"

/**
 * Trainers: each run a Stream of optimizer steps. Where a stream is left, or interrupted, a checkpoint is saved first; with
 * `log`, the same run goes on from there.
 *
 * @since 0.1.0
 */
export * as Train from "./Train.js"
