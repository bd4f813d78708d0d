/**
 * The gateway in a separate process, over a sampler that only waits: what is measured is the gateway, not the model.
 * `where` is answered with its address and key, any other line with figures; `release` forgets all rollouts before.
 */
import { AgentModel, Recorder, type Sampler } from "@effect-tinker/agents"
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import { Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { NodeFileSystem } from "@effect/platform-node"
import { Effect, Redacted } from "effect"
import { readFileSync } from "node:fs"
import { createInterface } from "node:readline"

const [models = "", directory = "", residentTokens = "", sampleTime = ""] = process.argv.slice(2)

const read = (name: string): unknown => JSON.parse(readFileSync(`${models}/${name}`, "utf8"))

const main = Effect.gen(function*() {
  const tokenizer = yield* Tokenizer.fromHuggingFace({
    tokenizerJson: read("tokenizer.json"),
    tokenizerConfig: read("tokenizer_config.json")
  })
  const renderer = yield* Renderers.localChat(tokenizer)
  const recorder = yield* Recorder.makeDirectory(directory, { maxTokens: Number(residentTokens) })
  const answer = tokenizer.encode("It is more than that.<|im_end|>", { addSpecialTokens: false })
  const logprobs = new Float32Array(answer.length).fill(-1)
  const sample = { tokens: answer, logprobs, stopReason: "stop" as const, policyVersion: 0 }
  const sampler: Sampler.Sampler = { sample: () => Effect.delay(Effect.succeed([sample]), Number(sampleTime)) }
  const model = yield* Effect.provideService(
    AgentModel.make({ renderer, sampler, contextWindow: 1024 }),
    Recorder.Recorder,
    recorder
  )
  const gateway = yield* NodeGateway.serve({ model: "local/chat", onRollout: () => Effect.void }).pipe(
    Effect.provideService(AgentModel.AgentModel, model),
    Effect.provideService(Recorder.Recorder, recorder)
  )
  let peak = process.memoryUsage.rss()
  let held = 0
  setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss())
    held = Math.max(held, Effect.runSync(recorder.size).tokens)
  }, 20).unref()
  const release = Effect.gen(function*() {
    let [calls, tokens] = [0, 0]
    for (const rollout of yield* recorder.rollouts) {
      for (const { turn } of (yield* recorder.release(rollout)).calls) {
        calls++
        tokens += turn.prompt.length + turn.completion.length
      }
    }
    return { calls, tokens }
  })
  createInterface(process.stdin).on("line", (line) => {
    if (line === "where") return process.stdout.write(`${gateway.url} ${Redacted.value(gateway.apiKey)}\n`)
    const released = line === "release" ? Effect.runPromise(release) : Promise.resolve({ calls: 0, tokens: 0 })
    return void released.then((counts) => {
      globalThis.gc?.()
      const { arrayBuffers, heapUsed } = process.memoryUsage()
      const { system, user } = process.cpuUsage()
      const figures = { ...counts, peak, held, used: heapUsed + arrayBuffers, cpu: (system + user) / 1e6 }
      process.stdout.write(`${JSON.stringify(figures)}\n`)
      peak = process.memoryUsage.rss()
      held = 0
    })
  }).on("close", () => process.exit(0))
  return yield* Effect.never
})

Effect.runFork(main.pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer)))
