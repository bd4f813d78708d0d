/** The module of `tinker train rl` in the README of the command. */
import { Environment } from "@effect-tinker/cookbook"

export default Environment.problems([{ a: 2, b: 3 }, { a: 4, b: 5 }], {
  question: ({ a, b }) => `What is ${a}+${b}?`,
  reward: ({ a, b }, answer) => answer.trim() === String(a + b)
})
