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
import * as files from "./internal/files.js"
import * as Merge from "./Merge.js"
import * as Peft from "./Peft.js"
import { OutputExists } from "./WeightsError.js"

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
 * What to make.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  readonly target: Target
  /** Directory of the base model. */
  readonly base: string
  /** Directory of the adapter. */
  readonly adapter: string
  /** Directory to write; must not exist. */
  readonly output: string
  /** Name under which the model is served. Defaults to the name of the output directory. */
  readonly name?: string | undefined
  /** What the base model is called where servers fetch it. Defaults to the base directory. */
  readonly baseModelName?: string | undefined
  /** For vLLM and SGLang: a merged model instead of an adapter beside the base model. Defaults to false. */
  readonly merged?: boolean | undefined
  /** For llama.cpp and Ollama. Defaults to `f16`. */
  readonly format?: Gguf.Format | undefined
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
    /** The command that serves the model. */
    readonly command: string
    readonly warnings: ReadonlyArray<string>
  }

/**
 * What making a kit can fail with.
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

const chatTemplate = Effect.fnUntraced(function*(directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const read = (name: string) => Effect.option(fs.readFileString(path.join(directory, name)))
  return Option.getOrElse(yield* read("chat_template.jinja"), () => "") +
    Option.getOrElse(yield* read("tokenizer_config.json"), () => "")
})

const card = (options: {
  readonly name: string
  readonly base: string
  readonly adapter: Adapter.Adapter
  readonly command: string
  readonly provenance: Readonly<Record<string, string>>
  readonly content: string
}): string => {
  const { adapter, base, command, content, name, provenance } = options
  const rows = {
    "Base model": base,
    "LoRA rank": String(adapter.rank),
    "LoRA alpha": String(adapter.alpha),
    ...provenance
  }
  return [
    "---",
    `base_model: ${JSON.stringify(base)}`,
    "tags: [lora, tinker]",
    "---",
    "",
    `# ${name}`,
    "",
    content,
    "",
    "| | |",
    "| --- | --- |",
    ...Object.entries(rows).map(([key, value]) => `| ${key} | ${value.replaceAll("|", "\\|").replaceAll("\n", " ")} |`),
    "",
    "```sh",
    command,
    "```",
    ""
  ].join("\n")
}

/** A word for a shell. */
const word = (text: string): string => /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

const make = Effect.fnUntraced(function*(options: Options, emit: (event: Event) => Effect.Effect<void>) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const output = path.resolve(options.output)
  if (yield* fs.exists(output)) return yield* new OutputExists({ path: output })
  const adapter = yield* Adapter.open(options.adapter)
  const name = options.name ?? path.basename(output)
  const base = options.baseModelName ?? options.base
  const inputs = { base: options.base, adapter: options.adapter }
  const staging = `${output}.kit`
  const { target } = options
  const asAdapter = (target === "vllm" || target === "sglang") && options.merged !== true
  const progress = <E extends { readonly _tag: string }, F, R>(self: Stream.Stream<E | Event, F, R>) =>
    Stream.runForEach(self, (event) => event._tag === "Progress" && "written" in event ? emit(event) : Effect.void)

  let warnings: ReadonlyArray<string> = []
  if (asAdapter) {
    yield* fs.remove(staging, { recursive: true, force: true })
    const summary = yield* Peft.convert({ ...inputs, output: staging, baseModelName: base })
    warnings = summary.warnings
  } else if (target === "llama.cpp" || target === "ollama") {
    yield* fs.makeDirectory(staging, { recursive: true })
    yield* fs.remove(path.join(staging, "model.gguf"), { force: true })
    yield* progress(
      Gguf.streamModel({ ...inputs, output: path.join(staging, "model.gguf"), format: options.format, name })
    )
    if (target === "ollama") {
      yield* fs.writeFileString(path.join(staging, "Modelfile"), modelfile(yield* chatTemplate(options.base)))
    }
  } else if (!(yield* fs.exists(staging))) {
    // The merge keeps its own unfinished work, and goes on with it after an interruption.
    yield* progress(Merge.stream({ ...inputs, output: staging }))
  }
  const at = word(options.output)
  const command = {
    vllm: asAdapter
      ? `vllm serve ${word(base)} --enable-lora --max-lora-rank ${Math.max(8, adapter.rank)} --lora-modules ${
        word(name)
      }=${at}`
      : `vllm serve ${at} --served-model-name ${word(name)}`,
    sglang: asAdapter
      ? `python -m sglang.launch_server --model-path ${word(base)} --lora-paths ${word(name)}=${at}`
      : `python -m sglang.launch_server --model-path ${at} --served-model-name ${word(name)}`,
    "llama.cpp": `llama-server -m ${word(path.join(options.output, "model.gguf"))} --alias ${word(name)} --jinja`,
    ollama: `ollama create ${word(name)} -f ${word(path.join(options.output, "Modelfile"))} && ollama run ${
      word(name)
    }`,
    transformers: `transformers chat ${at}`
  }[target]
  yield* fs.writeFileString(
    path.join(staging, "README.md"),
    card({
      name,
      base,
      adapter,
      command,
      provenance: options.provenance ?? {},
      content: asAdapter
        ? "A LoRA adapter in PEFT's format, to be loaded beside its base model."
        : "A fine-tuned model: the adapter is merged into the weights."
    })
  )
  yield* fs.rename(staging, output)
  yield* emit({ _tag: "Completed", directory: output, command, warnings })
}, Effect.scoped)

/**
 * Makes a kit, and reports how far it is. Nothing stands under the output's name until everything is there.
 *
 * @since 0.1.0
 * @category constructors
 */
export const stream = (options: Options): Stream.Stream<Event, Failure, Services> =>
  files.events<Event, Failure, Services>((emit) => make(options, emit))
