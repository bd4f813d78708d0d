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
 * Trajectories in a bucket of any S3-compatible server: for rollouts with images or long transcripts, of which neither
 * messages nor a database should hear. Workers put each trajectory there themselves, and the trainer reads it.
 *
 * A trajectory is an object, written on the condition that there is none. A server that does not keep to the condition
 * (`If-None-Match`) cannot be used, since a rollout that ran twice would count twice; that is tried when the layer is built.
 *
 * @since 0.2.0
 */
export * as ObjectTrajectoryStore from "./ObjectTrajectoryStore.js"

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
 * A worker: a process that runs rollouts for trainers on other machines. A trainer asks for one directly, or through the
 * cluster's storage where it cannot reach the worker. The worker samples from the policy that the rollout names, and its
 * trajectories are kept in the {@link TrajectoryStore}.
 *
 * - Rollouts are delivered at least once, and stored once.
 * - Workers come and go. What one of them had not finished is given to the others, and a worker that leaves may take a time
 *   of grace to end what it has.
 * - Small results go to the trainer, which stores many in one statement. What no trainer has stored within half a minute,
 *   the worker stores.
 * - Runs share a worker by their weights, whatever each has waiting.
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
 * Where sampled trajectories are kept: a database, a directory that all machines see, or a bucket
 * (`ObjectTrajectoryStore`). Trainers write to a database, many trajectories in one statement; into the other two each
 * worker puts its own, however large.
 *
 * Each trajectory is stored once. A rollout that is delivered twice, or was run by two workers, leaves the result of
 * whichever ended first; everybody reads that one.
 *
 * @since 0.1.0
 */
export * as TrajectoryStore from "./TrajectoryStore.js"

/**
 * What an autoscaler needs to know of a worker: how many rollouts wait and run, how many more it could run, and how many it
 * has ended. As text for Prometheus, and as JSON.
 *
 * @since 0.2.0
 */
export * as WorkerMetrics from "./WorkerMetrics.js"

/**
 * How many workers a rate of rollouts needs, and what is full first: a simulation of trainers, workers, the server they
 * sample from and the database, with figures that `npm run bench -- cluster` measures.
 *
 * Every station is a queue: the server samples for one rollout after the other, a trainer reads one result after the other,
 * and the database commits one batch after the other, beside what waiting workers ask it.
 *
 * @since 0.2.0
 */
export * as WorkerPlan from "./WorkerPlan.js"
