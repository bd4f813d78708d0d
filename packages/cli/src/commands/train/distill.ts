/**
 * `tinker train distill`: learning from a teacher.
 */
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Distill from "@effect-tinker/cookbook/Distill"
import * as Message from "@effect-tinker/tokenizer/Message"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { usage } from "../../internal/CliFailure.js"
import * as dataFile from "../../training/dataFile.js"
import * as modelSettings from "../../training/modelSettings.js"
import * as options from "../../training/options.js"
import { checkpoints, commonConfig, overridden, run } from "../../training/run.js"
import { reinforceConfig, type Sampled, sampled } from "./rl.js"

const modes = ["on-policy", "off-policy", "self"] as const

type Distilled = Sampled & {
  readonly file: string
  readonly mode: typeof modes[number]
  readonly teacher: Option.Option<string>
  readonly instruction: Option.Option<string>
  readonly topK: number
  readonly batchSize: Option.Option<number>
  readonly maxLength: Option.Option<number>
}

const isModel = (name: string) => name.startsWith("tinker://") || /^[^/\s]+\/\S+$/.test(name)

/** Flags that say nothing in a mode are refused, so that none is thought to have had an effect. */
const checkMode = Effect.fnUntraced(function*({ instruction, mode, teacher, ...flags }: Distilled) {
  const { batchSize, groupsPerBatch, maxLength, maxStepsOffPolicy } = flags
  const grouped = { "groups-per-batch": groupsPerBatch, "max-steps-off-policy": maxStepsOffPolicy }
  const unused: Readonly<Record<string, Option.Option<unknown>>> = {
    "on-policy": { instruction, "batch-size": batchSize, "max-length": maxLength },
    "off-policy": { instruction, ...grouped },
    self: { "max-length": maxLength, ...grouped }
  }[mode]
  const [name] = Object.keys(unused).filter((flag) => Option.isSome(unused[flag] ?? Option.none()))
  if (name !== undefined) {
    return yield* usage(`--${name} has no meaning with --mode ${mode}`, "See `tinker train distill --help`.")
  }
  if (mode === "self" && Option.isNone(instruction)) {
    return yield* usage(
      "--mode self needs --instruction",
      "Only the teacher sees the instruction; the student learns to answer without it."
    )
  }
  if (mode !== "self" && Option.isNone(teacher)) {
    return yield* usage(`--mode ${mode} needs --teacher`, "Give tinker://RUN/sampler_weights/NAME, or a base model.")
  }
  if (Option.isSome(teacher) && !isModel(teacher.value)) {
    return yield* usage(
      `--teacher must be a sampler checkpoint or a base model, not ${JSON.stringify(teacher.value)}`,
      "Give tinker://RUN/sampler_weights/NAME, or ORGANISATION/MODEL."
    )
  }
})

/** A prompt with an instruction in front, in its system message, or in a new one. */
const instructed = (
  instruction: string,
  messages: ReadonlyArray<Message.Message>
): ReadonlyArray<Message.Message> => {
  const [first, ...rest] = messages
  return first?.role === "system"
    ? [Message.system(`${instruction}\n\n${Message.text(first)}`), ...rest]
    : [Message.system(instruction), ...messages]
}

const promptsOf = (file: string) =>
  Effect.as(dataFile.requireFile(file), Dataset.map(dataFile.prompts(file), ({ messages }) => messages))

const onPolicy = (flags: Distilled, teacher: string) =>
  run({
    recipe: "distill",
    source: flags.file,
    flags,
    about: { teacher },
    make: Effect.fnUntraced(function*(log) {
      const prompts = yield* promptsOf(flags.file)
      const groups = yield* dataFile.sizeFor(prompts, flags.groupsPerBatch, 16)
      const { advantage: _, keepConstant: __, kl: ___, ...config } = yield* reinforceConfig(flags, groups, {})
      return Distill.onPolicy({
        ...config,
        prompts,
        teacher,
        renderer: yield* modelSettings.rendererFor(flags.model, flags),
        checkpoints: checkpoints(flags),
        cost: yield* modelSettings.costOf(flags),
        log
      })
    })
  })

const offPolicy = (flags: Distilled, teacher: string) =>
  run({
    recipe: "distill-off-policy",
    source: flags.file,
    flags,
    make: Effect.fnUntraced(function*(log) {
      const { kind } = yield* dataFile.recognize(flags.file)
      if (kind === "preferences") {
        return yield* usage(
          `${flags.file} has pairs of answers, not answers to learn from`,
          "Use --mode on-policy: only the prompts are read."
        )
      }
      const data = dataFile.examples(flags.file, kind)
      const shared = yield* commonConfig(flags, "linear")
      const batchSize = yield* dataFile.sizeFor(data, flags.batchSize, 32)
      const config = yield* overridden(
        Distill.OffPolicyConfig,
        () =>
          new Distill.OffPolicyConfig({
            ...shared,
            batchSize,
            partial: "keep",
            teacher,
            topK: flags.topK,
            ...(Option.isSome(flags.maxLength) ? { maxLength: flags.maxLength.value } : {})
          }),
        flags.overrides
      )
      return Distill.offPolicy({
        ...config,
        data,
        renderer: yield* modelSettings.rendererFor(flags.model, flags),
        checkpoints: checkpoints(flags),
        cost: yield* modelSettings.costOf(flags),
        log
      })
    })
  })

const self = (flags: Distilled, teacher: string, instruction: string) =>
  run({
    recipe: "distill-self",
    source: flags.file,
    flags,
    about: { instruction },
    make: Effect.fnUntraced(function*(log) {
      const data = yield* promptsOf(flags.file)
      const shared = yield* commonConfig(flags, "constant")
      const batchSize = yield* dataFile.sizeFor(data, flags.batchSize, 32)
      const config = yield* overridden(
        Distill.SelfConfig,
        () =>
          new Distill.SelfConfig({
            ...shared,
            batchSize,
            partial: "keep",
            teacher,
            topK: flags.topK,
            maxTokens: flags.maxTokens,
            groupSize: flags.groupSize,
            temperature: flags.temperature,
            seed: flags.seed
          }),
        flags.overrides
      )
      return Distill.self({
        ...config,
        data,
        prompt: (messages) => messages,
        teacherPrompt: (messages) => instructed(instruction, messages),
        renderer: yield* modelSettings.rendererFor(flags.model, flags),
        checkpoints: checkpoints(flags),
        cost: yield* modelSettings.costOf(flags),
        log
      })
    })
  })

const distillation = Effect.fnUntraced(function*(flags: Distilled) {
  yield* checkMode(flags)
  const teacher = Option.getOrElse(flags.teacher, () => flags.model)
  if (flags.mode === "self") return yield* self(flags, teacher, Option.getOrElse(flags.instruction, () => ""))
  return yield* flags.mode === "off-policy" ? offPolicy(flags, teacher) : onPolicy(flags, teacher)
})

/** @internal */
export const distill = Command.make("distill", {
  file: options.dataArgument(
    "Prompts or chats up to their last answer; with --mode off-policy, chats with their answers"
  ),
  ...options.common,
  ...sampled,
  mode: Options.choice("mode", modes).pipe(
    Options.withDefault("on-policy" as const),
    Options.withDescription(
      "on-policy: the model answers, and the teacher rewards every token. off-policy: it learns the teacher's likeliest " +
        "tokens in given answers. self: it answers, and learns what the teacher, who has an instruction, expects. " +
        "Default: on-policy."
    )
  ),
  teacher: options.optionalText(
    "teacher",
    "The model to learn from, with the same tokenizer: tinker://RUN/sampler_weights/NAME, or a base model. Default: with " +
      "--mode self, the base model."
  ),
  instruction: options.optionalText("instruction", "With --mode self: an instruction that only the teacher sees."),
  topK: Options.integer("top-k").pipe(
    Options.withDefault(20),
    Options.withDescription(
      "Off-policy and self: number of the teacher's most likely tokens to learn at each position. Default: 20."
    )
  ),
  batchSize: options.batchSize,
  maxLength: options.maxLength
}, distillation).pipe(
  Command.withDescription("Distill a teacher into the model, on the model's own answers or on given ones.")
)
