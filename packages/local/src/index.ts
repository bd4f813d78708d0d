import "effect-tinker/requiresEffect3"

/**
 * The engine of the embedded backend: transformers that train and sample on the CPU. It knows nothing of HTTP, files or
 * Node. By default it computes in the calling thread, in short slices so that everything else on the event loop stays
 * responsive; `layerThreads` computes on worker threads, with the same results.
 *
 * @since 0.1.0
 */
export * as Engine from "./Engine.js"

/**
 * Refusals of the engine, and their reasons.
 *
 * @since 0.1.0
 */
export * as EngineError from "./EngineError.js"

/**
 * Faults on request: the embedded backend misbehaves by rule and seed, so that a program's answer to trouble can be
 * tested.
 *
 * @since 0.1.0
 */
export * as Faults from "./Faults.js"

/**
 * A LoRA adapter in training: what goes in, what comes out, and what is kept of it.
 *
 * @since 0.1.0
 */
export * as LocalAdapter from "./LocalAdapter.js"

/**
 * Models from files: a Hugging Face directory with `config.json`, safetensors in 16 or 32 bits, `tokenizer.json` and a
 * chat template, or one GGUF file. The families are Llama 3 and models of its shape (SmolLM2, Mistral, Phi-3), Qwen2.5,
 * Qwen3 and Gemma 3.
 *
 * @since 0.1.0
 */
export * as LocalCheckpoint from "./LocalCheckpoint.js"

/**
 * The models the embedded backend can train: two tiny ones with frozen random weights for tests, and any checkpoint of
 * a supported family that `LocalCheckpoint` reads.
 *
 * @since 0.1.0
 */
export * as LocalModel from "./LocalModel.js"

/**
 * Sampling from weights: requests, and what comes back.
 *
 * @since 0.1.0
 */
export * as LocalSampler from "./LocalSampler.js"

/**
 * The embedded backend as a function from requests to responses, without a socket. `TinkerLocal` puts it behind an
 * `HttpClient`, `NodeTinkerLocal` behind a port.
 *
 * @since 0.1.0
 */
export * as LocalServer from "./LocalServer.js"

/**
 * The tokenizer of the local models: one token per UTF-8 byte, and a few special tokens for conversations.
 *
 * @since 0.1.0
 */
export * as LocalTokenizer from "./LocalTokenizer.js"

/**
 * LoRA adapters from elsewhere, as PEFT saves them: read for the engine, whatever part of the model they change.
 * `LocalServer.importAdapter` makes checkpoints of them.
 *
 * @since 0.1.0
 */
export * as PeftAdapter from "./PeftAdapter.js"

/**
 * The safetensors file format: named tensors behind a JSON header, readable by the tools of other languages.
 *
 * @since 0.1.0
 */
export * as Safetensors from "./Safetensors.js"

/**
 * Where the embedded backend keeps checkpoints and records: a directory that other tools can read, or memory.
 *
 * @since 0.1.0
 */
export * as Storage from "./Storage.js"

/**
 * The embedded backend without a socket: the clients of `effect-tinker` over a server in this process, with real
 * training and sampling behind them. It reads the time from Effect's `Clock`, so it works under `TestClock`.
 *
 * @since 0.1.0
 */
export * as TinkerLocal from "./TinkerLocal.js"
