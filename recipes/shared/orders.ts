/**
 * A support desk whose orders were moved from an old system to a new one. The old one no longer knows them, its tool looks like
 * the other, and the agent's instructions do not say which of them to use.
 */
import { Array } from "effect"

/** A customer's question, and what a right answer says. */
export interface Ticket {
  readonly question: string
  readonly status: string
}

const statuses = ["shipped", "delivered", "delayed", "packed", "lost", "returned"]

const record = (n: number) => {
  const id = `${"KBDH"[n % 4] ?? ""}${100 + 37 * n % 900}`
  return { id, question: `Where is my order ${id}?`, status: statuses[n % 6] ?? "" }
}

/** Tickets to learn from, and others to be measured by. */
const known = Array.range(1, 48).map(record)
const others = Array.range(101, 160).map(record)
export const tickets: ReadonlyArray<Ticket> = known
export const heldOut: ReadonlyArray<Ticket> = others

const orders = new Map([...known, ...others].map((row) => [row.id, row]))

/** What a system knows of an id. */
export const lookUp = (system: "new" | "old", id: string): string =>
  system === "new" ? orders.get(id)?.status ?? "unknown" : "unknown"

/** Whether an answer tells the customer. */
export const isAnswered = ({ status }: Ticket, answer: string): boolean => answer.includes(status)
