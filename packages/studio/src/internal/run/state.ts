/**
 * Facts of a run, in whichever format it is kept, collected line by line.
 */
import type { Checkpoint, Note, Status } from "../../RunDirectory.js"
import * as Json from "../json.js"

/** @internal */
export interface State {
  trainer: string
  model: string
  config: unknown
  totalSteps: number | null
  startedAt: number | null
  updatedAt: number | null
  checkpoints: Array<Checkpoint>
  notes: Array<Note>
  resumes: number
  ended: { readonly status: Status; readonly message: string | null } | undefined
  /** Its process ended without a word. */
  isGone: boolean
  unreadable: number
  command: string | null
}

/** @internal */
export const nothing = (): State => ({
  trainer: "",
  model: "",
  config: undefined,
  totalSteps: null,
  startedAt: null,
  updatedAt: null,
  checkpoints: [],
  notes: [],
  resumes: 0,
  ended: undefined,
  isGone: false,
  unreadable: 0,
  command: null
})

/** Takes over the time of a line. @internal */
export const tell = (state: State, time: number | undefined): void => {
  if (time === undefined) return
  state.startedAt ??= time
  state.updatedAt = time
}

/** The name of the base model, wherever a configuration keeps it. @internal */
export const modelOf = (config: unknown): string => {
  const { base_model: base, model, model_name: name } = Json.objectOf(config)
  return Json.textOf(name) ?? Json.textOf(base) ?? Json.textOf(model) ??
    Json.textOf(Json.objectOf(model)["baseModel"]) ??
    ""
}
