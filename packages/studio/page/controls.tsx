/**
 * How curves are drawn: over what, how smooth, and which of them.
 */
import { useEffect, useState } from "preact/hooks"
import type { Axis } from "./api.js"
import type { Zoom } from "./chart.js"
import * as format from "./format.js"

export interface State {
  readonly axis: Axis
  readonly setAxis: (axis: Axis) => void
  readonly smooth: number
  readonly setSmooth: (smooth: number) => void
  readonly filter: string
  readonly setFilter: (filter: string) => void
  readonly zoom: Zoom | undefined
  readonly setZoom: (zoom: Zoom | undefined) => void
  readonly matches: (metric: string) => boolean
}

/**
 * What to ask the server for: the window and as much again on both sides, so that it can be moved; and only when it has
 * come to rest.
 */
export const useWindow = (zoom: Zoom | undefined, points: number) => {
  const [settled, setSettled] = useState(zoom)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(zoom), zoom === undefined ? 0 : 80)
    return () => clearTimeout(timer)
  }, [zoom])
  if (settled === undefined) return { points }
  const span = settled.to - settled.from
  return { points: 3 * points, from: settled.from - span, to: settled.to + span }
}

export const useControls = (): State => {
  const [axis, setAxis] = useState<Axis>("step")
  const [smooth, setSmooth] = useState(0)
  const [filter, setFilter] = useState("")
  const [zoom, setZoom] = useState<Zoom | undefined>(undefined)
  return {
    axis,
    setAxis: (next) => {
      setZoom(undefined)
      setAxis(next)
    },
    smooth,
    setSmooth,
    filter,
    setFilter,
    zoom,
    setZoom,
    matches: (metric) => `${metric} ${format.metric(metric)}`.toLowerCase().includes(filter.toLowerCase())
  }
}

const axes: ReadonlyArray<Axis> = ["step", "tokens", "time"]

export const Controls = ({ controls }: { readonly controls: State }) => (
  <div class="controls">
    <div class="segments" role="radiogroup" aria-label="Horizontal axis">
      {axes.map((axis) => (
        <button
          key={axis}
          type="button"
          role="radio"
          aria-checked={controls.axis === axis}
          onClick={() => controls.setAxis(axis)}
        >
          {format.axisNames[axis]}
        </button>
      ))}
    </div>
    <label class="slider">
      <span>Smoothing</span>
      <input
        type="range"
        min="0"
        max="0.99"
        step="0.01"
        value={controls.smooth}
        onInput={(event) => controls.setSmooth(Number(event.currentTarget.value))}
      />
      <output>{controls.smooth.toFixed(2)}</output>
    </label>
    <input
      type="search"
      placeholder="Metrics"
      aria-label="Filter metrics by name"
      value={controls.filter}
      onInput={(event) => controls.setFilter(event.currentTarget.value)}
    />
    {controls.zoom === undefined ?
      null :
      <button type="button" onClick={() => controls.setZoom(undefined)}>Show everything</button>}
  </div>
)

export interface Group {
  readonly title: string
  readonly metrics: ReadonlyArray<string>
  readonly open: boolean
}

const titles: ReadonlyArray<readonly [string, RegExp]> = [
  ["Evaluation", /^(eval|test)\//],
  ["Environment", /^env\//],
  ["Divergence and entropy", /kl|entropy|staleness/],
  ["Optimizer", /learning_rate|^lr$|grad|norm|clip/],
  ["Waiting", /^time\/wait\//],
  ["Timing", /^time\//],
  ["Cost", /^cost/],
  ["Progress", /^(progress|tokens|num_|epoch|groups)/]
]

/** What matters first, then by what it is about. */
export const group = (metrics: ReadonlyArray<string>, headline: ReadonlyArray<string>): ReadonlyArray<Group> => {
  const main = headline.filter((name) => metrics.includes(name))
  const rest = metrics.filter((name) => !main.includes(name))
  const taken = new Set<string>()
  const groups = titles.map(([title, pattern]) => {
    const found = rest.filter((name) => !taken.has(name) && pattern.test(name))
    for (const name of found) taken.add(name)
    return { title, metrics: found, open: /^(Evaluation|Divergence and entropy|Waiting)$/.test(title) }
  })
  const other = rest.filter((name) => !taken.has(name))
  return [
    { title: "Overview", metrics: main, open: true },
    { title: "Training", metrics: other, open: other.length <= 12 },
    ...groups
  ].filter((found) => found.metrics.length > 0)
}

/** A number that matters, with its name above it and what to know about it below. */
export const Stat = ({ name, note, raw, value }: {
  readonly name: string
  /** The name it has in files, where it differs. */
  readonly raw?: string | undefined
  readonly value: string
  readonly note?: string | undefined
}) => (
  <div class="stat">
    <dt title={raw}>{name}</dt>
    <dd>{value}</dd>
    {note === undefined || note === "" ? null : <dd class="note">{note}</dd>}
  </div>
)

/** Whether a key belongs to a field that is being written in. */
export const isTyping = ({ target }: Event): boolean =>
  target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement ||
  (target instanceof HTMLInputElement && target.type !== "checkbox" && target.type !== "range")

/** Text of a token with what cannot be seen made visible. */
export const visible = (text: string): string => text === "" ? "·" : text.replace(/\n/g, "⏎\n").replace(/\t/g, "⇥")

export const Failure = ({ message }: { readonly message: string | undefined }) =>
  message === undefined ? null : <p class="failure" role="alert">{message}</p>
