/**
 * A token that is matched in text as a whole, before the vocabulary is asked: control tokens and other fixed spellings.
 *
 * @since 0.1.0
 */
export * as AddedToken from "./AddedToken.js"

/**
 * Text in, text out: messages to a model and its answer back, over anything that samples tokens.
 *
 * An answer keeps the exact ids and log probabilities it was sampled with. The next turn continues from those ids wherever
 * the format allows it, and says why where it does not: what is trained on is what was sampled.
 *
 * @since 0.1.0
 */
export * as Chat from "./Chat.js"

/**
 * A model's own chat template: messages to the text the model was trained on.
 *
 * Templates are Jinja written against Python. They run on `@huggingface/jinja`, changed where its habits differ from
 * Python's: `strip(chars)`, `tojson(indent=…)` of empty objects, `None` and lists where text is expected, what `{{ }}` and
 * `~` print, and floats. What still differs: a float without a fraction reads as an integer (`1.0` prints `1`), integers
 * above 2⁵³ are rounded, an index out of range is undefined instead of an error, what a loop printed in the round that
 * ends in `{% break %}` is lost.
 *
 * @since 0.1.0
 */
export * as ChatTemplate from "./ChatTemplate.js"

/**
 * Tokenizer files from the Hugging Face hub, through the cache the Python libraries use.
 *
 * @since 0.1.0
 */
export * as HuggingFaceHub from "./HuggingFaceHub.js"

/**
 * Messages of a conversation: what renderers turn into tokens and make of sampled tokens.
 *
 * @since 0.1.0
 */
export * as Message from "./Message.js"

/**
 * Conversations to tokens, and sampled tokens to messages, in the format a model was trained on.
 *
 * Text of messages never becomes a control token: `<|im_end|>` in a user's words is encoded as the letters it is made of,
 * unless the message says `markup`.
 *
 * @since 0.1.0
 */
export * as Renderer from "./Renderer.js"

/**
 * The renderers of the model families, by constructor, by name and by model.
 *
 * @since 0.1.0
 */
export * as Renderers from "./Renderers.js"

/**
 * Text to token ids and back, synchronously and without effects once loaded.
 *
 * A tokenizer is built from a model's own `tokenizer.json` by `@huggingface/tokenizers`. When it is byte-level BPE, as every
 * model family of the Tinker service is, a faster core of our own encodes and decodes; it must agree with the library on
 * a set of probes at load, otherwise the library does the work. `Tokenizer.engine` says which one it is.
 *
 * @since 0.1.0
 */
export * as Tokenizer from "./Tokenizer.js"

/**
 * Failures of finding or loading a tokenizer, and of rendering a conversation.
 *
 * The classes are flat and their tags carry the subject (`TokenizerNotFound`, not `NotFound`), so that they can be caught
 * by tag in a program which also handles the errors of a client.
 *
 * @since 0.1.0
 */
export * as TokenizerError from "./TokenizerError.js"

/**
 * Where the files of tokenizers come from: memory, a directory, or (in `HuggingFaceHub`) the hub.
 *
 * @since 0.1.0
 */
export * as TokenizerFiles from "./TokenizerFiles.js"

/**
 * Which tokenizer belongs to a model: the rules of the Python SDK as a pure function.
 *
 * @since 0.1.0
 */
export * as TokenizerId from "./TokenizerId.js"

/**
 * Finds, loads and keeps tokenizers by the name of the model.
 *
 * @since 0.1.0
 */
export * as Tokenizers from "./Tokenizers.js"
