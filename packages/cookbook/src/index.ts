/**
 * Rows to train on: streamed, and resumable from a {@link Position}, which is a value.
 *
 * - Every row carries the position after it. A dataset read from there gives exactly the rows that would have followed.
 * - Shuffles and interleavings are functions of a seed and the epoch, so a position needs no generator's state.
 * - Rows that cannot be used are part of the stream as {@link Skipped}, with the reason and where they stand. Nothing is
 *   dropped in silence.
 *
 * @since 0.1.0
 */
export * as Dataset from "./Dataset.js"

/**
 * What people keep in files to train on (chats, prompts with completions, preferred and rejected answers), and how it
 * becomes data.
 *
 * The schemas read the spellings that are in use: OpenAI's messages with `tool_calls`, reasoning as `reasoning_content` or
 * `thinking`, `conversations` with `from` and `value`.
 *
 * @since 0.1.0
 */
export * as Example from "./Example.js"
