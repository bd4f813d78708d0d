/**
 * Learning from a teacher.
 *
 * @since 0.1.0
 */
import type * as Message from "@effect-tinker/tokenizer/Message"
import type { ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import type * as Stream from "effect/Stream"
import type * as Dataset from "./Dataset.js"
import * as Environment from "./Environment.js"
import * as Reinforce from "./Reinforce.js"
import type * as Rollout from "./Rollout.js"
import type * as Trainer from "./Trainer.js"

type Problem = Environment.Group<RenderFailed | ChatTemplateFailed>

/**
 * Prompts, and a teacher to answer them like.
 *
 * @since 0.1.0
 * @category models
 */
export type OnPolicyOptions<ED, RD, EV, RV, ER, RR, RS, RL> =
  & Omit<
    Reinforce.Options<RenderFailed | ChatTemplateFailed, never, ED, RD, EV, RV, ER, RR, RS, RL>,
    "problems" | "kl" | "advantage" | "keepConstant"
  >
  & {
    readonly prompts: Dataset.Dataset<string | ReadonlyArray<Message.Message>, ED, RD>
    /** Sampler weights of the teacher, as a `tinker://` path. It must have the student's tokenizer. */
    readonly teacher: string
    /** What a nat of difference costs. Defaults to 1. */
    readonly coefficient?: number | undefined
    /** How much a token answers for those after it. Defaults to 0. */
    readonly discount?: number | undefined
  }

/**
 * On-policy distillation: the student answers, and every token is rewarded by how much likelier the teacher finds it than
 * the student did. `metrics.kl_reference` is how far they are apart.
 *
 * @since 0.1.0
 * @category constructors
 */
export const onPolicy = <ED, RD, EV = never, RV = never, ER = never, RR = never, RS = never, RL = never>(
  options: OnPolicyOptions<ED, RD, EV, RV, ER, RR, RS, RL>
): Stream.Stream<
  Trainer.StepReport<Reinforce.Detail>,
  | RenderFailed
  | ChatTemplateFailed
  | ED
  | EV
  | ER
  | Rollout.ActionTimedOut
  | Rollout.GroupFailed
  | Trainer.TrainError,
  RD | RV | RR | RS | RL | ServiceClient.ServiceClient
> => {
  const { coefficient, discount, prompts, teacher, ...rest } = options
  const problems: Dataset.Dataset<Problem, ED, RD> = Environment.problems(prompts, {
    question: (prompt) => prompt,
    reward: () => 0
  })
  return Reinforce.train({
    ...rest,
    // An answer that is cut off, or cannot be read, is as good to learn from as any.
    settings: { ...rest.settings, overflowReward: 0, parseErrors: { ...rest.settings?.parseErrors, reward: 0 } },
    problems,
    keepConstant: true,
    kl: { coefficient: coefficient ?? 1, discount, center: false, reference: teacher }
  })
}
