/**
 * The trainers of the cookbook behind the interfaces of this package.
 */
import * as Example from "@effect-tinker/cookbook/Example"
import * as Loss from "@effect-tinker/cookbook/Loss"
import * as Cookbook from "@effect-tinker/cookbook/Promise"
import type * as Clients from "./Clients.js"
import { datumOf, filesOf } from "./internal/connection.js"
import { each, plain } from "./internal/plain.js"
import type * as Trainers from "./Trainers.js"

const losses: Readonly<Record<Trainers.ReinforceLoss, () => Loss.Loss>> = {
  importance_sampling: () => Loss.importanceSampling,
  ppo: () => Loss.ppo(),
  cispo: () => Loss.cispo(),
  dapo: () => Loss.dapo,
  gspo: () => Loss.gspo(),
  dro: () => Loss.dro()
}

const step = (
  { epoch, final, learningRate, loss, metrics, step, tokens, totalSteps }: Cookbook.Step
): Trainers.Step => ({
  step,
  totalSteps,
  epoch,
  loss,
  tokens,
  learningRate,
  metrics,
  final: final === undefined ? undefined : { checkpoint: plain(final.checkpoint) }
})

const rows = (data: Trainers.SupervisedOptions["data"]): string | Array<Cookbook.Conversation> =>
  typeof data === "string" ? data : Array.from(data, (row) => {
    if ("user" in row) return row
    if ("messages" in row) return Example.conversation(row.messages)
    return datumOf(row)
  })

const policy = ({ checkpoints }: Trainers.RunOptions) =>
  checkpoints && {
    ttl: checkpoints.ttl,
    ...checkpoints.periodic && {
      periodic: { steps: checkpoints.periodic.steps, time: checkpoints.periodic.interval }
    }
  }

/**
 * The trainers of a connection.
 *
 * @since 0.1.0
 * @category constructors
 */
export const trainers = (tinker: Clients.Tinker<"files" | "tokenizers">): Trainers.Trainers => {
  const inner = Cookbook.trainers(filesOf(tinker))
  return {
    supervised: (options) =>
      each(inner.supervised({ ...options, checkpoints: policy(options), data: rows(options.data) }), step),
    preference: (options) => each(inner.preference({ ...options, checkpoints: policy(options) }), step),
    reinforce: (options) =>
      each(
        inner.reinforce({
          ...options,
          checkpoints: policy(options),
          loss: options.loss === undefined ? undefined : losses[options.loss]()
        }),
        step
      ),
    distill: (options) => each(inner.distill({ ...options, checkpoints: policy(options) }), step)
  }
}
