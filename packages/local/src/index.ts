/**
 * The engine of the embedded backend: small transformers that train and sample on the CPU. It knows nothing of HTTP,
 * files or Node; it computes in short slices so that whatever shares the event loop with it stays responsive.
 *
 * @since 0.1.0
 */
export * as Engine from "./Engine.js"

/**
 * What the engine refuses to do, and why.
 *
 * @since 0.1.0
 */
export * as EngineError from "./EngineError.js"

/**
 * A LoRA adapter in training: what goes in, what comes out, and what is kept of it.
 *
 * @since 0.1.0
 */
export * as LocalAdapter from "./LocalAdapter.js"

/**
 * The models the embedded backend can train. They are small decoder-only transformers with frozen random weights and
 * the letter statistics of a page of English: enough to learn a task in seconds, not enough to know anything.
 *
 * @since 0.1.0
 */
export * as LocalModel from "./LocalModel.js"

/**
 * Sampling from frozen weights: what can be asked, and what comes back.
 *
 * @since 0.1.0
 */
export * as LocalSampler from "./LocalSampler.js"

/**
 * The tokenizer of the local models: one token per UTF-8 byte, and a few special tokens for conversations.
 *
 * @since 0.1.0
 */
export * as LocalTokenizer from "./LocalTokenizer.js"
