/**
 * Keys, and the overlay that names them.
 */
import { useEffect, useLayoutEffect, useRef } from "preact/hooks"
import { isTyping } from "./controls.js"

const keys: ReadonlyArray<{ readonly title: string; readonly rows: ReadonlyArray<readonly [string, string]> }> = [
  {
    title: "Everywhere",
    rows: [["?", "These keys"], ["g r", "Runs"], ["g d", "Data"], ["g e", "Evaluations"], ["g g", "Grade"], [
      "t",
      "Light, dark, automatic"
    ]]
  },
  {
    title: "Runs",
    rows: [
      ["/", "Filter"],
      ["j k", "Next and previous run"],
      ["Enter", "Open it"],
      ["x", "Choose it for a comparison"],
      ["c", "Compare the chosen"]
    ]
  },
  {
    title: "A run",
    rows: [["1 – 5", "Curves, rollouts, checkpoints, configuration, notes"], ["j k", "Next and previous rollout"], [
      "u",
      "Back to the runs"
    ], ["e", "Save as an HTML file"]]
  },
  {
    title: "A curve",
    rows: [["← →", "Read values"], ["Enter", "Rollouts of the step"], ["Shift ← →", "Move the window"], [
      "Esc",
      "Show everything"
    ]]
  }
]

const places: Readonly<Record<string, string>> = { r: "#/", d: "#/data", e: "#/evaluations", g: "#/grade" }

/**
 * Keys of a page, but for those typed into a field or with a modifier. A key goes to what is on the screen: the handler is the
 * one of the last rendering, not that of the last effect, which runs later.
 */
export const useKeys = (press: (event: KeyboardEvent) => void): void => {
  const latest = useRef(press)
  latest.current = press
  useLayoutEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (!isTyping(event) && !event.ctrlKey && !event.metaKey && !event.altKey) latest.current(event)
    }
    addEventListener("keydown", key)
    return () => removeEventListener("keydown", key)
  }, [])
}

/** Keys that work on every page. `g` waits for a second one. */
export const useShortcuts = (handlers: { readonly help: () => void; readonly theme: () => void }): void => {
  const latest = useRef(handlers)
  latest.current = handlers
  useEffect(() => {
    let going = -Infinity
    const key = (event: KeyboardEvent) => {
      if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return
      const place = places[event.key]
      if (event.timeStamp - going < 1_000 && place !== undefined) {
        going = -Infinity
        // The page may have keys of its own with these letters.
        event.stopImmediatePropagation()
        location.hash = place
      } else if (event.key === "g" && !location.hash.startsWith("#/grade")) going = event.timeStamp
      else if (event.key === "?") latest.current.help()
      else if (event.key === "t") latest.current.theme()
    }
    addEventListener("keydown", key, true)
    return () => removeEventListener("keydown", key, true)
  }, [])
}

export const Help = ({ onClose }: { readonly onClose: () => void }) => {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  return (
    <dialog
      ref={dialog}
      class="help"
      aria-label="Keys"
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <header>
        <h2>Keys</h2>
        <button type="button" onClick={() => dialog.current?.close()}>Close</button>
      </header>
      <div class="keys">
        {keys.map(({ rows, title }) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {rows.map(([key, does]) => (
                <div key={key}>
                  <dt>{key.split(" ").map((one) => one === "–" ? " – " : <kbd key={one}>{one}</kbd>)}</dt>
                  <dd>{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </dialog>
  )
}
