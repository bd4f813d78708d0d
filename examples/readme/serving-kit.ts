import { ServingKit } from "@effect-tinker/weights"
import { NodeContext } from "@effect/platform-node"
import { Console, Effect, Stream } from "effect"

const kit = ServingKit.stream({
  target: "ollama", // or "vllm", "sglang", "llama.cpp", "transformers"
  base: "./Qwen3-8B", // the base model's directory, or a GGUF file
  adapter: "./checkpoint", // what `CheckpointDownload` or `tinker checkpoint download` wrote
  output: "./support"
})

kit.pipe(
  Stream.runForEach((event) =>
    event._tag === "Completed"
      ? Console.log(event.command)
      : Console.log(`${event.written} of ${event.bytes} bytes`)
  ),
  Effect.provide(NodeContext.layer),
  Effect.runPromise
)
