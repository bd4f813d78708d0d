import { Recorder } from "@effect-tinker/agents"
import { Effect } from "effect"

/** The recorded calls of a rollout. */
export const callsOf = Effect.fnUntraced(function*(rollout: string) {
  const recorder = yield* Recorder.Recorder
  return (yield* recorder.rollout(rollout)).calls
})
