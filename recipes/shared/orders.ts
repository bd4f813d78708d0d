/**
 * A support desk with an old and a new system. An order is in one of them, by the first letter of its number. The tools look
 * alike, and the agent's instructions do not say which of them is for what.
 */
import { Array } from "effect"

/** A customer's question, and what a right answer says. */
export interface Ticket {
  readonly question: string
  readonly status: string
}

const statuses = ["shipped", "delivered", "delayed", "packed", "lost", "returned"]

const record = (n: number) => {
  const system = n % 2 === 0 ? "new" : "old"
  const id = `${system === "new" ? "K" : "B"}${100 + 37 * n % 900}`
  return { id, system, question: `Where is my order ${id}?`, status: statuses[Math.floor(n / 2) % 6] ?? "" } as const
}

/** Tickets to learn from, and others to be measured by. */
const known = Array.range(1, 48).map(record)
const others = Array.range(101, 160).map(record)
export const tickets: ReadonlyArray<Ticket> = known
export const heldOut: ReadonlyArray<Ticket> = others

const systems = new Map([...known, ...others].map((row) => [row.id, row]))

/** What a system knows of an id. */
export const lookUp = (system: "new" | "old", id: string): string => {
  const found = systems.get(id)
  return found?.system === system ? found.status : "unknown"
}

/** Whether an answer tells the customer. */
export const isAnswered = ({ status }: Ticket, answer: string): boolean => answer.includes(status)
