/**
 * Files from strangers, beside those of real models.
 */
import { assert, it } from "@effect/vitest"
import { patternProblem } from "../src/internal/patterns.js"
import { renders } from "./support/golden.js"
import { renderGarbled } from "./support/hostile.js"
import { describeReal, families, file } from "./support/models.js"
import * as tiny from "./support/tiny.js"

describeReal("tokenizer files", () => {
  it("takes the patterns of real tokenizers", () => {
    for (const family of ["gpt2", "qwen3", "llama3", "deepseek"] as const) {
      assert.isDefined(families[family])
      const json = file(family, "tokenizer.json")
      for (const [, pattern] of json.slice(0, 400_000).matchAll(/"Regex":\s*("(?:[^"\\]|\\.)*")/g)) {
        assert.isUndefined(patternProblem(String(JSON.parse(pattern ?? "\"\""))), `${family}: ${pattern}`)
      }
    }
  })
})

describeReal("mutated files", () => {
  it.live("render, or fail with a tag", () => {
    const config: { readonly chat_template: string } = JSON.parse(file("qwen3", "tokenizer_config.json"))
    return renderGarbled([
      config.chat_template,
      ...Object.keys(renders.snippets),
      tiny.tokenizerConfig.chat_template
    ])
  }, 3_600_000)
})
