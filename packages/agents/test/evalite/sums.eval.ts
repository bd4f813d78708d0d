import { evalite } from "evalite"
import OpenAI from "openai"

// Where the model is, its client reads from the environment.
const client = new OpenAI()

const sums = [[12, 7], [31, 4], [25, 25], [40, 41], [3, 8]] as const

evalite("sums", {
  data: sums.map(([a, b]) => ({ input: `What is ${a} + ${b}?`, expected: String(a + b) })),
  task: async (input) => {
    const { choices } = await client.chat.completions.create({
      model: "any",
      messages: [{ role: "user", content: input }]
    })
    return choices[0]?.message.content ?? ""
  },
  scorers: [
    { name: "right", scorer: ({ expected, output }) => output.trim() === expected ? 1 : 0 },
    { name: "brief", scorer: ({ output }) => output.length <= 4 ? 1 : 0 }
  ]
})
