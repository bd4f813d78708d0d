import { expect, it } from "vitest"
import { heldOut, lookUp, score, tickets } from "../src/orders.js"

it("rewards an answer that tells the customer", () => {
  const ticket = { question: "Where is my order K1?", status: "packed" }
  expect(score(ticket, "Order K1 is packed.")).toBe(1)
  expect(score(ticket, "I do not know.")).toBe(0)
})

it("only the new system knows the orders", () => {
  const [id = ""] = /[A-Z]\d+/.exec(tickets[0]?.question ?? "") ?? []
  expect(lookUp("new", id)).toBe(tickets[0]?.status)
  expect(lookUp("old", id)).toBe("unknown")
})

it("holds tickets out", () => {
  const questions = new Set(tickets.map(({ question }) => question))
  expect(heldOut.filter(({ question }) => questions.has(question))).toEqual([])
})
