/** Run directories as trainers leave them, written through `RunLog` itself. */
import { RunLog } from "@effect-tinker/cookbook"
import { FileSystem } from "@effect/platform"
import { Effect } from "effect"

/** Noise that is the same every time. */
export const noise = (seed: number) => {
  let state = seed * 2654435761 >>> 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32 - 0.5
  }
}

/** A supervised run that went well. */
export const supervised = (
  directory: string,
  options: { readonly steps: number; readonly learningRate: number; readonly floor: number; readonly seed: number }
) =>
  Effect.scoped(Effect.gen(function*() {
    const { floor, learningRate, seed, steps } = options
    const draw = noise(seed)
    const config = {
      model: { baseModel: "Qwen/Qwen3-8B", rank: 32 },
      learningRate: { peak: learningRate, schedule: "cosine" },
      batchSize: 64,
      steps
    }
    const log = yield* RunLog.open(directory, { trainer: "supervised", config })
    for (let step = 1; step <= steps; step++) {
      const share = step / steps
      const loss = floor + 1.9 * Math.exp(-share * 7 * learningRate * 1e4) + draw() * 0.16
      yield* log.append({
        _tag: "Step",
        step,
        metrics: {
          loss,
          learning_rate: learningRate * 0.5 * (1 + Math.cos(Math.PI * share)),
          tokens: 21_000 + Math.round(draw() * 4_000),
          epoch: Math.floor(share * 2),
          grad_norm: 0.8 + Math.exp(-share * 9) + draw() * 0.2
        },
        timings: { step: 2_400 + draw() * 700, queue: Math.max(0, draw() * 300) }
      })
      if (step % 40 === 0) {
        yield* log.append({
          _tag: "Evaluation",
          step,
          name: "held-out",
          metrics: { nll: loss + 0.08 + 0.05 * draw(), accuracy: 0.9 - loss / 4 + draw() * 0.02 }
        })
      }
      if (step % 100 === 0) {
        yield* log.append({
          _tag: "Checkpoint",
          name: String(step).padStart(6, "0"),
          kind: "periodic",
          step,
          position: { epoch: 0, index: step * 64, offset: 0 },
          statePath: `tinker://0b6e/weights/${step}`,
          samplerPath: `tinker://0b6e/sampler_weights/${step}`,
          expiresAt: 4_102_444_800_000
        })
      }
    }
    yield* log.append({
      _tag: "Note",
      step: 120,
      level: "warning",
      message: "3 rows are longer than 8,192 tokens and were skipped"
    })
    yield* log.finish
  }))

/** A run with rewards that is still going on, and that the server has kept waiting. */
export const waiting = (directory: string) =>
  Effect.scoped(Effect.gen(function*() {
    const draw = noise(9)
    const config = { model: { baseModel: "Qwen/Qwen3-8B", rank: 32 }, groupSize: 8, steps: 200 }
    const log = yield* RunLog.open(directory, { trainer: "reinforce", config })
    for (let step = 1; step <= 120; step++) {
      const metrics = {
        "env/all/reward": 0.8 - 0.6 * Math.exp(-step / 40) + draw() * 0.1,
        "env/all/turns": 2,
        "env/all/tokens_per_turn": 90,
        "env/all/rollouts": 128,
        kl_sample_train_v1: Math.abs(draw()) * 0.003,
        entropy: 0.3 + 0.9 * Math.exp(-step / 60) + draw() * 0.05,
        loss: draw() * 0.02,
        tokens: 42_000
      }
      const timings = { step: 21_000 + draw() * 4_000, "wait/capacity": Math.max(0, draw() * 4_000) }
      yield* log.append({ _tag: "Step", step, metrics, timings })
    }
  }))

/** Text that would like to be more than text. */
export const hostile = [
  "<img src=x onerror=\"globalThis.pwned=1\">",
  "<script>globalThis.pwned=1</script>",
  "<svg onload=\"globalThis.pwned=1\"><a href=\"javascript:globalThis.pwned=1\">click</a></svg>",
  "<style>*{display:none}</style><base href=//evil.example><link rel=stylesheet href=//evil.example/x.css>",
  "]]><!--</textarea></title>{{7*7}}${7*7}"
].join("\n")

/** A run whose every word is markup, its name included. */
export const untrusted = (directory: string) =>
  Effect.scoped(Effect.gen(function*() {
    const config = { model: { baseModel: "<b>model</b>" }, note: hostile }
    const log = yield* RunLog.open(directory, { trainer: "<i>trainer</i>", config })
    yield* log.appendRollouts(
      1,
      [0, 1].map((member) => ({
        group: 0,
        member,
        tags: [hostile],
        reward: member,
        stop: "<u>stop</u>",
        turns: [{
          prompt: [1, 2, 3],
          tokens: [4, 5],
          logprobs: [-0.1, -2],
          policyVersion: 0,
          message: {
            role: "<h1>role</h1>",
            content: [{ type: "thinking", thinking: hostile }, { type: "text", text: hostile }],
            toolCalls: [{ name: "<img src=x>", arguments: hostile }]
          },
          reward: 0,
          masked: member === 1,
          metrics: { "<b>metric</b>": 1 }
        }]
      }))
    )
    yield* log.append({ _tag: "Step", step: 1, metrics: { "<img src=x onerror=globalThis.pwned=1>": 1 }, timings: {} })
    yield* log.append({ _tag: "Note", step: 1, level: "warning", message: hostile })
  }))

/** A log directory as the Python cookbook leaves it. */
export const python = (directory: string) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const draw = noise(5)
    yield* fs.makeDirectory(`${directory}/iteration_000010`, { recursive: true })
    yield* fs.writeFileString(
      `${directory}/config.json`,
      JSON.stringify({
        model_name: "meta-llama/Llama-3.1-8B",
        learning_rate: 4e-5,
        group_size: 4,
        recipe_name: "math_rl"
      })
    )
    const lines = Array.from({ length: 60 }, (_, step) =>
      JSON.stringify({
        step,
        "progress/batch": step,
        "progress/done_frac": (step + 1) / 60,
        "env/all/reward/total": 0.25 + 0.6 * (1 - Math.exp(-step / 18)) + draw() * 0.08,
        "optim/kl_sample_train_v1": Math.abs(draw()) * 0.002,
        "env/all/ac_tokens_per_turn": 180 + step + draw() * 20,
        "time/total": 31 + draw() * 4
      }))
    yield* fs.writeFileString(`${directory}/metrics.jsonl`, `${lines.join("\n")}\n`)
  })
