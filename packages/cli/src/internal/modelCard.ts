/**
 * How an adapter presents itself on the Hugging Face Hub.
 *
 * @since 0.1.0
 */
import type { ParsedPath } from "effect-tinker/Checkpoint"
import type { WeightsInfoResponse } from "effect-tinker/Weights"
import * as Option from "effect/Option"

const safe = (value: string): string =>
  value.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/-{2,}/g, "-").replace(/^[-_.]+|[-_.]+$/g, "")

/** @internal */
export const repositoryName = (path: ParsedPath, info: Option.Option<WeightsInfoResponse>): string => {
  const base = Option.match(info, {
    onNone: () => "adapter",
    onSome: ({ baseModel }) => baseModel.split("/").at(-1) ?? "adapter"
  })
  // The hub's limit for names is 96 characters.
  return safe(`tinker-${base}-${path.trainingRunId}`).slice(0, 96)
}

/** @internal */
export const branchName = (path: ParsedPath): string => safe(path.checkpointId.replaceAll("/", "-"))

/**
 * The checkpoint a model card says it comes from.
 *
 * @internal
 */
export const source = (card: string): Option.Option<string> =>
  Option.fromNullable(/tinker:\/\/[^\s`"')]+/.exec(card)?.[0])

/** Quoted, because a name is data: it must not become structure of the YAML header. */
const yaml = (value: string): string => JSON.stringify(value)

/** @internal */
export const render = (options: {
  readonly tinkerPath: string
  readonly repo: string
  readonly info: Option.Option<WeightsInfoResponse>
}): string => {
  const base = Option.getOrUndefined(Option.map(options.info, ({ baseModel }) => baseModel))
  const info = Option.getOrUndefined(options.info)
  const trained = [
    ...(info?.trainAttn === false ? [] : ["attention"]),
    ...(info?.trainMlp === false ? [] : ["MLP"]),
    ...(info?.trainUnembed === false ? [] : ["unembedding"])
  ]
  return [
    "---",
    ...(base === undefined ? [] : [`base_model: ${yaml(base)}`]),
    "library_name: peft",
    "tags:",
    "- tinker",
    "- peft",
    "- lora",
    ...(base === undefined ? [] : [`- ${yaml(`base_model:adapter:${base}`)}`]),
    `tinker_path: ${yaml(options.tinkerPath)}`,
    "---",
    "",
    "# LoRA adapter trained with Tinker",
    "",
    "| | |",
    "| --- | --- |",
    `| checkpoint | \`${options.tinkerPath}\` |`,
    ...(base === undefined ? [] : [`| base model | \`${base}\` |`]),
    ...(info?.loraRank === undefined ? [] : [`| rank | ${info.loraRank} |`]),
    ...(info === undefined ? [] : [`| trained layers | ${trained.join(", ")} |`]),
    "",
    "```python",
    "from transformers import AutoModelForCausalLM",
    "",
    `model = AutoModelForCausalLM.from_pretrained(${JSON.stringify(options.repo)}, device_map="auto")`,
    "```",
    ""
  ].join("\n")
}
