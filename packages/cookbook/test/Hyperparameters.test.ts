import { Hyperparameters } from "@effect-tinker/cookbook"
import { assert, describe, it } from "@effect/vitest"
import { Option } from "effect"

describe("Hyperparameters", () => {
  it("advises as the official cookbook does, and says nothing of models nobody measured", () => {
    // computed with the formula and the hidden sizes of tinker-cookbook 0.5.8
    assert.closeTo(
      Option.getOrThrow(Hyperparameters.learningRate("meta-llama/Llama-3.1-8B")),
      0.0002856415043086949,
      1e-12
    )
    assert.closeTo(
      Option.getOrThrow(Hyperparameters.learningRate("Qwen/Qwen3-8B:peft:32768")),
      0.00047297908091376354,
      1e-12
    )
    for (const model of ["openai/gpt-oss-20b", "local/tiny", "my/qwen-of-mine", "toString"]) {
      assert.deepStrictEqual(Hyperparameters.learningRate(model), Option.none(), model)
    }
  })

  it("sizes of adapters", () => {
    const model = "Qwen/Qwen3-8B"
    assert.deepStrictEqual(
      Hyperparameters.loraParameters(model, { rank: 1 }),
      Option.some(1_769_472 + 958_464 + 156_032)
    )
    assert.deepStrictEqual(
      Hyperparameters.loraParameters(model, { rank: 16, trainMlp: false, trainUnembed: false }),
      Option.some(16 * 958_464)
    )
    assert.deepStrictEqual(Hyperparameters.loraParameters("local/tiny"), Option.none())
  })

  it("every model that is known has a size in each of its parts, none of them most of another's", () => {
    const of = (model: string, part: "trainMlp" | "trainAttn" | "trainUnembed") =>
      Option.getOrThrow(Hyperparameters.loraParameters(model, {
        rank: 1,
        trainMlp: false,
        trainAttn: false,
        trainUnembed: false,
        [part]: true
      }))
    for (
      const model of [
        "deepseek-ai/DeepSeek-V4.1-Flash",
        "meta-llama/Llama-3.2-1B",
        "moonshotai/Kimi-K2.6",
        "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16",
        "openai/gpt-oss-120b",
        "thinkingmachines/Inkling",
        "zai-org/GLM-5.3"
      ]
    ) {
      const [mlp, attn, head] = (["trainMlp", "trainAttn", "trainUnembed"] as const).map((part) => of(model, part))
      // An unembedding has one matrix of the width and one of the vocabulary: more than a hundred thousand rows.
      assert.isAbove(head ?? NaN, 100_000, model)
      assert.isAbove(attn ?? NaN, head ?? NaN, model)
      assert.isAbove(mlp ?? NaN, attn ?? NaN, model)
      assert.deepStrictEqual(
        Hyperparameters.loraParameters(model),
        Option.some(32 * ((mlp ?? 0) + (attn ?? 0) + (head ?? 0))),
        model
      )
    }
  })
})
