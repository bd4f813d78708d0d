import { readFileSync } from "node:fs"
import { expect, it } from "vitest"

const rows = (path: string) => readFileSync(path, "utf8").trim().split("\n")

it("no held-out conversation is trained on", () => {
  const training = rows("data/chats.jsonl")
  const heldOut = rows("data/held-out.jsonl")
  expect(training.length).toBeGreaterThan(0)
  expect(heldOut.filter((row) => training.includes(row))).toEqual([])
})
