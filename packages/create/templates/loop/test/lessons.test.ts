import { expect, it } from "vitest"
import { lessons } from "../src/lessons.js"

it("teaches one answer to each question", () => {
  expect(lessons.every(({ assistant, user }) => assistant !== "" && user !== "")).toBe(true)
  expect(new Set(lessons.map(({ user }) => user)).size).toBe(lessons.length)
})
