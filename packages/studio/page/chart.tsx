/**
 * A curve, or several over each other. The server decimates: zooming asks it for the points of the window.
 */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks"
import uPlot from "uplot"
import type { Axis, Points } from "./api.js"
import * as format from "./format.js"

export interface Line {
  readonly label: string
  readonly points: Points
  /** A place in the palette. */
  readonly color: number
}

export interface Zoom {
  readonly from: number
  readonly to: number
}

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

export const palette = 8

export const colorOf = (index: number) => css(`--series-${index % palette}`)

/** One sorted axis for all lines, with gaps where a line has no point. */
const align = (lines: ReadonlyArray<Line>): uPlot.AlignedData => {
  const smooth = lines.some(({ points }) => points.smooth !== undefined)
  const tables = lines.flatMap(({ points }): ReadonlyArray<uPlot.AlignedData> => [
    [points.x.slice(), points.y.slice()],
    ...(smooth ? [[points.x.slice(), (points.smooth ?? points.y).slice()] as uPlot.AlignedData] : [])
  ])
  const [only] = tables
  return tables.length === 1 && only !== undefined ? only : uPlot.join(tables as Array<uPlot.AlignedData>)
}

const axisOf = (axis: Axis): uPlot.Axis => ({
  stroke: css("--soft"),
  grid: { show: false },
  ticks: { show: false },
  font: "11px system-ui, sans-serif",
  size: 24,
  label: axis === "time" ? "Time since the start" : axis === "tokens" ? "Tokens trained on" : "Step",
  labelSize: 18,
  labelFont: "11px system-ui, sans-serif",
  gap: 4,
  space: 70,
  values: (_, splits) => splits.map((value) => format.onAxis(axis, value))
})

export const Chart = (props: {
  readonly title: string
  readonly lines: ReadonlyArray<Line>
  readonly axis: Axis
  readonly height?: number
  readonly zoom: Zoom | undefined
  readonly onZoom: (zoom: Zoom | undefined) => void
  /** Where a point of the first line leads to. */
  readonly onStep?: ((step: number) => void) | undefined
  readonly theme: string
}) => {
  const host = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const [at, setAt] = useState<number | undefined>(undefined)
  const latest = useRef(props)
  latest.current = props
  const data = useMemo(() => align(props.lines), [props.lines])
  const smooth = props.lines.some(({ points }) => points.smooth !== undefined)
  const shape = `${props.axis} ${props.theme} ${smooth} ${
    props.lines.map(({ color, label }) => `${label}:${color}`).join()
  }`

  useLayoutEffect(() => {
    const element = host.current
    if (element === null) return
    const series = props.lines.flatMap(({ color, label }): ReadonlyArray<uPlot.Series> => {
      const stroke = colorOf(color)
      const line: uPlot.Series = { label, stroke, width: 1.75, spanGaps: true, points: { show: false } }
      // With few points a line alone would show nothing.
      const marked: uPlot.Series = {
        ...line,
        points: { show: props.lines[0]?.points.x.length === 1, size: 6, fill: stroke }
      }
      const filled: Partial<uPlot.Series> = props.lines.length === 1 ? { fill: `${stroke}14` } : {}
      return smooth
        ? [{ ...line, stroke: `${stroke}55`, width: 1 }, { ...line, ...filled }]
        : [{ ...marked, ...filled }]
    })
    const made = new uPlot(
      {
        width: Math.max(120, element.clientWidth),
        height: props.height ?? 190,
        legend: { show: false },
        padding: [8, 12, 0, 0],
        cursor: {
          sync: { key: "studio", setSeries: false },
          drag: { x: true, y: false, setScale: false },
          // With Shift a drag moves the window instead of choosing one.
          bind: { mousedown: (_self, _target, handler) => (event) => event.shiftKey ? null : handler(event) },
          points: { size: 7 }
        },
        scales: { x: { time: false }, y: { range: (_, low, high) => widen(low, high) } },
        axes: [axisOf(props.axis), {
          stroke: css("--soft"),
          grid: { stroke: css("--line"), width: 1 },
          ticks: { show: false },
          font: "11px system-ui, sans-serif",
          size: 52,
          gap: 6,
          space: 36,
          values: (_, splits) => splits.map((value) => format.number(value))
        }],
        series: [{}, ...series],
        hooks: {
          setCursor: [(self) => setAt(self.cursor.idx ?? undefined)],
          setSelect: [(self) => {
            if (self.select.width < 6) return
            const from = self.posToVal(self.select.left, "x")
            const to = self.posToVal(self.select.left + self.select.width, "x")
            self.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false)
            latest.current.onZoom({ from, to })
          }]
        }
      },
      data,
      element
    )
    plot.current = made
    let pressed = 0
    const down = (event: MouseEvent) => {
      pressed = event.clientX
      const { zoom } = latest.current
      if (!event.shiftKey || zoom === undefined) return
      const perPixel = (zoom.to - zoom.from) / Math.max(1, made.over.clientWidth)
      const move = ({ clientX }: MouseEvent) => pan(zoom, (pressed - clientX) * perPixel)
      addEventListener("mousemove", move)
      addEventListener("mouseup", () => removeEventListener("mousemove", move), { once: true })
    }
    const wheel = (event: WheelEvent) => {
      const { zoom } = latest.current
      const by = event.deltaX === 0 && event.shiftKey ? event.deltaY : event.deltaX
      if (zoom === undefined || by === 0) return
      event.preventDefault()
      pan(zoom, by * (zoom.to - zoom.from) / Math.max(1, made.over.clientWidth))
    }
    made.over.addEventListener("wheel", wheel, { passive: false })
    const up = (event: MouseEvent) => {
      if (Math.abs(event.clientX - pressed) < 4) go(made.cursor.idx ?? undefined)
    }
    made.over.addEventListener("mousedown", down)
    made.over.addEventListener("click", up)
    made.over.addEventListener("dblclick", () => latest.current.onZoom(undefined))
    const resize = new ResizeObserver(() =>
      made.setSize({ width: Math.max(120, element.clientWidth), height: props.height ?? 190 })
    )
    resize.observe(element)
    return () => {
      resize.disconnect()
      made.destroy()
      plot.current = undefined
    }
  }, [shape])

  useEffect(() => {
    if (props.zoom === undefined) plot.current?.setData(data)
    else {
      // Moving the window must not wait for its points: those around it are there already.
      if (plot.current?.data !== data) plot.current?.setData(data, false)
      plot.current?.setScale("x", { min: props.zoom.from, max: props.zoom.to })
    }
  }, [data, props.zoom, shape])

  const pan = ({ from, to }: Zoom, by: number) => latest.current.onZoom({ from: from + by, to: to + by })

  const stepAt = (index: number | undefined): number | undefined => {
    const first = latest.current.lines[0]?.points
    const x = index === undefined ? undefined : plot.current?.data[0][index]
    if (first === undefined || x === undefined) return undefined
    let best = 0
    first.x.forEach((value, i) => {
      if (Math.abs(value - x) < Math.abs((first.x[best] ?? Infinity) - x)) best = i
    })
    return first.steps[best]
  }

  const go = (index: number | undefined) => {
    const step = stepAt(index)
    if (step !== undefined) latest.current.onStep?.(step)
  }

  const key = (event: KeyboardEvent) => {
    const made = plot.current
    if (made === undefined) return
    const last = made.data[0].length - 1
    const { zoom } = props
    if (event.shiftKey && zoom !== undefined && /^Arrow(Left|Right)$/.test(event.key)) {
      pan(zoom, (zoom.to - zoom.from) * (event.key === "ArrowLeft" ? -0.1 : 0.1))
      event.preventDefault()
      return
    }
    const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key]
    if (move !== undefined) {
      const next = Math.max(0, Math.min(last, (at ?? (move > 0 ? -1 : last + 1)) + move))
      made.setCursor({ left: made.valToPos(made.data[0][next] ?? 0, "x"), top: made.bbox.height / 4 })
    } else if (event.key === "Enter") go(at)
    else if (event.key === "Escape") props.onZoom(undefined)
    else return
    event.preventDefault()
  }

  const readings = at === undefined ? [] : props.lines.map(({ color, label }, i) => {
    const column = data[1 + (smooth ? 2 * i : i)]
    return { color, label, value: column?.[at] }
  })
  const first = props.lines[0]?.points
  const finite = first?.y.flatMap((value) => value === null ? [] : [value]) ?? []
  const described = `${props.title}: ${first?.total ?? 0} points, from ${format.number(finite[0])} to ${
    format.number(finite[finite.length - 1])
  }. Arrow keys read values${props.onStep === undefined ? "" : ", Enter opens the rollouts of a step"}.`

  return (
    <div class="chart">
      <div ref={host} class="plot" tabIndex={0} role="img" aria-label={described} onKeyDown={key} />
      <div class="reading" aria-live="polite">
        {at === undefined || data[0][at] === undefined
          ? (
            <span class="soft">
              {props.zoom === undefined ? "" : "Shift and drag moves, double-click or Esc shows everything"}
            </span>
          )
          : (
            <>
              <span class="soft">
                {format.axisNames[props.axis].toLowerCase()} {format.onAxis(props.axis, data[0][at] ?? 0)}
              </span>
              {readings.map(({ color, label, value }) => (
                <span key={label}>
                  <i class={`swatch series-${color % palette}`} />
                  {props.lines.length > 1 ? `${label} ` : ""}
                  <b>{format.number(value ?? null)}</b>
                </span>
              ))}
            </>
          )}
      </div>
    </div>
  )
}

const widen = (low: number, high: number): [number, number] => {
  if (!(high > low)) {
    const pad = Math.abs(low) * 0.1 || 1
    return [low - pad, low + pad]
  }
  const pad = (high - low) * 0.06
  return [low - pad, high + pad]
}

/** A curve the size of a word. */
export const Spark = ({ label, values }: { readonly values: ReadonlyArray<number | null>; readonly label: string }) => {
  const known = values.flatMap((value, i) => value === null ? [] : [[i, value] as const])
  if (known.length < 2) {
    return <svg class="spark" viewBox="0 0 120 28" role="img" aria-label={`${label}: no curve yet`} />
  }
  const low = Math.min(...known.map(([, value]) => value))
  const high = Math.max(...known.map(([, value]) => value))
  const x = (i: number) => (2 + i / (values.length - 1) * 114).toFixed(1)
  const y = (value: number) => (25 - (high === low ? 0.5 : (value - low) / (high - low)) * 22).toFixed(1)
  const line = known.map(([i, value], n) => `${n === 0 ? "M" : "L"}${x(i)} ${y(value)}`).join("")
  const last = known[known.length - 1]
  return (
    <svg
      class="spark"
      viewBox="0 0 120 28"
      role="img"
      aria-label={`${label} from ${format.number(known[0]?.[1])} to ${format.number(last?.[1])}`}
    >
      <path d={`${line}L${x(last?.[0] ?? 0)} 28L${x(known[0]?.[0] ?? 0)} 28Z`} class="under" />
      <path d={line} />
      <circle cx={x(last?.[0] ?? 0)} cy={y(last?.[1] ?? 0)} r="2.2" />
    </svg>
  )
}
