/**
 * The page: where it is, and what it looks like.
 */
import { render } from "preact"
import { useEffect, useState } from "preact/hooks"
import "uplot/dist/uPlot.min.css"
import { useLive } from "./api.js"
import { Chat } from "./chat.js"
import { Data } from "./data.js"
import { Evaluations } from "./evaluations.js"
import { Grade } from "./grade.js"
import { Run } from "./run.js"
import { Compare, Runs } from "./runs.js"
import { Help, useShortcuts } from "./shortcuts.js"
import "./style.css"

const useRoute = (): ReadonlyArray<string> => {
  const read = () => location.hash.replace(/^#\/?/, "").split("/").filter((part) => part !== "")
  const [route, setRoute] = useState(read)
  useEffect(() => {
    const change = () => setRoute(read())
    addEventListener("hashchange", change)
    return () => removeEventListener("hashchange", change)
  }, [])
  return route
}

/** A hash that was typed by hand may be malformed. */
const decode = (part: string): string => {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

const themes = ["auto", "light", "dark"] as const

const useTheme = () => {
  const [theme, setTheme] = useState<string>(() => localStorage.getItem("theme") ?? "auto")
  const [dark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches)
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)")
    const change = () => setDark(media.matches)
    media.addEventListener("change", change)
    return () => media.removeEventListener("change", change)
  }, [])
  const shown = theme === "auto" ? (dark ? "dark" : "light") : theme
  document.documentElement.dataset["theme"] = shown
  return {
    theme,
    shown,
    next: () => {
      const following = themes[(themes.findIndex((name) => name === theme) + 1) % themes.length] ?? "auto"
      localStorage.setItem("theme", following)
      setTheme(following)
    }
  }
}

const App = () => {
  const live = useLive()
  const route = useRoute()
  const theme = useTheme()
  const [help, setHelp] = useState(false)
  useShortcuts({ help: () => setHelp(true), theme: theme.next })
  const [place, ...rest] = route
  const decoded = rest.map(decode)
  const [id = ""] = decoded
  useEffect(() => {
    const title = place === "run"
      ? id
      : place === "compare"
      ? "Compare"
      : place === "grade"
      ? "Grade"
      : place === "data"
      ? "Data"
      : place === "evaluations"
      ? "Evaluations"
      : ""
    document.title = title === "" ? "tinker studio" : `${title} · tinker studio`
  }, [place, id])
  return (
    <>
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault()
          document.querySelector<HTMLElement>("main")?.focus()
        }}
      >
        Skip to content
      </a>
      <header class="top">
        <a class="mark" href="#/">
          tinker <b>studio</b>
        </a>
        <nav class="pages" aria-label="Pages">
          <a
            href="#/"
            aria-current={place === "grade" || place === "data" || place === "evaluations" ? undefined : "page"}
          >
            Runs
          </a>
          {live.grades === null ? null : (
            <a
              href="#/grade"
              aria-current={place === "grade" ? "page" : undefined}
              aria-label={live.grades === 0 ? "Grade" : `Grade, ${live.grades} waiting`}
            >
              Grade{live.grades === 0 ? null : <span class="badge">{live.grades}</span>}
            </a>
          )}
          {live.data === null
            ? null
            : <a href="#/data" aria-current={place === "data" ? "page" : undefined}>Data</a>}
          {live.evaluations === null
            ? null
            : <a href="#/evaluations" aria-current={place === "evaluations" ? "page" : undefined}>Evals</a>}
        </nav>
        <code class="where" title={live.directory}>{`\u200e${live.directory}`}</code>
        <span class={`wire ${live.connected ? "on" : "off"}`} role="status">
          {live.connected ? "live" : live.ready ? "not connected" : "connecting"}
        </span>
        <button type="button" class="theme keyhelp" onClick={() => setHelp(true)} aria-label="Keys">?</button>
        <button type="button" class="theme" onClick={theme.next} aria-label={`Colours: ${theme.theme}`}>
          {theme.theme === "auto" ? "Auto" : theme.theme === "dark" ? "Dark" : "Light"}
        </button>
      </header>
      {help ? <Help onClose={() => setHelp(false)} /> : null}
      {place === "run"
        ? <Run key={id} id={id} rest={decoded.slice(1)} live={live} theme={theme.shown} />
        : place === "compare"
        ? <Compare ids={(rest[0] ?? "").split(",").map(decode)} live={live} theme={theme.shown} />
        : place === "chat"
        ? <Chat key={id} id={id} checkpoint={decoded[1] ?? ""} live={live} />
        : place === "grade"
        ? <Grade live={live} />
        : place === "data"
        ? <Data live={live} />
        : place === "evaluations"
        ? <Evaluations live={live} />
        : <Runs live={live} />}
    </>
  )
}

const root = document.getElementById("app")
if (root !== null) render(<App />, root)
