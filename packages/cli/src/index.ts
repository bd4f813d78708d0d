/**
 * The `tinker` command: how a command line becomes output and an exit code.
 *
 * @since 0.1.0
 */
export * as Cli from "./Cli.js"

/**
 * Exports of the modules that `tinker train rl`, `tinker train agent` and `tinker eval` load: environments to act in,
 * agents, and functions that score answers.
 *
 * @since 0.1.0
 */
export * as TrainModule from "./TrainModule.js"
