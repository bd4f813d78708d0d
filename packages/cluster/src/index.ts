/**
 * A training run that outlives its processes. The run is a workflow, named after it:
 *
 * - The steps up to the next checkpoint are one activity; its row holds the checkpoint's path and the position in the data.
 *   What was trained and sampled is in the run's directory. An activity that is repeated finds its checkpoint there and
 *   trains nothing twice.
 * - Evaluations are activities of their own.
 * - Waiting for a time is a durable clock, waiting for a person a durable deferred.
 *
 * The process that trains, the server and the machine may be killed at any moment: starting the command again goes on with
 * the latest checkpoint, and computes what the undisturbed run computes.
 *
 * @since 0.1.0
 */
export * as DurableRun from "./DurableRun.js"

/**
 * Rewards that people give. A rollout asks for a grade and waits; the question is put where `tinker runs grade` and other
 * programs find it. The run may be killed and started again any number of times before the grade arrives.
 *
 * @since 0.1.0
 */
export * as Judgement from "./Judgement.js"

/**
 * How people and other programs talk to a durable run: by files in its directory. The process that trains is the only one
 * that opens the workflow's database; everybody else reads `status.json` and leaves requests and grades, which survive
 * until that process, or the one after it, has taken them up.
 *
 * Files are below `durable/`: `status.json`, `pause.json`, `resume.json`, `cancel.json`, `questions/KEY.json` and
 * `answers/KEY.json`. Each is written to a temporary name and renamed, so a reader never sees half of one.
 *
 * @since 0.1.0
 */
export * as RunControl from "./RunControl.js"
