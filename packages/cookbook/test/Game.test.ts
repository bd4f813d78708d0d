import { Game, Policy, Rollout, Trajectory } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { chatRenderer } from "./utils/local.js"

/** Who reaches ten loses; a move adds 1, 2 or 3. */
const ten = (remember?: boolean) =>
  Game.group({
    seats: 2,
    start: 0,
    remember,
    view: (sum) => `The sum is ${sum}.`,
    move: (sum, seat, message) => {
      const added = Number(Message.text(message))
      return sum + added >= 10
        ? Game.over(seat === 0 ? [-1, 1] : [1, -1], { sum: sum + added })
        : Game.next(sum + added, 1 - seat)
    }
  })

/** One game with what each seat says, in turns. */
const game = (says: readonly [string, ...Array<string>], remember?: boolean) =>
  Effect.gen(function*() {
    const renderer = yield* chatRenderer
    const environment = yield* ten(remember).make({ renderer })
    const [first, ...rest] = says.map((text) => renderer.tokenizer.encode(text))
    const trajectories = yield* Rollout.play(Policy.fromScript([first ?? [], ...rest]), environment)
    return { renderer, trajectories, rewards: trajectories.map(Trajectory.rewardOf) }
  }).pipe(Effect.scoped)

describe("Game", () => {
  it.effect("every seat has its own turns, conversation and reward", () =>
    Effect.gen(function*() {
      const { renderer, rewards, trajectories } = yield* game(["3<|im_end|>"])
      // 3, 6, 9, 12: the second seat loses
      assert.deepStrictEqual(rewards, [1, -1])
      assert.deepStrictEqual(trajectories.map(({ turns }) => turns.length), [2, 2])
      // a conversation goes on in the tokens that were sampled: one row for each seat
      for (const trajectory of trajectories) assert.strictEqual(Trajectory.toRows(trajectory, 1).length, 1)
      const prompt = renderer.tokenizer.decode(trajectories[1]?.turns[1]?.prompt ?? [])
      assert.include(prompt, "The sum is 3.")
      assert.include(prompt, "The sum is 9.")
      assert.notInclude(prompt, "The sum is 6.")
      const forgetful = yield* game(["3<|im_end|>"], false)
      assert.deepStrictEqual(forgetful.trajectories.map((one) => Trajectory.toRows(one, 1).length), [2, 2])
    }))

  it.effect("a message that cannot be read is a foul of the one who wrote it", () =>
    Effect.gen(function*() {
      const { rewards, trajectories } = yield* game(["1<|im_end|>", "no end"])
      assert.deepStrictEqual(rewards, [0, -1])
      assert.deepStrictEqual(trajectories.map(({ stop }) => stop), ["parse_error", "parse_error"])
    }))

  it.effect("a policy for each seat; groups hold the trajectories of all of them", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const says = (text: string) => Policy.fromScript([renderer.tokenizer.encode(`${text}<|im_end|>`)])
      const group = yield* Rollout.group(Policy.perSeat([says("1"), says("3")]), ten(), {
        size: 3,
        settings: { renderer }
      })
      // 1, 4, 5, 8, 9, 12
      assert.deepStrictEqual(Trajectory.rewardsOf(group), [1, -1, 1, -1, 1, -1])
      assert.strictEqual(Trajectory.metricsOf([group])["env/all/sum"], 12)
    }))
})
