/**
 * Links into the web console.
 *
 * @since 0.1.0
 */

const base = "https://tinker.thinkingmachines.ai"

/** Percent-encodes all but letters, digits and `_.-~`, as the console's own links do. */
const escape = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)

/** A query value: as above, with `+` for a space. */
const escapeQuery = (text: string): string => escape(text).replace(/%20/g, "+")

/**
 * All sessions.
 *
 * @internal
 */
export const sessions: string = `${base}/sessions`

/**
 * One session.
 *
 * @internal
 */
export const session = (sessionId: string): string => `${sessions}/${sessionId}`

/**
 * One training run.
 *
 * @internal
 */
export const trainingRun = (trainingRunId: string): string => `${base}/training_runs/${trainingRunId}`

/**
 * One checkpoint of a run.
 *
 * @internal
 */
export const checkpoint = (trainingRunId: string, checkpointId: string): string =>
  `${base}/checkpoints/${escape(trainingRunId)}/${escape(checkpointId)}`

/**
 * A sampler checkpoint, ready to talk to.
 *
 * @internal
 */
export const playground = (tinkerPath: string): string =>
  `${base}/playground?mode=checkpoint&checkpoint=${escape(tinkerPath)}`

/**
 * One API key.
 *
 * @internal
 */
export const apiKey = (keyId: string): string => `${base}/keys/${escape(keyId)}`

/**
 * A form for a new API key of that name.
 *
 * @internal
 */
export const newApiKey = (name: string): string => `${base}/keys?new_key=true&key_name=${escapeQuery(name)}`
