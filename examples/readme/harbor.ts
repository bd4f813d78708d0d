import * as Harbor from "@effect-tinker/agents/Harbor"
import { Dataset, Reinforce } from "@effect-tinker/cookbook"
import * as NodeSandbox from "@effect-tinker/cookbook/NodeSandbox"
import type { Renderer } from "@effect-tinker/tokenizer"
import { NodeContext } from "@effect/platform-node"
import { Effect, Stream } from "effect"

declare const renderer: Renderer.Renderer

const train = (tasks: ReadonlyArray<Harbor.Task>) =>
  Effect.gen(function*() {
    // a reference solution that fails says that the task does not run here
    const solvable = yield* Effect.filter(tasks, (task) => Effect.map(Harbor.solve(task), ({ reward }) => reward === 1))
    yield* Reinforce.train({
      problems: Dataset.from(solvable.map((task) => Harbor.group(task))),
      model: { baseModel: "Qwen/Qwen3-8B", rank: 32 },
      renderer,
      learningRate: 2e-5,
      maxTokens: 2048,
      groupSize: 8,
      groupsPerBatch: 4
    }).pipe(Stream.runDrain)
  }).pipe(Effect.provide(NodeSandbox.layerBubblewrap({ links: Harbor.links(tasks) })))

export const program = Effect.flatMap(Harbor.loadAll("tasks"), train).pipe(Effect.provide(NodeContext.layer))
