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
    here: "yes",
    note: "clients, the embedded backend and asynchronous training; rollouts by workers keep snapshots"
  },
  {
    area: "service",
    what: "models from checkpoints in one request, always",
    since: "tinker 0.38.0",
    here: "yes",
    note: "where the server takes it, the older order elsewhere"
  },
  { area: "service", what: "capabilities without a session", since: "tinker 0.38.0", here: "yes" },
  { area: "service", what: "free storage in reports of usage", since: "tinker 0.38.0", here: "yes" },
  {
    area: "service",
    what: "`x-sdk-method` on every request of a public call",
    since: "tinker 0.38.0",
    here: "yes"
  },
  {
    area: "service",
    what: "tokens renewed at half of their lifetime, and once when refused",
    since: "tinker 0.38.0",
    here: "yes"
  },
  { area: "service", what: "acknowledgements of a shared poll without a wait", since: "tinker 0.38.0", here: "yes" },
  {
    area: "service",
    what: "custom losses keep their place among the operations",
    since: "tinker 0.38.0",
    here: "yes",
    note: "what is queued behind one that fails goes on"
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
  {
    area: "cookbook",
    what: "cost per step and in all",
    since: "cookbook 0.6.1",
    here: "yes",
    note:
      "`cost` of every trainer, in checkpoints, `tinker train`, `tinker runs` and the studio; `Cost.published` reads the price list"
  },
  {
    area: "cookbook",
    what: "pacing of asynchronous training by started groups",
    since: "cookbook 0.6.1",
    here: "partly",
    note:
      "as many started groups at most, a smaller last step, nothing running at the end; but in order, where theirs takes what is finished: a slow group holds up its step, and no group is older than the bound"
  },
  {
    area: "cookbook",
    what: "provenance of every datum that is trained on",
    since: "cookbook 0.6.1",
    here: "yes",
    note: "where the server names sampled sequences"
  },
  {
    area: "renderers",
    what: "Kimi K3.1-Pro, five formats",
    since: "cookbook 0.6.1",
    here: "no",
    note: "they are those of tml-renderers 0.4.1 or newer, which the index does not have: nothing to hold ours against"
  },
  { area: "cookbook", what: "audio in messages", since: "cookbook 0.6.1", here: "no" }
]
