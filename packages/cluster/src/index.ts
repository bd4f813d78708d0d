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
 * The trainer's side of distributed rollouts: a layer under `Reinforce.train` sends every rollout to the workers of a
 * label, and gathers the trajectories as they are stored. The trainer itself does not change.
 *
 * Policies are saved as checkpoints that workers sample from; each rollout carries the version it is sampled from, and is
 * seeded as it would be in this process, so what is trained on does not depend on who ran it.
 *
 * @since 0.1.0
 */
export * as RolloutCluster from "./RolloutCluster.js"

/**
 * A worker: a process that runs rollouts for trainers on other machines. It reads which rollout to run from the cluster's
 * storage, samples from the policy that the rollout names, and leaves the trajectory in the {@link TrajectoryStore}.
 *
 * - Rollouts are delivered at least once. One whose trajectory is stored already is not run again.
 * - Workers come and go. What one of them had not finished is delivered to the others.
 * - Credentials for sampling come from the worker's own environment, never through the database.
 * - A rollout is run only if a trainer of a run that the database knows has signed the request: see {@link RunAuthority}.
 *
 * @since 0.1.0
 */
export * as RolloutWorker from "./RolloutWorker.js"

/**
 * Which rollouts a worker runs: those that the trainer of a run has signed, of a run that the database knows. A signature
 * covers the whole request, so that nobody without the secret of the cluster can have another checkpoint sampled, another
 * problem tried, or a trajectory stored for the keys of a run.
 *
 * The secret is a text that trainers and workers share: one that is given to all of them, or one that the first of them
 * leaves in the database.
 *
 * @since 0.2.0
 */
export * as RunAuthority from "./RunAuthority.js"

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

/**
 * Where workers leave what they sampled, and the trainer finds it: a directory that all of them see, or a database.
 * Messages between them carry keys only.
 *
 * Each trajectory is stored once. A rollout that is delivered twice, or was run by two workers, leaves the result of
 * whichever ended first; everybody reads that one.
 *
 * @since 0.1.0
 */
export * as TrajectoryStore from "./TrajectoryStore.js"
