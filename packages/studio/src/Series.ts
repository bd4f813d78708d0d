/**
 * Metrics by step, in columns of typed arrays: what a run's curves are drawn from.
 *
 * A step has one row, whatever the order in which its metrics arrive. A metric that is recorded a second time for a step
 * means that the run was resumed from an earlier checkpoint: the rows after that step are dropped, and the last value
 * counts. Reading a window of a column costs a binary search and one pass, and yields at most as many points as fit on
 * a screen: the lowest and the highest of each bucket, so that a spike is never lost.
 *
 * @since 0.1.0
 */

// =============================================================================
// models
// =============================================================================

/**
 * Horizontal axis of a curve: the step, the tokens trained on so far, or the seconds since the run started.
 *
 * @since 0.1.0
 * @category models
 */
export type Axis = "step" | "tokens" | "time"

/**
 * A column in numbers.
 *
 * @since 0.1.0
 * @category models
 */
export interface Summary {
  readonly name: string
  readonly count: number
  /** Values that are NaN or infinite. */
  readonly nonFinite: number
  /** The latest value; `null` where it is not finite. */
  readonly last: number | null
  readonly lastStep: number
  readonly min: number | null
  readonly max: number | null
}

/**
 * Points of a column, ready to draw.
 *
 * @since 0.1.0
 * @category models
 */
export interface Points {
  readonly steps: ReadonlyArray<number>
  readonly x: ReadonlyArray<number>
  /** `null` where the value is NaN or infinite. */
  readonly y: ReadonlyArray<number | null>
  /** The moving average at the same points, where one was asked for. */
  readonly smooth: ReadonlyArray<number | null> | undefined
  /** How many points the window has before decimation. */
  readonly total: number
}

/**
 * Which part of a column to read, and how finely.
 *
 * @since 0.1.0
 * @category models
 */
export interface Window {
  /** Defaults to `step`. */
  readonly axis?: Axis | undefined
  /** Lower end of the axis. Defaults to its beginning. */
  readonly from?: number | undefined
  /** Upper end of the axis. Defaults to its end. */
  readonly to?: number | undefined
  /** At most this many points. Defaults to 1,000. */
  readonly points?: number | undefined
  /** Weight of the past in an exponential moving average, 0 to 1. Defaults to 0: none. */
  readonly smoothing?: number | undefined
}

interface Column {
  rows: Int32Array
  values: Float64Array
  length: number
  nonFinite: number
}

/**
 * A table that grows by steps.
 *
 * @since 0.1.0
 * @category models
 */
export interface Table {
  /** Rows, which are steps. */
  readonly size: () => number
  readonly lastStep: () => number | undefined
  readonly names: () => ReadonlyArray<string>
  readonly summary: (name: string) => Summary | undefined
  readonly points: (name: string, window?: Window) => Points | undefined
  /** Calls back for every value of a column, in the order of its steps. */
  readonly each: (name: string, f: (step: number, value: number, time: number | undefined) => void) => void
  /** Records metrics of a step; `time` is in milliseconds since 1970. */
  readonly record: (step: number, time: number | undefined, metrics: Iterable<readonly [string, number]>) => void
  /** Drops the rows after a step. */
  readonly truncate: (step: number) => void
  readonly clear: () => void
  /** The first and the last time recorded. */
  readonly times: () => { readonly first: number; readonly last: number } | undefined
}

// =============================================================================
// table
// =============================================================================

const grow = <A extends Int32Array | Float64Array>(array: A, make: (length: number) => A, length: number): A => {
  if (length <= array.length) return array
  const larger = make(Math.max(16, array.length * 2, length))
  larger.set(array)
  return larger
}

const ints = (length: number) => new Int32Array(length)
const floats = (length: number) => new Float64Array(length)

/** The first index of sorted numbers whose value is `value` or more; with `above`, more than it. */
const search = (array: Int32Array | Float64Array, length: number, value: number, above: boolean): number => {
  let low = 0
  let high = length
  while (low < high) {
    const middle = (low + high) >>> 1
    const found = array[middle] ?? 0
    if (found < value || (above && found === value)) low = middle + 1
    else high = middle
  }
  return low
}

const lowerBound = (array: Int32Array | Float64Array, length: number, value: number) =>
  search(array, length, value, false)

const upperBound = (array: Int32Array | Float64Array, length: number, value: number) =>
  search(array, length, value, true)

/** Metrics that count the tokens of a step: ours, and those of the Python cookbook. */
const tokenColumns = ["tokens", "num_tokens", "num_loss_tokens"]

const finite = (value: number | undefined): number | null =>
  value === undefined || !Number.isFinite(value) ? null : value

/**
 * An empty table.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (): Table => {
  let steps = floats(16)
  let times = floats(16)
  let size = 0
  const columns = new Map<string, Column>()
  /** Cumulative axes, computed when asked for and dropped when the table changes. */
  let axes = new Map<Axis, Float64Array>()

  const truncate = (step: number) => {
    const kept = upperBound(steps, size, step)
    if (kept === size) return
    axes = new Map()
    size = kept
    for (const [name, column] of columns) {
      column.length = lowerBound(column.rows, column.length, kept)
      if (column.length === 0) columns.delete(name)
      else {column.nonFinite = column.values.subarray(0, column.length).reduce((n, v) =>
          Number.isFinite(v) ? n : n + 1, 0)}
    }
  }

  const insertRow = (row: number, step: number) => {
    steps = grow(steps, floats, size + 1)
    times = grow(times, floats, size + 1)
    if (row < size) {
      steps.copyWithin(row + 1, row, size)
      times.copyWithin(row + 1, row, size)
      for (const { length, rows } of columns.values()) {
        for (let i = lowerBound(rows, length, row); i < length; i++) rows[i] = (rows[i] ?? 0) + 1
      }
    }
    steps[row] = step
    times[row] = NaN
    size++
  }

  const set = (name: string, row: number, value: number) => {
    let column = columns.get(name)
    if (column === undefined) {
      column = { rows: ints(16), values: floats(16), length: 0, nonFinite: 0 }
      columns.set(name, column)
    }
    const at = column.length === 0 || (column.rows[column.length - 1] ?? 0) < row
      ? column.length
      : lowerBound(column.rows, column.length, row)
    const replaces = at < column.length && column.rows[at] === row
    if (replaces) {
      if (!Number.isFinite(column.values[at] ?? 0)) column.nonFinite--
    } else {
      column.rows = grow(column.rows, ints, column.length + 1)
      column.values = grow(column.values, floats, column.length + 1)
      if (at < column.length) {
        column.rows.copyWithin(at + 1, at, column.length)
        column.values.copyWithin(at + 1, at, column.length)
      }
      column.rows[at] = row
      column.length++
    }
    column.values[at] = value
    if (!Number.isFinite(value)) column.nonFinite++
  }

  const has = (name: string, row: number): boolean => {
    const column = columns.get(name)
    if (column === undefined) return false
    const at = lowerBound(column.rows, column.length, row)
    return at < column.length && column.rows[at] === row
  }

  const record: Table["record"] = (step, time, metrics) => {
    if (!Number.isFinite(step)) return
    axes = new Map()
    const list = Array.isArray(metrics) ? metrics : Array.from(metrics)
    let row = size > 0 && (steps[size - 1] ?? 0) < step ? size : lowerBound(steps, size, step)
    if (row < size && steps[row] === step) {
      for (const [name] of list) {
        if (has(name, row)) {
          truncate(step)
          break
        }
      }
    } else insertRow(row, step)
    row = Math.min(row, size - 1)
    if (time !== undefined && Number.isFinite(time)) times[row] = time
    for (const [name, value] of list) set(name, row, value)
  }

  const axisOf = (axis: Axis): Float64Array => {
    if (axis === "step") return steps
    const known = axes.get(axis)
    if (known !== undefined) return known
    const built = floats(size)
    if (axis === "tokens") {
      const column = tokenColumns.map((name) => columns.get(name)).find((found) => found !== undefined)
      let sum = 0
      let at = 0
      for (let row = 0; row < size; row++) {
        if (column !== undefined && at < column.length && column.rows[at] === row) {
          const value = column.values[at++] ?? 0
          if (Number.isFinite(value)) sum += value
        }
        built[row] = sum
      }
    } else {
      const first = firstTime()
      // The Python cookbook records how long each step took, not when it ended.
      const total = first === undefined ? columns.get("time/total") : undefined
      let sum = 0
      let at = 0
      for (let row = 0; row < size; row++) {
        if (first !== undefined) {
          const time = times[row] ?? NaN
          // Never backwards, so that the axis can be searched.
          if (!Number.isNaN(time)) sum = Math.max(sum, (time - first) / 1000)
        } else if (total !== undefined && at < total.length && total.rows[at] === row) {
          const value = total.values[at++] ?? 0
          if (Number.isFinite(value)) sum += Math.max(0, value)
        }
        built[row] = sum
      }
    }
    axes.set(axis, built)
    return built
  }

  const firstTime = (): number | undefined => {
    for (let row = 0; row < size; row++) if (!Number.isNaN(times[row])) return times[row]
    return undefined
  }

  const points: Table["points"] = (name, window = {}) => {
    const column = columns.get(name)
    if (column === undefined) return undefined
    const x = axisOf(window.axis ?? "step")
    const smoothed = (window.smoothing ?? 0) > 0 ? average(column, Math.min(window.smoothing ?? 0, 0.9999)) : undefined
    const firstRow = window.from === undefined ? 0 : lowerBound(x, size, window.from)
    const endRow = window.to === undefined ? size : upperBound(x, size, window.to)
    // One point beyond each end, so that a line leaves the picture instead of stopping short of its edge.
    const first = Math.max(0, lowerBound(column.rows, column.length, firstRow) - 1)
    const end = Math.min(column.length, lowerBound(column.rows, column.length, endRow) + 1)
    const kept = decimate(column.values, first, end, Math.max(2, window.points ?? 1000))
    const row = (i: number) => column.rows[i] ?? 0
    return {
      steps: kept.map((i) => steps[row(i)] ?? 0),
      x: kept.map((i) => x[row(i)] ?? 0),
      y: kept.map((i) => finite(column.values[i])),
      smooth: smoothed === undefined ? undefined : kept.map((i) => finite(smoothed[i])),
      total: end - first
    }
  }

  return {
    size: () => size,
    lastStep: () => size === 0 ? undefined : steps[size - 1],
    names: () => Array.from(columns.keys()),
    summary: (name) => {
      const column = columns.get(name)
      if (column === undefined) return undefined
      let [min, max] = [Infinity, -Infinity]
      for (let i = 0; i < column.length; i++) {
        const value = column.values[i] ?? NaN
        if (!Number.isFinite(value)) continue
        if (value < min) min = value
        if (value > max) max = value
      }
      const last = column.length - 1
      return {
        name,
        count: column.length,
        nonFinite: column.nonFinite,
        last: finite(column.values[last]),
        lastStep: steps[column.rows[last] ?? 0] ?? 0,
        min: finite(min),
        max: finite(max)
      }
    },
    points,
    each: (name, f) => {
      const column = columns.get(name)
      if (column === undefined) return
      for (let i = 0; i < column.length; i++) {
        const row = column.rows[i] ?? 0
        const time = times[row] ?? NaN
        f(steps[row] ?? 0, column.values[i] ?? NaN, Number.isNaN(time) ? undefined : time)
      }
    },
    record,
    truncate,
    clear: () => {
      size = 0
      columns.clear()
      axes = new Map()
    },
    times: () => {
      const first = firstTime()
      if (first === undefined) return undefined
      for (let row = size - 1; row >= 0; row--) {
        const last = times[row] ?? NaN
        if (!Number.isNaN(last)) return { first, last }
      }
      return undefined
    }
  }
}

// =============================================================================
// drawing
// =============================================================================

/** An exponential moving average that does not start from zero: early values weigh as much as they should. */
const average = ({ length, values }: Column, weight: number): Float64Array => {
  const out = floats(length)
  let mean = 0
  let total = 0
  for (let i = 0; i < length; i++) {
    const value = values[i] ?? NaN
    if (Number.isFinite(value)) {
      mean = weight * mean + (1 - weight) * value
      total = weight * total + (1 - weight)
    }
    out[i] = total === 0 ? NaN : mean / total
  }
  return out
}

/**
 * The indices to draw of `values[first]` up to `values[end]`: all of them where they fit, and otherwise the first, the
 * last, and the lowest and highest of each bucket in between. Values that are not finite are left out of buckets.
 *
 * @since 0.1.0
 * @category combinators
 */
export const decimate = (
  values: ArrayLike<number>,
  first: number,
  end: number,
  limit: number
): ReadonlyArray<number> => {
  const count = end - first
  if (count <= limit) return Array.from({ length: Math.max(0, count) }, (_, i) => first + i)
  const kept: Array<number> = [first]
  const buckets = Math.max(1, Math.floor((limit - 2) / 2))
  const inner = count - 2
  for (let bucket = 0; bucket < buckets; bucket++) {
    const from = first + 1 + Math.floor(bucket * inner / buckets)
    const to = first + 1 + Math.floor((bucket + 1) * inner / buckets)
    let low = -1
    let high = -1
    for (let i = from; i < to; i++) {
      const value = values[i] ?? NaN
      if (!Number.isFinite(value)) continue
      if (low < 0 || value < (values[low] ?? 0)) low = i
      if (high < 0 || value > (values[high] ?? 0)) high = i
    }
    if (low < 0) continue
    if (low === high) kept.push(low)
    else kept.push(Math.min(low, high), Math.max(low, high))
  }
  kept.push(end - 1)
  return kept
}
