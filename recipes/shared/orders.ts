/**
 * A support desk's orders: two systems to look them up in, of which only one is up to date. Nobody tells the agent which.
 */
import { Array } from "effect"

/** A customer's question, and what a right answer says. */
export interface Ticket {
  readonly order: string
  readonly question: string
  readonly status: string
}

const statuses = ["shipped", "delivered", "delayed", "packed", "lost", "returned"]

/** The system that is in use. */
export const track = (order: string): string => statuses[Number(order) * 7 % statuses.length] ?? "unknown"

/** The one that was left behind. */
export const findArchived = (_order: string): string => "unknown"

const questions = [
  (order: string) => `Where is my order ${order}?`,
  (order: string) => `What is the status of order ${order}?`,
  (order: string) => `Look up order ${order}.`
]

const ticket = (n: number): Ticket => {
  const order = String(100 + 37 * n % 900)
  return { order, question: questions[n % questions.length]?.(order) ?? order, status: track(order) }
}

/** Tickets to learn from, and others to be measured by. */
export const tickets: ReadonlyArray<Ticket> = Array.range(1, 24).map(ticket)
export const heldOut: ReadonlyArray<Ticket> = Array.range(101, 124).map(ticket)

/** Whether an answer tells the customer. */
export const isAnswered = ({ status }: Ticket, answer: string): boolean => answer.includes(status)
