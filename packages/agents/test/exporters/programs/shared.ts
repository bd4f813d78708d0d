/** What every program logs: conversations of two calls of a model, with a call of a tool between them. */
export interface Conversation {
  readonly session: string
  readonly city: string
  readonly degrees: number
  /** What the user thinks of it. */
  readonly thumb: 0 | 1
}

/** Logs the conversations to a server. */
export type Log = (url: string, conversations: ReadonlyArray<Conversation>) => Promise<void>

export const system = "Be brief."
export const question = ({ city }: Conversation) => `What is the weather in ${city}?`
export const answer = ({ degrees }: Conversation) => `It has ${degrees} degrees.`
export const toolCall = ({ city }: Conversation) => ({
  id: `call-${city}`,
  type: "function" as const,
  function: { name: "weather", arguments: JSON.stringify({ city }) }
})

/** The messages of the second call, and of the first. */
export const history = (one: Conversation) => [
  { role: "system" as const, content: system },
  { role: "user" as const, content: question(one) },
  { role: "assistant" as const, content: null, tool_calls: [toolCall(one)] },
  { role: "tool" as const, tool_call_id: `call-${one.city}`, content: JSON.stringify({ degrees: one.degrees }) }
]
export const beginning = (one: Conversation) => history(one).slice(0, 2)

export const usage = { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 }
