/**
 * Tinker for plain async code, without dependencies: the clients over `fetch`, for every runtime. `@effect-tinker/promise/local`
 * adds the embedded backend, `@effect-tinker/promise/node` files, the models on this machine, and credentials.
 *
 * @since 0.1.0
 */
export type * from "./Chat.js"
export type * from "./Clients.js"
export { connect, datum, fromExamples, fromTokens, isRetryable, isTinkerError } from "./connecting.js"
export { chatFor, tokenizerFor } from "./conversations.js"
export type * from "./Data.js"
export type * from "./Errors.js"
export type * from "./Service.js"
export type * from "./Trainers.js"
export { trainers } from "./training.js"
