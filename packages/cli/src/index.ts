/**
 * The `tinker` command: how a command line becomes output and an exit code.
 *
 * @since 0.1.0
 */
export * as Cli from "./Cli.js"
