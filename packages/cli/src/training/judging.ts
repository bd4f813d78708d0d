/**
 * Judges that a command line describes: which model, and what counts.
 */
import type * as Environment from "@effect-tinker/cookbook/Environment"
import * as ModelJudge from "@effect-tinker/cookbook/ModelJudge"
import * as Message from "@effect-tinker/tokenizer/Message"
import type * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { CliFailure, usage } from "../internal/CliFailure.js"
import { Output } from "../terminal/Output.js"
import * as text from "../terminal/text.js"
import * as modelSettings from "./modelSettings.js"
import * as options from "./options.js"
import { figure } from "./progress.js"

/** @internal */
export const flags = {
  criteria: options.optionalText("criteria", "What makes an answer good, in plain words: a model judges by it."),
  judgeUrl: options.optionalText(
    "judge-url",
    "Base URL of the judge's OpenAI-compatible API. Default: OPENAI_BASE_URL."
  ),
  judgeModel: options.optionalText(
    "judge-model",
    "The model that judges. Its key is in JUDGE_API_KEY or OPENAI_API_KEY."
  ),
  judgePrice: options.optionalText("judge-price", "The judge's prices of a million tokens: prefill=2.5,sample=10."),
  judgeCache: Options.text("judge-cache").pipe(
    Options.withDefault("runs/judge-cache.jsonl"),
    Options.withDescription("File of what the judge said, so that it is asked once. Default: runs/judge-cache.jsonl.")
  )
}

/** @internal */
export type Flags = Command.Command.ParseConfig<typeof flags>

const textOf = (name: string) =>
  Effect.map(Effect.option(Config.string(name)), Option.filter((value) => value.trim() !== ""))

/** The model that the flags name, and at the end what it has cost. @internal */
export const judgeFor = Effect.fnUntraced(function*(given: Flags) {
  const output = yield* Output
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const base = Option.isSome(given.judgeUrl) ? given.judgeUrl : yield* textOf("OPENAI_BASE_URL")
  if (Option.isNone(base)) {
    return yield* usage(
      "There is no judge to ask",
      "Give --judge-url, such as https://api.openai.com/v1, or OPENAI_BASE_URL."
    )
  }
  if (Option.isNone(given.judgeModel)) {
    return yield* usage("--judge-url needs --judge-model", "Name the model that judges.")
  }
  const key = yield* Effect.option(
    Config.redacted("JUDGE_API_KEY").pipe(Config.orElse(() => Config.redacted("OPENAI_API_KEY")))
  )
  const price = Option.isNone(given.judgePrice) ? undefined : yield* modelSettings.parsePrice(given.judgePrice.value)
  yield* fs.makeDirectory(path.dirname(given.judgeCache), { recursive: true })
  const judge = yield* ModelJudge.make({
    url: base.value,
    model: given.judgeModel.value,
    apiKey: Option.getOrUndefined(key),
    price: price === undefined ? undefined : { input: price.prefill ?? 0, output: price.sample ?? 0 },
    cache: yield* ModelJudge.fileCache(given.judgeCache)
  })
  yield* Effect.addFinalizer(() =>
    Effect.flatMap(judge.spent, ({ cached, calls, cost, inputTokens, outputTokens }) =>
      output.note(
        `the judge answered ${text.count(calls, "question")}, and ${cached} from the cache: ${
          text.count(inputTokens + outputTokens, "token")
        }${price === undefined ? "" : `, ${figure(cost)}`}`
      ))
  )
  return judge
})

/** Which judgement the flags ask for. @internal */
export const groupJudge = Effect.fnUntraced(function*(
  judge: ModelJudge.ModelJudge,
  given: Flags & { readonly rubric: boolean }
) {
  const output = yield* Output
  const criteria = Option.getOrUndefined(given.criteria)
  if (!given.rubric) return ModelJudge.relative(judge, { criteria })
  if (criteria === undefined) {
    return yield* usage("A rubric is made of --criteria", "Write what makes an answer good, in plain words.")
  }
  const rubric = yield* ModelJudge.rubricOf(judge, criteria).pipe(
    Effect.mapError((error) =>
      new CliFailure({ what: error.message, advice: "Look at the judge, and its key.", cause: error })
    )
  )
  for (const { name, question, weight } of rubric.criteria) {
    yield* output.note(`criterion ${name} (${weight}): ${question}`)
  }
  return ModelJudge.byRubric(judge, rubric)
})

/** A prompt as a problem: judged by itself, or after a conversation with a user whom the judge plays. @internal */
export const problemOf = (
  prompt: ReadonlyArray<Message.Message>,
  judge: ModelJudge.GroupJudge<ModelJudge.JudgeFailed>,
  user?: { readonly model: ModelJudge.ModelJudge; readonly persona: string; readonly maxTurns: number }
): Environment.Group<unknown> => {
  if (user === undefined) return ModelJudge.problem({ question: prompt, judge })
  const [first] = prompt
  const last = prompt.at(-1)
  return ModelJudge.conversation({
    persona: user.persona,
    user: user.model,
    judge,
    system: first?.role === "system" ? Message.text(first) : undefined,
    opening: last === undefined ? undefined : Message.text(last),
    maxUserTurns: user.maxTurns
  })
}
