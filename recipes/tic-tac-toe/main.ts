/**
 * Self-play: one model on both seats, each with its own rewards. It learns the rules by losing when it breaks them.
 */
import { Dataset, Evaluator, Game, Loss, Reinforce, Trajectory } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { define, measured } from "../shared/recipe.js"

const lines = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 4, 7], [2, 5, 8], [3, 6, 9], [1, 5, 9], [3, 5, 7]]
const cells = [1, 2, 3, 4, 5, 6, 7, 8, 9]

/** Who took which cell. */
type Board = Readonly<Record<number, number>>

const free = (board: Board) => cells.filter((cell) => board[cell] === undefined)

const ticTacToe = Game.group({
  seats: 2,
  start: {} as Board,
  remember: false,
  view: (board) => `Free: ${free(board).join(", ")}. Pick a number from 1 to 9.`,
  move: (board, seat, message) => {
    const cell = parseInt(Message.text(message))
    if (!free(board).includes(cell)) return Game.over(seat === 0 ? [-1, 0] : [0, -1], { legal: 0 })
    const moved = { ...board, [cell]: seat }
    const won = lines.some((line) => line.every((at) => moved[at] === seat))
    if (won) return Game.over(seat === 0 ? [1, -0.5] : [-0.5, 1], { legal: 1 })
    return free(moved).length === 0 ? Game.over([0.2, 0.2], { legal: 1 }) : Game.next(moved, 1 - seat, { legal: 1 })
  }
})

/** Compared with the same seat of other games: else the first to move is rewarded for where the other one stumbles. */
const bySeat: Trajectory.Advantage = (rewards) => {
  const seats = [0, 1].map((seat) => Trajectory.center(rewards.filter((_, i) => i % 2 === seat)))
  return rewards.map((_, i) => seats[i % 2]?.[i >> 1] ?? 0)
}

export default define({
  measure: "moves that are legal",
  model: "local/chat",
  learningRate: 2e-4,
  // few moves are illegal to begin with: at least half of those are gone
  passes: ({ after, before }) => after >= 0.8 && 1 - after <= (1 - before) / 2,
  run: ({ learningRate, model, renderer, seed }) =>
    Reinforce.train({
      model: { baseModel: model, rank: 16, seed },
      problems: Dataset.fromIterable([ticTacToe]),
      renderer,
      learningRate,
      advantage: bySeat,
      adam: { clip: 1 },
      maxTokens: 4,
      groupSize: 20,
      groupsPerBatch: 1,
      epochs: 24,
      seed,
      loss: Loss.ppo(),
      evaluate: [
        Evaluator.rollouts(Dataset.fromIterable([ticTacToe]), {
          settings: { renderer },
          maxTokens: 4,
          groupSize: 16,
          seed
        })
      ],
      evaluateEvery: 1000
    }).pipe(measured("rollouts", "env/all/legal"))
})
