/**
 * Numbers and times for people.
 */

export const number = (value: number | null | undefined): string => {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–"
  const size = Math.abs(value)
  // What is left of sums that should be nothing.
  if (size < 1e-14) return "0"
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2).replace("e+", "e")
  if (Number.isInteger(value)) return value.toLocaleString("en-US")
  return size >= 1000 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(4)))
}

export const count = (value: number): string =>
  value < 10_000
    ? value.toLocaleString("en-US")
    : value < 1e6
    ? `${(value / 1e3).toFixed(value < 1e5 ? 1 : 0)}k`
    : value < 1e9
    ? `${(value / 1e6).toFixed(1)}M`
    : `${(value / 1e9).toFixed(1)}B`

/** Without a currency, it is that of the prices. */
export const money = (value: number, currency: string | null = null): string => {
  const amount = value === 0 ? "0" : Math.abs(value) < 0.01 ? String(Number(value.toPrecision(2))) : value.toFixed(2)
  return currency === null ? amount : `${amount} ${currency}`
}

export const bytes = (value: number): string =>
  value < 1e3
    ? `${value} B`
    : value < 1e6
    ? `${(value / 1e3).toFixed(0)} kB`
    : value < 1e9
    ? `${(value / 1e6).toFixed(1)} MB`
    : `${(value / 1e9).toFixed(1)} GB`

export const seconds = (total: number): string => {
  if (total < 1) return `${Math.round(total * 1000)} ms`
  if (total < 10) return `${Number(total.toPrecision(2))} s`
  if (total < 90) return `${Math.round(total)} s`
  const minutes = Math.floor(total / 60)
  if (minutes < 90) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`
}

export const ago = (time: number | null): string => {
  if (time === null) return "–"
  const passed = (Date.now() - time) / 1000
  return passed < 10 ? "just now" : `${seconds(passed)} ago`
}

export const date = (time: number | null): string =>
  time === null ? "–" : new Date(time).toISOString().slice(0, 16).replace("T", " ")

export const axisNames = { step: "Step", tokens: "Tokens", time: "Time" } as const

export const onAxis = (axis: "step" | "tokens" | "time", value: number): string =>
  axis === "time" ? seconds(Math.max(0, value)) : axis === "tokens" ? count(value) : number(value)
