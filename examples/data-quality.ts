/**
 * Two sources of training data: what hurts in them, and a mixture of both that goes on where it was left.
 */
import { DataQuality, Dataset } from "@effect-tinker/cookbook"
import { NodeRuntime } from "@effect/platform-node"
import { Chunk, Console, Effect, Stream } from "effect"

const chat = (question: string, answer: string) => ({
  messages: [{ role: "user", content: question }, { role: "assistant", content: answer }]
})

const support = Dataset.fromIterable([
  chat("How do I reset my password?", "Open Settings, then Security, and choose Reset password."),
  chat("How do I  reset my password?", "Open Settings, then Security, and choose Reset password."),
  chat("Whom do I ask about invoices?", "Write to billing@example.com."),
  chat("Where is my order?", "")
], { name: "support" })

const general = Dataset.fromIterable(
  Array.from({ length: 6 }, (_, n) => chat(`What comes after ${n}?`, `${n + 1}.`)),
  { name: "general" }
)

const heldOut = Dataset.fromIterable([chat("What comes after 4?", "5.")])

const program = Effect.gen(function*() {
  const both = Dataset.interleave([support, general], { weights: [1, 2], seed: 1, until: "all" })

  const { counts, findings } = yield* DataQuality.inspect(both, { heldOut })
  yield* Console.log(
    `${counts.exact} twice, ${counts.leaked} leaked, ${counts.empty} empty, ${counts.sensitive} with personal data`
  )
  yield* Console.log(`the leaked row: ${findings.find(({ kind }) => kind === "leaked")?.detail}`)

  // every row carries the position after it: a run that stops there goes on with the same rows
  const rows = yield* Stream.runCollect(Dataset.rows(both))
  const fourth = Chunk.toReadonlyArray(rows)[3]
  const rest = yield* Stream.runCollect(Dataset.rows(both, { from: fourth?.next }))
  yield* Console.log(`${Chunk.size(rows)} rows, ${Chunk.size(rest)} of them after the fourth`)
})

NodeRuntime.runMain(program)
