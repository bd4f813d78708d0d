/**
 * One curve as inline SVG. Colours come from the page's style, so that they follow light and dark.
 *
 * @since 0.1.0
 */

/** @internal */
export interface Point {
  readonly x: number
  readonly y: number
}

const entities = new Map([["&", "&amp;"], ["<", "&lt;"], [">", "&gt;"], ["\"", "&quot;"], ["'", "&#39;"]])

/** @internal */
export const escape = (text: string): string =>
  // Control characters have no place in a page at all.
  text.replace(/[&<>"'\p{Cc}]/gu, (char) => entities.get(char) ?? "\ufffd")

/** @internal */
export const format = (n: number): string => {
  if (!Number.isFinite(n)) return String(n)
  const size = Math.abs(n)
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return n.toExponential(2).replace("e+", "e")
  return Number.isInteger(n) || size >= 1000 ? Math.round(n).toLocaleString("en-US") : String(Number(n.toPrecision(4)))
}

const width = 720
const height = 280
const margin = { top: 14, right: 18, bottom: 32, left: 66 }
const plot = { width: width - margin.left - margin.right, height: height - margin.top - margin.bottom }

/** Round numbers that cover the range: steps of 1, 2 or 5 times a power of ten. */
const ticks = (low: number, high: number, count: number): ReadonlyArray<number> => {
  const rough = (high - low) / count
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) ?? 10) * power
  const first = Math.ceil(low / step - 1e-9)
  const last = Math.floor(high / step + 1e-9)
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step)
}

/** Keeps the lowest and the highest of each column, so that a spike survives. */
const thin = (points: ReadonlyArray<Point>, columns: number): ReadonlyArray<Point> => {
  if (points.length <= columns * 2) return points
  const kept: Array<Point> = []
  for (let column = 0; column < columns; column++) {
    const from = Math.floor(column * points.length / columns)
    const to = Math.floor((column + 1) * points.length / columns)
    let low = points[from]
    let high = points[from]
    for (let i = from; i < to; i++) {
      const point = points[i]
      if (point === undefined || low === undefined || high === undefined) continue
      if (point.y < low.y) low = point
      if (point.y > high.y) high = point
    }
    if (low === undefined || high === undefined) continue
    kept.push(...(low === high ? [low] : low.x < high.x ? [low, high] : [high, low]))
  }
  return kept
}

/** A mean of neighbours that weighs the near ones more. */
const trail = (values: ReadonlyArray<number>, keep: number): ReadonlyArray<number> => {
  let mean = 0
  let weight = 0
  return values.map((y) => {
    mean = keep * mean + (1 - keep) * y
    weight = keep * weight + (1 - keep)
    return mean / weight
  })
}

/** What the eye follows when the curve is noisy: from both sides, so that it does not lag behind. */
const smooth = (points: ReadonlyArray<Point>): ReadonlyArray<Point> => {
  const keep = 1 - 1 / Math.max(2, points.length / 30)
  const values = points.map(({ y }) => y)
  const before = trail(values, keep)
  const after = trail(values.reverse(), keep)
  return points.map(({ x, y }, i) => ({ x, y: ((before[i] ?? y) + (after[points.length - 1 - i] ?? y)) / 2 }))
}

const widen = (low: number, high: number): readonly [number, number] => {
  if (high > low) return [low - (high - low) * 0.04, high + (high - low) * 0.04]
  const pad = Math.abs(low) * 0.1 || 1
  return [low - pad, high + pad]
}

/** @internal */
export const chart = (name: string, points: ReadonlyArray<Point>): string => {
  const shown = thin(points, 500)
  let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity]
  for (const { x, y } of points) {
    left = Math.min(left, x)
    right = Math.max(right, x)
    low = Math.min(low, y)
    high = Math.max(high, y)
  }
  const [bottom, top] = widen(low, high)
  if (right === left) [left, right] = [left - 1, right + 1]
  const px = (x: number) => Number((margin.left + (x - left) / (right - left) * plot.width).toFixed(2))
  const py = (y: number) => Number((margin.top + (top - y) / (top - bottom) * plot.height).toFixed(2))
  const line = (of: ReadonlyArray<Point>) => of.map(({ x, y }, i) => `${i === 0 ? "M" : "L"}${px(x)} ${py(y)}`).join("")
  const floor = height - margin.bottom
  const first = shown[0]
  const last = shown[shown.length - 1]
  const area = first === undefined || last === undefined
    ? ""
    : `${line(shown)}L${px(last.x)} ${floor}L${px(first.x)} ${floor}Z`
  const grid = ticks(bottom, top, 5).map((y) =>
    `<line class="grid" x1="${margin.left}" x2="${width - margin.right}" y1="${py(y)}" y2="${py(y)}"/>` +
    `<text class="tick" x="${margin.left - 9}" y="${py(y) + 4}" text-anchor="end">${format(y)}</text>`
  )
  const below = ticks(left, right, 7).filter(Number.isInteger).map((x) =>
    `<text class="tick" x="${px(x)}" y="${floor + 20}" text-anchor="middle">${format(x)}</text>`
  )
  const trend = points.length >= 40 ? smooth(points) : undefined
  const end = (trend ?? points)[points.length - 1]
  const dots = thin(points, 90).map((point) =>
    `<circle cx="${px(point.x)}" cy="${py(point.y)}" r="7">` +
    `<title>step ${format(point.x)}: ${format(point.y)}</title></circle>`
  )
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escape(name)} by step">` +
    `${grid.join("")}${below.join("")}` +
    `<text class="tick" x="${margin.left - 9}" y="${floor + 20}" text-anchor="end">step</text>` +
    `<line class="axis" x1="${margin.left}" x2="${width - margin.right}" y1="${floor}" y2="${floor}"/>` +
    `<path class="area" d="${area}"/>` +
    `<path class="curve${trend === undefined ? "" : " raw"}" d="${line(shown)}"/>` +
    (trend === undefined ? "" : `<path class="curve" d="${line(thin(trend, 250))}"/>`) +
    (end === undefined ? "" : `<circle class="end" cx="${px(end.x)}" cy="${py(end.y)}" r="4.5"/>`) +
    `<g class="hover">${dots.join("")}</g></svg>`
}
