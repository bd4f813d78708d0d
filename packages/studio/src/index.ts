/**
 * Talking to a model: a base model, or the weights of a checkpoint.
 *
 * @since 0.1.0
 */
export * as CheckpointChat from "./CheckpointChat.js"

/**
 * Summary of a file of training data before any money is spent on it: its lengths, what is trained on, what would be
 * skipped and why, and what a run would cost.
 *
 * {@link measure} counts the rows of a dataset. {@link DataCheck} is how the studio gets at files: which ones there are,
 * and how a model writes their rows.
 *
 * @since 0.1.0
 */
export * as DataCheck from "./DataCheck.js"

/**
 * Files of results that evaluations left, and two of them beside each other.
 *
 * @since 0.2.0
 */
export * as Evaluations from "./Evaluations.js"

/**
 * Grades that runs wait for a person to give. The studio shows what waits and hands over what the person decides; how a
 * run asks and how it learns of a grade is up to the implementation.
 *
 * @since 0.1.0
 */
export * as Grades from "./Grades.js"

/**
 * Runs on an MLflow tracking server, by its REST API: metrics with their steps and times, the configuration as parameters,
 * and how the run stands. Exporting again adds what is new; a run that was resumed from an earlier step since then is
 * replaced, because MLflow keeps every value of a step that it ever got.
 *
 * @since 0.1.0
 */
export * as MLflow from "./MLflow.js"

/**
 * Rollouts of a run, from step to group to rollout to token.
 *
 * Rollouts are large and there are many of them, so what is kept in memory is an index: where each one lies in its file,
 * and its reward. A rollout is read in full when it is opened. Of several attempts at a step the last one counts.
 *
 * All text in here was written by a model, by tools, or by the author of the data: it is shown as text and never
 * interpreted.
 *
 * @since 0.1.0
 */
export * as Rollouts from "./Rollouts.js"

/**
 * Run directories, ours and those of the Python cookbook, read while they are written.
 *
 * A directory with a `journal.jsonl` is a run of `RunLog`; one with a `metrics.jsonl` is a log directory of the Python
 * cookbook or of `MetricsLog`. Every `refresh` reads only what was appended since the last one. Lines that cannot be read
 * are counted and shown, never fatal: a page that shows most of a run beats one that shows none of it.
 *
 * @since 0.1.0
 */
export * as RunDirectory from "./RunDirectory.js"

/**
 * Metrics by step, in columns of typed arrays: what a run's curves are drawn from.
 *
 * A step has one row, whatever the order in which its metrics arrive. A metric that is recorded a second time for a step
 * means that the run was resumed from an earlier checkpoint: the rows after that step are dropped, and the last value
 * counts. Reading a window of a column costs a binary search and one pass, and yields at most as many points as fit on
 * a screen: the lowest and the highest of each bucket, so that a spike is never lost.
 *
 * @since 0.1.0
 */
export * as Series from "./Series.js"

/**
 * The studio: an HTTP application that shows the runs in a directory, live while they are written.
 *
 * Everything it serves needs the token it was started with; it answers to loopback names only, to no other web page, and
 * its own page may load nothing from anywhere else. It only reads, unless its context has more to offer: with a
 * {@link CheckpointChat} people can talk to a checkpoint beside its base model, with {@link Grades} they can grade answers that runs
 * wait for, and with a {@link DataCheck} they can look at training data.
 *
 * @since 0.1.0
 */
export * as Studio from "./Studio.js"

/**
 * TensorBoard event files: the curves of a run in the form that TensorBoard and everything built around it read.
 *
 * A file is a sequence of records. Each has its length, a masked CRC-32C of the length, an `Event` in protobuf, and a
 * masked CRC-32C of that. An event has at most six fields of four kinds, which are written by hand here: a protobuf
 * runtime and generated code would be a dependency of fifty times the size.
 *
 * @since 0.1.0
 */
export * as TensorBoard from "./TensorBoard.js"
