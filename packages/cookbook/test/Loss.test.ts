import { Loss } from "@effect-tinker/cookbook"
import { assert, describe, it } from "@effect/vitest"

describe("Loss", () => {
  it("truncated importance sampling caps the weight of a token, and bounds it by nothing else", () => {
    assert.deepInclude(Loss.truncated(), {
      name: "cispo",
      config: { clip_low_threshold: 0, clip_high_threshold: 2 },
      normalize: "none"
    })
    assert.strictEqual(Loss.truncated({ cap: 1.5 }).config["clip_high_threshold"], 1.5)
  })

  it("lets tokens of older weights count less, whatever the loss", () => {
    assert.deepInclude(Loss.discountStale(Loss.ppo()), { name: "ppo", staleness: 0.8 })
    assert.strictEqual(Loss.discountStale(Loss.ppo(), { decay: 0.5 }).staleness, 0.5)
    assert.isUndefined(Loss.ppo().staleness)
    assert.throws(() => Loss.discountStale(Loss.ppo(), { decay: 1.5 }))
  })

  it("has the settings that the SDK names for each loss", () => {
    assert.deepInclude(Loss.make("dro", { beta: 0.1 }), { name: "dro", config: { beta: 0.1 } })
    assert.deepInclude(Loss.make("importance_sampling"), { name: "importance_sampling", config: {} })
    assert.deepInclude(Loss.other("dppo", { delta_low: 0.2 }), { name: "dppo", config: { delta_low: 0.2 } })
    // @ts-expect-error: "ppo" has no such setting
    Loss.make("ppo", { beta: 0.1 })
    // @ts-expect-error: no such loss
    Loss.make("popo")
  })

  it("counts every rollout the same, whatever the loss", () => {
    const loss = Loss.perRollout(Loss.truncated())
    assert.deepInclude(loss, { name: "cispo", normalize: "rollout" })
  })
})
