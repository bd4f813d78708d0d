/**
 * Everything an inference server needs, in one directory: weights in the form it takes, a model card that says what they
 * were made from, and the command that serves them.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Adapter from "./Adapter.js"
import * as Gguf from "./Gguf.js"
import * as GgufModel from "./GgufModel.js"
import * as files from "./internal/files.js"
import * as Merge from "./Merge.js"
import * as Peft from "./Peft.js"
import { OutputExists, UnsupportedFormat } from "./WeightsError.js"

/**
 * Servers a kit can be made for.
 *
 * @since 0.1.0
 * @category models
 */
export const targets = ["vllm", "sglang", "llama.cpp", "ollama", "transformers"] as const

/**
 * A server a kit can be made for.
 *
 * @since 0.1.0
 * @category models
 */
export type Target = (typeof targets)[number]

/**
 * The adapter merged into the model, or the adapter alone, to be loaded beside its base model.
 *
 * @since 0.1.0
 * @category models
 */
export type Form = "merged" | "adapter"

/**
 * Options of a kit.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  readonly target: Target
  /** Directory or GGUF file of the base model. */
  readonly base: string
  /** Directory of the adapter. */
  readonly adapter: string
  /** Directory to write; must not exist. */
  readonly output: string
  /** Name under which the model is served. Defaults to the name of the output directory. */
  readonly name?: string | undefined
  /** Name of the base model where servers fetch it. Defaults to the base directory. */
  readonly baseModelName?: string | undefined
  /** Defaults to `adapter` for vLLM and SGLang, which serve many adapters of one model, and to `merged` for the others. */
  readonly form?: Form | undefined
  /**
   * Type of the weights. Defaults to that of the base model in safetensors files, and to `f16` in GGUF files, the only
   * ones that can have `q8_0`.
   */
  readonly dtype?: Gguf.Format | undefined
  /** `fp8` writes the routed experts of a merged model for vLLM as float8 in blocks; see `Merge`. */
  readonly experts?: "fp8" | undefined
  /** For the model card: the checkpoint, the data, the recipe, … by name. */
  readonly provenance?: Readonly<Record<string, string>> | undefined
}

/**
 * How far it is; the last event is `Completed`.
 *
 * @since 0.1.0
 * @category models
 */
export type Event =
  | { readonly _tag: "Progress"; readonly written: number; readonly bytes: number; readonly tensor: string }
  | {
    readonly _tag: "Completed"
    readonly directory: string
    readonly form: Form
    /** The command that serves the model. */
    readonly command: string
    readonly warnings: ReadonlyArray<string>
  }

/**
 * Failures of making a kit.
 *
 * @since 0.1.0
 * @category errors
 */
export type Failure = Merge.Failure | Gguf.Failure | Peft.Failure

type Services = FileSystem.FileSystem | Path.Path

/** Turn formats, so that Ollama, which does not run Jinja, can write them: by a token that only one of them has. */
const ollamaTemplates: ReadonlyArray<readonly [marker: string, template: string, stop: string]> = [
  [
    "<|im_start|>",
    "{{ range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}<|im_start|>assistant\n",
    "<|im_end|>"
  ],
  [
    "<|start_header_id|>",
    "{{ range .Messages }}<|start_header_id|>{{ .Role }}<|end_header_id|>\n\n{{ .Content }}<|eot_id|>{{ end }}" +
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "<|eot_id|>"
  ]
]

const modelfile = (template: string): string => {
  const known = ollamaTemplates.find(([marker]) => template.includes(marker))
  const turns = known === undefined ? [] : [`TEMPLATE """${known[1]}"""`, `PARAMETER stop "${known[2]}"`]
  return ["FROM ./model.gguf", ...turns, ""].join("\n")
}

const chatTemplate = Effect.fnUntraced(function*(base: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  if ((yield* fs.stat(base)).type === "File") return (yield* GgufModel.open(base)).tokenizer.chatTemplate ?? ""
  const read = (name: string) => Effect.option(fs.readFileString(path.join(base, name)))
  return Option.getOrElse(yield* read("chat_template.jinja"), () => "") +
    Option.getOrElse(yield* read("tokenizer_config.json"), () => "")
})

const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ")

const card = (options: {
  readonly name: string
  readonly base: string
  readonly adapter: Adapter.Adapter
  readonly command: string
  readonly provenance: Readonly<Record<string, string>>
  readonly form: Form
  readonly library: string
}): string => {
  const { adapter, base, command, form, library, name, provenance } = options
  const rows = {
    "Base model": base,
    "LoRA rank": String(adapter.rank),
    "LoRA alpha": String(adapter.alpha),
    ...provenance
  }
  return [
    "---",
    `base_model: ${JSON.stringify(base)}`,
    `library_name: ${library}`,
    "tags: [lora, tinker]",
    "---",
    "",
    `# ${name}`,
    "",
    form === "adapter"
      ? "A LoRA adapter, to be loaded beside its base model."
      : "A fine-tuned model: the adapter is merged into the weights.",
    "",
    "| | |",
    "| --- | --- |",
    ...Object.entries(rows).map(([key, value]) => `| ${cell(key)} | ${cell(value)} |`),
    "",
    "```sh",
    command,
    "```",
    ""
  ].join("\n")
}

/** A word for a shell. */
const word = (text: string): string => /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

/** vLLM takes these ranks alone as its limit. */
const vllmRanks = [8, 16, 32, 64, 128, 256, 320, 512]

const commandOf = (
  path: Path.Path,
  options: Pick<Options, "target" | "output"> & {
    readonly form: Form
    readonly name: string
    readonly base: string
    readonly rank: number
  }
): string => {
  const { form, rank, target } = options
  const [at, name, base] = [options.output, options.name, options.base].map(word)
  const inside = (file: string) => word(path.join(options.output, file))
  switch (target) {
    case "vllm":
      return form === "merged"
        ? `vllm serve ${at} --served-model-name ${name}`
        : `vllm serve ${base} --enable-lora --max-lora-rank ${
          vllmRanks.find((allowed) => allowed >= rank) ?? rank
        } --lora-modules ${name}=${at}`
    case "sglang":
      return form === "merged"
        ? `python -m sglang.launch_server --model-path ${at} --served-model-name ${name}`
        : `python -m sglang.launch_server --model-path ${base} --enable-lora --lora-paths ${name}=${at}`
    case "llama.cpp":
      return form === "merged"
        ? `llama-server -m ${inside("model.gguf")} --alias ${name} --jinja`
        : `llama-server -m BASE.gguf --lora ${inside("adapter.gguf")} --alias ${name} --jinja`
    case "ollama":
      return `ollama create ${name} -f ${inside("Modelfile")} && ollama run ${name}`
    case "transformers":
      return `transformers chat ${at}`
  }
}

/** The form that the options ask for, or why they do not fit together. */
const check = (options: Options): Effect.Effect<{ readonly form: Form; readonly gguf: boolean }, UnsupportedFormat> => {
  const { dtype, target } = options
  const gguf = target === "llama.cpp" || target === "ollama"
  const form = options.form ?? (target === "vllm" || target === "sglang" ? "adapter" : "merged")
  const refuse = (description: string) => new UnsupportedFormat({ description })
  if (target === "ollama" && form === "adapter") {
    return refuse("Ollama needs the merged model: it cannot tell which of its models an adapter belongs to")
  }
  if (!gguf && form === "adapter" && dtype !== undefined) {
    return refuse("an adapter for this server keeps the type of its numbers; give a type for a merged model")
  }
  if (options.experts !== undefined && (target !== "vllm" || form !== "merged")) {
    return refuse("experts in float8 are for a merged model in vLLM")
  }
  if (!gguf && dtype === "q8_0") return refuse("q8_0 exists in GGUF files only, for llama.cpp and Ollama")
  if (gguf && form === "adapter" && dtype !== undefined && dtype !== "f32" && dtype !== "f16") {
    return refuse("a GGUF adapter is f32 or f16")
  }
  return Effect.succeed({ form, gguf })
}

const safetensorsType = { f32: "F32", f16: "F16", bf16: "BF16" } as const

const make = Effect.fnUntraced(function*(options: Options, emit: (event: Event) => Effect.Effect<void>) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const { dtype, target } = options
  const { form, gguf } = yield* check(options)
  const output = path.resolve(options.output)
  if (yield* fs.exists(output)) return yield* new OutputExists({ path: output })
  const adapter = yield* Adapter.open(options.adapter)
  const name = options.name ?? path.basename(output)
  const base = options.baseModelName ?? options.base
  const inputs = { base: options.base, adapter: options.adapter }
  const command = (rank: number) => commandOf(path, { target, output: options.output, form, name, base, rank })
  const readme = (rank: number) =>
    card({
      name,
      base,
      adapter,
      command: command(rank),
      provenance: options.provenance ?? {},
      form,
      library: gguf ? "gguf" : form === "adapter" ? "peft" : "transformers"
    })
  const report = <E extends { readonly _tag: string }, F, R>(self: Stream.Stream<E | Event, F, R>) =>
    Stream.runForEach(self, (event) => event._tag === "Progress" && "written" in event ? emit(event) : Effect.void)

  let rank = adapter.rank
  let warnings: ReadonlyArray<string> = []
  if (gguf) {
    // One file at a time, and the whole under its name only when all are there.
    const partial = `${output}.partial`
    yield* files.claim(
      partial,
      yield* files.fingerprint([options.base, options.adapter], { target, form, name, dtype: dtype ?? "f16" })
    )
    const weights = path.join(partial, form === "merged" ? "model.gguf" : "adapter.gguf")
    if (!(yield* fs.exists(weights))) {
      yield* form === "adapter"
        ? Gguf.writeAdapter({ ...inputs, output: weights, format: dtype === "f16" ? "f16" : "f32" })
        : report(Gguf.streamModel({ ...inputs, output: weights, format: dtype, name }))
    }
    yield* files.writeTexts(partial, {
      "README.md": readme(rank),
      ...(target === "ollama" ? { Modelfile: modelfile(yield* chatTemplate(options.base)) } : {})
    })
    yield* files.publish(partial, output)
  } else if (form === "adapter") {
    const summary = yield* Peft.convert({
      ...inputs,
      output,
      baseModelName: base,
      files: ({ rank }) => ({ "README.md": readme(rank) })
    })
    ;({ rank, warnings } = summary)
  } else {
    yield* report(Merge.stream({
      ...inputs,
      output,
      dtype: dtype === undefined || dtype === "q8_0" ? undefined : safetensorsType[dtype],
      experts: options.experts,
      files: { "README.md": readme(rank) }
    }))
  }
  yield* emit({ _tag: "Completed", directory: output, form, command: command(rank), warnings })
}, Effect.scoped)

/**
 * Makes a kit, and reports how far it is. Unfinished work lies in `OUTPUT.partial`, where the same call continues;
 * nothing has the output's name until everything is there.
 *
 * @since 0.1.0
 * @category constructors
 */
export const stream = (options: Options): Stream.Stream<Event, Failure, Services> =>
  files.events<Event, Failure, Services>((emit) => make(options, emit))
