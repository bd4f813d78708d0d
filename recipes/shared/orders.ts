/**
 * A support desk's orders, kept in two systems: those of Europe in one, those of the USA in the other. Nobody tells the agent
 * that the first letter of an order says which.
 */
import { Array } from "effect"

/** A customer's question, and what a right answer says. */
export interface Ticket {
  readonly question: string
  readonly status: string
}

const statuses = ["shipped", "delivered", "delayed", "packed", "lost", "returned"]

const statusOf = (order: string): string => statuses[7 * Number(order.slice(1)) % statuses.length] ?? "unknown"

/** The system that knows the orders of a region. */
export const lookUp = (region: "E" | "U", order: string): string =>
  order.startsWith(region) ? statusOf(order) : "unknown"

const questions = [
  (order: string) => `Where is my order ${order}?`,
  (order: string) => `What is the status of order ${order}?`,
  (order: string) => `Track order ${order}.`
]

const ticket = (n: number): Ticket => {
  const order = `${n % 2 === 0 ? "E" : "U"}${100 + 37 * n % 900}`
  return { question: questions[n % questions.length]?.(order) ?? order, status: statusOf(order) }
}

/** Tickets to learn from, and others to be measured by. */
export const tickets: ReadonlyArray<Ticket> = Array.range(1, 24).map(ticket)
export const heldOut: ReadonlyArray<Ticket> = Array.range(101, 124).map(ticket)

/** Whether an answer tells the customer. */
export const isAnswered = ({ status }: Ticket, answer: string): boolean => answer.includes(status)
