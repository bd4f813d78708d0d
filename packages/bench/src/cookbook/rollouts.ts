/**
 * The work of all sides: the prompts of the official cookbook's RL loop, its group size and its length of answers, with
 * fewer problems a step, and made-up ones.
 */

/** Only a name: the engine of the server computes nothing. */
export const baseModel = "bench/nano"

export const rank = 32

/** So low that the model stays as it is: what is sampled in the last step is of the same kind as in the first. */
export const learningRate = 1e-9

/** Problems of a step. */
export const problems = 8

/** Rollouts of a problem. */
export const group = 16

/** Tokens of a rollout. */
export const maxTokens = 256

const suffix = " Provide a numerical answer without units, written inside \\boxed{}."

/** What stands before every question. */
export const shown = [
  { role: "user", content: `How many r's are in strawberry?${suffix}` },
  {
    role: "assistant",
    content:
      "Let's spell the word out and number all the letters: 1) s 2) t 3) r 4) a 5) w 6) b 7) e 8) r 9) r 10) y. We have r's at positions 3, 8, and 9. \\boxed{3}"
  }
] as const

export const question = (n: number) => `What is ${n} plus ${n + 1}?${suffix}`

/**
 * Nothing to learn: only that in every group some are better than others, so that all sides train on all they sample. (The
 * length of an answer does not do: it is often the same in a whole group, which is then left out.)
 */
export const reward = (answer: string): number => answer === "" ? 0 : answer.charCodeAt(answer.length - 1) % 2
