/**
 * A search over a local index as a tool: the model learns to look things up, and to say what it found.
 */
import { Dataset, Environment, Evaluator, Loss, Reinforce, Tool } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Array, Effect, Schema } from "effect"
import { define, measured } from "../shared/recipe.js"

const towns = ["Oslo", "Rome", "Paris", "Lima", "Cairo", "Bern"]
const names = ["Ada", "Ben", "Cara", "Dan", "Eva", "Finn", "Gina", "Hugo", "Ida", "Jan", "Kim", "Lea"]
const people = names.map((name, n) => ({ name, town: towns[(5 * n + 2) % 6] ?? "" }))

/** The index: words, and the documents that have them. */
const documents = people.map(({ name, town }) => `${name} lives in ${town}`)
const wordsOf = (text: string) => text.toLowerCase().match(/[a-z]+/g) ?? []
const index = new Map<string, Set<string>>()
for (const text of documents) {
  for (const word of wordsOf(text)) index.set(word, (index.get(word) ?? new Set()).add(text))
}

const search = Tool.make("search_pages", {
  description: "Search for pages.",
  input: Schema.Struct({ query: Schema.String }),
  run: ({ query }) => {
    // a word that few documents have says most
    const worth = (text: string) =>
      wordsOf(query).reduce((sum, word) => index.get(word)?.has(text) ? sum + 1 / (index.get(word)?.size ?? 1) : sum, 0)
    const best = documents.map((text) => ({ text, worth: worth(text) })).sort((a, b) => b.worth - a.worth)[0]
    return Effect.succeed(
      best !== undefined && best.worth >= 1 ? JSON.stringify({ result: best.text }) : "Nothing found."
    )
  }
})

const tasks = (of: typeof people) =>
  Dataset.map(
    Dataset.fromIterable(of),
    ({ name, town }) =>
      Environment.group((settings) =>
        Effect.succeed(Environment.messages({
          start: [Message.user(`Search for the home of ${name}.`)],
          tools: [search],
          onMessage: (message) => Effect.succeed(Environment.done(Message.text(message).includes(town) ? 1 : 0))
        }, settings)), { samePrompt: true })
  )

const settings = { maxToolCalls: 2, overflowReward: 0, parseErrors: { maxConsecutive: 0, reward: 0 } }

export default define({
  measure: "right answers about people it was not trained on",
  model: "local/chat",
  learningRate: 5e-4,
  passes: ({ after, before }) => after >= 0.8 && after >= before + 0.1,
  run: ({ learningRate, model, renderer, seed }) =>
    Reinforce.train({
      model: { baseModel: model, rank: 16, seed },
      problems: tasks(Array.take(people, 8)),
      renderer,
      learningRate: { peak: learningRate, decay: "linear" },
      adam: { clip: 1 },
      maxTokens: 40,
      groupSize: 16,
      groupsPerBatch: 8,
      epochs: 6,
      seed,
      loss: Loss.ppo(),
      limits: { maxTurns: 3 },
      settings,
      evaluate: [
        Evaluator.rollouts(tasks(Array.drop(people, 8)), {
          settings: { renderer, ...settings },
          maxTokens: 40,
          groupSize: 8,
          limits: { maxTurns: 3 },
          seed
        })
      ],
      evaluateEvery: 1000
    }).pipe(measured("rollouts", "env/all/reward"))
})
