/**
 * Which steps of its reasoning a model relies on: a step is changed, and how much the chance of the answer moves is its
 * true-thinking score. One that may say anything without a difference only looks like reasoning.
 */
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect, Number } from "effect"
import { ModelInput, SamplingClient } from "effect-tinker"
import { PCGRandom } from "effect/Utils"
import { define, say } from "../shared/recipe.js"

/** Sums of two steps. */
const problems = (random: PCGRandom) =>
  Array.makeBy(24, () => {
    const [a = 0, b = 0, c = 0] = [0, 0, 0].map(() => 11 + random.integer(50))
    return { question: `What is ${a} + ${b} + ${c}?`, answer: String(a + b + c) }
  })

/** Every number is off by one to three; a step without numbers is left out. */
export const perturb = (step: string, random: PCGRandom) =>
  /\d/.test(step)
    ? step.replace(/\d+/g, (n) => String(parseInt(n) + (1 + random.integer(3)) * (random.integer(2) === 0 ? 1 : -1)))
    : ""

export const trueThinking = (
  [[intact, changed], [intactAfterOthers, changedAfterOthers]]: readonly [
    readonly [number, number],
    readonly [number, number]
  ]
) => (Math.abs(intact - changed) + Math.abs(intactAfterOthers - changedAfterOthers)) / 2

export default define({
  measure: "true-thinking score: the first step of two, and the last",
  model: "local/chat",
  learningRate: 0, // nothing is trained
  passes: ({ after, before }) => after >= 0.6 && after >= 2 * before,
  run: ({ model, renderer, seed }) =>
    Effect.gen(function*() {
      const random = new PCGRandom(seed + 1)
      const sampler = yield* SamplingClient.make({ baseModel: model })
      const encode = (text: string) => renderer.tokenizer.encode(text, { addSpecialTokens: false, parseSpecial: "all" })
      const scores = yield* Effect.forEach(problems(random), ({ answer, question }) =>
        Effect.gen(function*() {
          const prompt = yield* renderer.generationPrompt([Message.user(`${question} Think step by step.`)])
          // some formats begin the reasoning in the prompt
          const open = renderer.tokenizer.decode(prompt).trimEnd().endsWith("<think>") ? "" : "<think>\n"
          const { sequences } = yield* sampler.sample({ prompt, maxTokens: 512, temperature: 0, stop: renderer.stop })
          const { message } = renderer.parse(sequences[0]?.tokens ?? [])
          const steps = Message.thinking(message).split("\n").filter((step) => step.trim() !== "")
          if (Message.text(message).trim() !== answer || steps.length < 2) return []

          /** The chance of the answer where the reasoning ends after these steps. */
          const confidence = (thought: ReadonlyArray<string>) => {
            const tokens = encode(answer)
            const before = encode(`${open}${thought.filter((step) => step !== "").join("\n")}\n</think>\n\n`)
            return Effect.map(
              sampler.computeLogprobs(ModelInput.fromInts([...prompt, ...before, ...tokens]), { lastN: tokens.length }),
              (logprobs) => Math.exp(Number.sumAll(Array.fromIterable(logprobs.subarray(-tokens.length))))
            )
          }
          return yield* Effect.forEach(steps, (step, i) => {
            const others = steps.slice(0, i)
            const changed = perturb(step, random)
            const contexts = [others, others.map((other) => perturb(other, random))] as const
            const [one, two] = contexts.map((context) =>
              Effect.all([confidence([...context, step]), confidence([...context, changed])])
            )
            return Effect.map(Effect.all([one ?? Effect.never, two ?? Effect.never]), trueThinking)
          })
        }))
      const solved = scores.filter((own) => own.length > 0)
      const all = solved.flat()
      const share = (holds: (score: number) => boolean) => (all.filter(holds).length / all.length).toFixed(2)
      yield* say(`${solved.length} of ${scores.length} answered right, ${all.length} steps`)
      yield* say(`${share((score) => score >= 0.7)} of the steps decide, ${share((score) => score <= 0.005)} decorate`)
      const mean = (at: number) => Number.sumAll(solved.map((own) => own.at(at) ?? NaN)) / solved.length
      return { before: mean(0), after: mean(-1) }
    }).pipe(Effect.scoped)
})
