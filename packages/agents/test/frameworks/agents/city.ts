/** What the agents are asked, and the two tools they have. */
export const questions = [
  "How is the weather in Oslo, and how many people live there?",
  "And the weather in Bergen?",
  "Thank you!"
]

export const instructions = "You answer questions about cities. Be brief."

export const descriptions = {
  weather: "Get the weather in a city.",
  population: "Get the number of people in a city."
}

export const weather = (city: string) => ({ city, degrees: city.length })

export const population = (city: string) => ({ city, people: 1000 * city.length })

/** Where an agent finds its model, and whether it streams. */
export interface Settings {
  /** For clients of OpenAI's API, and for the AI SDK's of any. */
  readonly baseURL: string
  /** For clients that add `/v1` themselves. */
  readonly anthropicBaseURL: string
  readonly apiKey: string
  readonly stream: boolean
}

/** An agent: it talks to the user, and yields what it answered to each question. */
export type Converse = (settings: Settings) => Promise<ReadonlyArray<string>>
