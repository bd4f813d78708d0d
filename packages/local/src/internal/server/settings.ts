/**
 * What can be set about the server, with every default filled in.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"

/** @internal */
export interface SettingsShape {
  /** How long a poll is held before it is told to try again. */
  readonly hold: Duration.Duration
  /** How long a session lives without a heartbeat. */
  readonly sessionTimeout: Duration.Duration
  /** How long a result can be fetched. */
  readonly retention: Duration.Duration
  /** Results larger than this are announced by their size first. */
  readonly inlineResultBytes: number
  /** Sample requests computed at a time. */
  readonly sampleConcurrency: number
  /** Sample requests waiting beyond which more are refused. */
  readonly maxQueuedSamples: number
}

/** @internal */
export class Settings extends Context.Tag("@effect-tinker/local/Settings")<Settings, SettingsShape>() {}

/** @internal */
export const defaults: SettingsShape = {
  hold: Duration.seconds(30),
  sessionTimeout: Duration.minutes(5),
  retention: Duration.hours(1),
  inlineResultBytes: 1024 * 1024,
  sampleConcurrency: 4,
  maxQueuedSamples: 4096
}
