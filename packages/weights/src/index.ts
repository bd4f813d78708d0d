/**
 * A trained LoRA adapter on disk, as a checkpoint download leaves it: `adapter_config.json` beside
 * `adapter_model.safetensors`. Its matrices are read when they are needed, not before.
 *
 * @since 0.1.0
 */
export * as Adapter from "./Adapter.js"

/**
 * GGUF files for llama.cpp and what is built on it (Ollama, LM Studio): a model with its vocabulary and chat template,
 * or a LoRA adapter to load beside one. Llama, Mistral, Qwen2 and Qwen3, dense and mixture of experts.
 *
 * Smaller formats than q8_0 are made from these files by llama.cpp itself: `llama-quantize model-f16.gguf Q4_K_M`.
 *
 * @since 0.1.0
 */
export * as Gguf from "./Gguf.js"

/**
 * GGUF files as llama.cpp, Ollama and LM Studio keep them: metadata, and tensors read by ranges as 32-bit floats.
 *
 * @since 0.2.0
 */
export * as GgufFile from "./GgufFile.js"

/**
 * A GGUF file as the Hugging Face directory of the same model would be: a configuration, the files of the tokenizer, and
 * tensors under their names there, with rows in their order.
 *
 * @since 0.2.0
 */
export * as GgufModel from "./GgufModel.js"

/**
 * Models that are on this machine already: in a directory, or in the cache that `hf download`, vLLM, transformers and
 * every other user of the Hugging Face Hub share.
 *
 * @since 0.1.0
 */
export * as HubCache from "./HubCache.js"

/**
 * A base model and an adapter written as one model, in the layout every Hugging Face compatible server loads.
 *
 * Memory does not grow with the model: files are copied by the operating system and only the weights that change pass
 * through this process, block by block. The result appears under its name only when it is complete; until then it lies in
 * `OUTPUT.partial`, and a second call with the same input continues with the first file that is missing.
 *
 * @since 0.1.0
 */
export * as Merge from "./Merge.js"

/**
 * A base model with an adapter applied, as a view: tensors are read by blocks of rows, and the adapter's delta is added
 * to a block when it is read. Nothing larger than a block and one pair of LoRA matrices is ever in memory.
 *
 * @since 0.1.0
 */
export * as MergedModel from "./MergedModel.js"

/**
 * How families of models name and lay out what an adapter changes. An adapter names weights as the training service
 * does (`unembed_tokens`, experts `w1` `w2` `w3`, separate projections); a model on disk may have other prefixes, fused
 * projections and stacked experts.
 *
 * @since 0.1.0
 */
export * as ModelFamily from "./ModelFamily.js"

/**
 * A trained adapter in the form inference servers take beside a base model (vLLM `--lora-modules`, SGLang
 * `--lora-paths`, PEFT's `from_pretrained`): names of the served model, one pair of matrices per expert.
 *
 * @since 0.1.0
 */
export * as Peft from "./Peft.js"

/**
 * Safetensors files and directories of them, read by ranges: opening one reads headers only, so a model of any size
 * costs a few kilobytes until its tensors are asked for.
 *
 * @since 0.1.0
 */
export * as Safetensors from "./Safetensors.js"

/**
 * The header of a safetensors file: which tensors there are, and where. It is checked against the size of the file, so that
 * one that lies makes no room for anything.
 *
 * @since 0.2.0
 */
export * as SafetensorsHeader from "./SafetensorsHeader.js"

/**
 * Everything an inference server needs, in one directory: weights in the form it takes, a model card that says what they
 * were made from, and the command that serves them.
 *
 * @since 0.1.0
 */
export * as ServingKit from "./ServingKit.js"

/**
 * Why weights cannot be read, combined or written.
 *
 * @since 0.1.0
 */
export * as WeightsError from "./WeightsError.js"
