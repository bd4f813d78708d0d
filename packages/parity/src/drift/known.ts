/**
 * What upstream has that is worth knowing about, and the state of it here. `npm run parity -- --drift` writes it into
 * `docs/upstream.md`, together with what it finds by itself.
 */

export type Here = "yes" | "partly" | "no"

export interface Known {
  readonly area: string
  readonly what: string
  /** The release it came with. */
  readonly since: string
  readonly here: Here
  readonly note?: string | undefined
}

/** The cookbook whose public names, recipes, models and renderers have been looked through. */
export const cookbook = "0.6.1"

export interface Library {
  readonly name: string
  /** The major version the packages here are made for. */
  readonly ours: number
  /** The newest major version that is known about. */
  readonly seen: number
}

/** Libraries whose next major version changes what the packages here must do. */
export const libraries: ReadonlyArray<Library> = [
  { name: "ai", ours: 6, seen: 7 },
  { name: "effect", ours: 3, seen: 4 }
]

export const known: ReadonlyArray<Known> = [
  {
    area: "service",
    what: "weights in flight (`kind` of saves for sampling)",
    since: "tinker 0.38.0",
    here: "partly",
    note: "the wire and the embedded backend have them; no option of the SDK's clients yet"
  },
  {
    area: "service",
    what: "models from checkpoints in one request, always",
    since: "tinker 0.38.0",
    here: "partly",
    note: "where the server asks for it; the embedded backend takes both orders"
  },
  { area: "service", what: "capabilities without a session", since: "tinker 0.38.0", here: "yes" },
  { area: "service", what: "free storage in reports of usage", since: "tinker 0.38.0", here: "yes" },
  {
    area: "service",
    what: "`x-sdk-method` on every request of a public call",
    since: "tinker 0.38.0",
    here: "partly",
    note: "on requests of the REST client"
  },
  {
    area: "losses",
    what: "`gspo`",
    since: "tinker 0.36.0 or earlier",
    here: "yes",
    note: "the embedded engine computes GSPO with a ratio per sequence and advantages per token"
  },
  {
    area: "losses",
    what: "`stable_reinforce`, the cookbook's default off policy",
    since: "tinker 0.36.0 or earlier",
    here: "partly",
    note: "sent to servers that have it; the embedded engine refuses it, since its formula is not public"
  },
  {
    area: "cookbook",
    what: "epochs of reinforcement learning with a permutation by size, seed and cycle",
    since: "cookbook 0.6.1",
    here: "yes",
    note: "`epochs` and `shuffle` of the trainers, problem by problem"
  },
  { area: "cookbook", what: "cost per step and in all", since: "cookbook 0.6.1", here: "no" },
  { area: "cookbook", what: "pacing of asynchronous training by started groups", since: "cookbook 0.6.1", here: "no" },
  { area: "cookbook", what: "audio in messages", since: "cookbook 0.6.1", here: "no" }
]
