import { expect, it } from "vitest"
import { heldOut, question, reward, training } from "../src/task.js"

it("rewards the right answer only", () => {
  const sum = { a: 367, b: 456 }
  expect(question(sum)).toBe("What is 367 + 456?")
  expect(reward(sum, " 823\n")).toBe(1)
  expect(reward(sum, "813")).toBe(0)
  expect(reward(sum, "It is 823")).toBe(0)
})

it("holds problems out", () => {
  const questions = new Set(training.map(question))
  expect(heldOut.filter((sum) => questions.has(question(sum)))).toEqual([])
})
