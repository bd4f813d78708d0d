import { Dataset, Example } from "@effect-tinker/cookbook"
import { NodeContext } from "@effect/platform-node"
import { Effect, Stream } from "effect"
import { expect, it } from "vitest"

it("no held-out conversation is trained on", () =>
  Effect.gen(function*() {
    const rows = (path: string) =>
      Stream.runCollect(Dataset.values(Example.chats(path))).pipe(
        Effect.map((chunk) => [...chunk].map((row) => JSON.stringify(row)))
      )
    const training = yield* rows("data/chats.jsonl")
    const heldOut = yield* rows("data/held-out.jsonl")
    expect(training.length).toBeGreaterThan(0)
    expect(heldOut.filter((row) => training.includes(row))).toEqual([])
  }).pipe(Effect.provide(NodeContext.layer), Effect.runPromise))
