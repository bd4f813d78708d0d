/**
 * The agent's work, and the tasks it is trained on: a support desk whose orders were moved from an old system to a
 * new one. Its instructions do not say which tool is for which; the agent learns it from its rewards.
 */
export interface Ticket {
  readonly question: string
  readonly status: string
}

const statuses = ["shipped", "delivered", "delayed", "packed", "lost", "returned"]

const record = (n: number) => {
  const id = `${"KBDH"[n % 4] ?? ""}${100 + 37 * n % 900}`
  return { id, question: `Where is my order ${id}?`, status: statuses[n % 6] ?? "" }
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => record(from + i))

const known = range(1, 24)
const others = range(101, 124)
const orders = new Map([...known, ...others].map(({ id, status }) => [id, status]))

/** Tickets to learn from, and others to be measured by. */
export const tickets: ReadonlyArray<Ticket> = known
export const heldOut: ReadonlyArray<Ticket> = others

export const lookUp = (system: "new" | "old", id: string) => system === "new" ? orders.get(id) ?? "unknown" : "unknown"

/** The reward: whether the answer tells the customer. */
export const score = ({ status }: Ticket, answer: string) => answer.includes(status) ? 1 : 0
