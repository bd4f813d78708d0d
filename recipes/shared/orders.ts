/**
 * A support desk with two systems, one for orders and one for packages. Its tools look alike, and the agent's instructions
 * do not say which of them is for what.
 */
import { Array } from "effect"

/** A customer's question, and what a right answer says. */
export interface Ticket {
  readonly question: string
  readonly status: string
}

const statuses = ["shipped", "delivered", "delayed", "packed", "lost", "returned"]

const record = (n: number) => {
  const kind = n % 2 === 0 ? "order" : "package"
  const id = `${"KBDH"[n % 4] ?? ""}${100 + 37 * n % 900}`
  return { id, kind, question: `Where is my ${kind} ${id}?`, status: statuses[Math.floor(n / 2) % 6] ?? "" } as const
}

/** Tickets to learn from, and others to be measured by. */
const known = Array.range(1, 48).map(record)
const others = Array.range(101, 160).map(record)
export const tickets: ReadonlyArray<Ticket> = known
export const heldOut: ReadonlyArray<Ticket> = others

const systems = new Map([...known, ...others].map((row) => [row.id, row]))

/** What a system knows of an id. */
export const lookUp = (kind: "order" | "package", id: string): string => {
  const found = systems.get(id)
  return found?.kind === kind ? found.status : "unknown"
}

/** Whether an answer tells the customer. */
export const isAnswered = ({ status }: Ticket, answer: string): boolean => answer.includes(status)
