/**
 * `tinker train judged`: reinforcement learning on prompts whose answers a model judges. Nothing is programmed.
 */
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Reinforce from "@effect-tinker/cookbook/Reinforce"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as dataFile from "../../training/dataFile.js"
import * as judging from "../../training/judging.js"
import * as modelSettings from "../../training/modelSettings.js"
import * as options from "../../training/options.js"
import { checkpoints, run } from "../../training/run.js"
import { reinforceConfig, type Sampled, sampled } from "./rl.js"

const train = Effect.fnUntraced(
  function*(
    flags: Sampled & judging.Flags & {
      readonly file: string
      readonly rubric: boolean
      readonly persona: Option.Option<string>
      readonly userTurns: number
    }
  ) {
    const model = yield* judging.judgeFor(flags)
    const judge = yield* judging.groupJudge(model, flags)
    const user = Option.getOrUndefined(
      Option.map(flags.persona, (persona) => ({ model, persona, maxTurns: flags.userTurns }))
    )
    yield* run({
      recipe: "judged",
      source: flags.file,
      flags,
      about: {
        criteria: Option.getOrNull(flags.criteria),
        rubric: flags.rubric,
        persona: Option.getOrNull(flags.persona),
        judge: Option.getOrNull(flags.judgeModel)
      },
      make: Effect.fnUntraced(function*(log) {
        yield* dataFile.requireFile(flags.file)
        const problems = Dataset.map(
          dataFile.prompts(flags.file),
          ({ messages }) => judging.problemOf(messages, judge, user)
        )
        const groups = yield* dataFile.sizeFor(problems, flags.groupsPerBatch, 16)
        const { advantage, ...config } = yield* reinforceConfig(flags, groups, {})
        return Reinforce.train({
          ...config,
          advantage: advantage === "custom" ? undefined : advantage,
          problems,
          renderer: yield* modelSettings.rendererFor(flags.model, flags),
          checkpoints: checkpoints(flags),
          cost: yield* modelSettings.costOf(flags),
          log
        })
      })
    })
  },
  Effect.scoped,
  Effect.provide(FetchHttpClient.layer)
)

/** @internal */
export const judged = Command.make("judged", {
  file: options.dataArgument("Prompts, or chats up to their last answer"),
  ...options.common,
  ...sampled,
  ...judging.flags,
  rubric: Options.boolean("rubric").pipe(
    Options.withDescription(
      "Make a rubric of --criteria once, and grade each answer by it. Default: relative to its group."
    )
  ),
  persona: options.optionalText("persona", "Who the user is: the judge plays them, and the conversation goes on."),
  userTurns: Options.integer("user-turns").pipe(
    Options.withDefault(4),
    Options.withDescription("With --persona: messages of the user, at most. Default: 4.")
  )
}, train).pipe(
  Command.withDescription("Reinforcement learning on prompts whose answers a model judges by your words.")
)
