/** The module of `tinker train rl` in the README of the command. */
import { Environment } from "@effect-tinker/cookbook"

export default Environment.problems([{ a: 128, b: 347 }, { a: 405, b: 598 }], {
  question: ({ a, b }) => `What is ${a} + ${b}?`,
  reward: ({ a, b }, answer) => answer.trim() === String(a + b)
})
