/**
 * Answers that runs wait to have graded, one at a time and by the keyboard.
 */
import { useRef, useState } from "preact/hooks"
import type { Live, Waiting } from "./api.js"
import { api, useLoaded } from "./api.js"
import { Failure } from "./controls.js"
import * as format from "./format.js"
import { runHref } from "./runs.js"
import { useKeys } from "./shortcuts.js"

/** Five grades under the fingers; anything else is typed. */
const scale = [
  { key: "1", grade: 0, word: "Bad" },
  { key: "2", grade: 0.25, word: "Poor" },
  { key: "3", grade: 0.5, word: "Fair" },
  { key: "4", grade: 0.75, word: "Good" },
  { key: "5", grade: 1, word: "Excellent" }
] as const

interface Given {
  readonly question: Waiting
  readonly grade: number
}

const keyOf = ({ key, run }: Waiting) => `${run}\n${key}`

export const Grade = ({ live }: { readonly live: Live }) => {
  const [given, setGiven] = useState<ReadonlyArray<Given>>([])
  const [again, setAgain] = useState<Waiting | undefined>(undefined)
  const [later, setLater] = useState<ReadonlySet<string>>(new Set())
  const [typed, setTyped] = useState("")
  const [failure, setFailure] = useState<string | undefined>(undefined)
  const [busy, setBusy] = useState(false)
  const field = useRef<HTMLInputElement>(null)
  const { error, value: waiting = [] } = useLoaded(api.grades, [live.grades, given.length])
  const open = waiting.filter((question) => !given.some((one) => keyOf(one.question) === keyOf(question)))
  const queue = [
    ...(again === undefined ? [] : [again]),
    ...open.filter((question) => !later.has(keyOf(question))),
    ...open.filter((question) => later.has(keyOf(question)))
  ]
  const [current] = queue

  const give = (grade: number) => {
    if (current === undefined || busy) return
    setBusy(true)
    api.grade({ run: current.run, key: current.key, grade }).then(
      () => {
        setGiven((last) => [...last.filter(({ question }) => keyOf(question) !== keyOf(current)), {
          question: current,
          grade
        }])
        setFailure(undefined)
      },
      (reason: Error) => setFailure(reason.message)
    ).finally(() => {
      setAgain(undefined)
      setTyped("")
      setBusy(false)
      field.current?.blur()
    })
  }
  const skip = () => {
    if (current !== undefined) setLater(new Set(later).add(keyOf(current)))
  }
  const last = given[given.length - 1]
  const undo = () => {
    if (last === undefined) return
    setGiven(given.slice(0, -1))
    setAgain(last.question)
  }
  useKeys((event) => {
    const found = scale.find(({ key }) => key === event.key)
    if (found !== undefined) give(found.grade)
    else if (event.key === "s") skip()
    else if (event.key === "u") undo()
    else if (event.key === "g") field.current?.focus()
    else return
    event.preventDefault()
  })
  const parsed = typed.trim() === "" ? NaN : Number(typed)
  return (
    <main id="content" tabIndex={-1} class="grade">
      <div class="head">
        <div>
          <h1>Grade</h1>
          <p class="soft">
            {queue.length === 0
              ? "Nothing waits"
              : queue.length === 1
              ? "1 answer waits"
              : `${queue.length} answers wait`}
            {given.length === 0 ? "" : ` · ${given.length} graded here`}
          </p>
        </div>
        <div class="tools">
          <button type="button" disabled={last === undefined} onClick={undo}>
            Undo <kbd>U</kbd>
          </button>
        </div>
      </div>
      <Failure message={error ?? failure} />
      {current === undefined
        ? (
          <div class="empty">
            <h2>All caught up</h2>
            <p>
              When an environment of a durable run asks for a person's judgement, its answers appear here at once. The
              run waits for them, over restarts if need be, and each grade becomes the reward of its rollout.
            </p>
          </div>
        )
        : (
          <section key={keyOf(current)} class="card question-card" aria-label="Answer to grade" aria-live="polite">
            <p class="facts">
              <a href={runHref(current.run)}>{current.run}</a>
              <span>asked {format.ago(current.time)}</span>
              {again === undefined ? null : <span class="warn">graded again</span>}
            </p>
            <h2 class="asked text">{current.question}</h2>
            <div class="answered text" tabIndex={0}>{current.answer}</div>
            <div class="scale" role="group" aria-label="Grade">
              {scale.map(({ grade, key, word }) => (
                <button
                  key={key}
                  type="button"
                  disabled={busy}
                  onClick={() => give(grade)}
                >
                  <kbd>{key}</kbd>
                  <b>{word}</b>
                  <small>{grade}</small>
                </button>
              ))}
            </div>
            <form
              class="settings"
              onSubmit={(event) => {
                event.preventDefault()
                if (Number.isFinite(parsed)) give(parsed)
              }}
            >
              <label class="field">
                <span>
                  Another number <kbd>G</kbd>
                </span>
                <input
                  ref={field}
                  inputMode="decimal"
                  value={typed}
                  onInput={(event) => setTyped(event.currentTarget.value)}
                  onKeyDown={(event) => {
                    if (event.key === "Escape") event.currentTarget.blur()
                  }}
                />
              </label>
              <button type="submit" disabled={busy || !Number.isFinite(parsed)}>Give</button>
              <button type="button" class="right" disabled={queue.length < 2} onClick={skip}>
                Later <kbd>S</kbd>
              </button>
            </form>
          </section>
        )}
      {given.length === 0 ? null : (
        <section aria-label="Graded here">
          <h2 class="section">Graded here</h2>
          <ol class="graded card">
            {[...given].reverse().slice(0, 50).map(({ grade, question }) => (
              <li key={keyOf(question)}>
                <b class="number">{format.number(grade)}</b>
                <span class="line">{question.answer}</span>
                <span class="soft">{question.run}</span>
              </li>
            ))}
          </ol>
        </section>
      )}
    </main>
  )
}
