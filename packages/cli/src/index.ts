/**
 * The command tree of `tinker`, and how a command line becomes output and an exit code.
 *
 * @since 0.1.0
 */
export * as Cli from "./Cli.js"

/**
 * Failures as people read them: what happened, what to do, and the exit code.
 *
 * @since 0.1.0
 */
export * as CliFailure from "./CliFailure.js"

/**
 * Whether a server is one that Tinker's clients can work with: every part of the service, asked over its own wire.
 *
 * @since 0.1.0
 */
export * as Conformance from "./Conformance.js"

/**
 * The connection flags of a command line: which server, which key, which project, how patient.
 *
 * @since 0.1.0
 */
export * as Connection from "./Connection.js"

/**
 * The part of the Hugging Face Hub's API that an upload needs: who am I, repositories, branches, large files, commits.
 *
 * @since 0.1.0
 */
export * as HuggingFace from "./HuggingFace.js"

/**
 * What the commands print: data on stdout as a table, JSON or one JSON value per line; everything else on stderr.
 *
 * @since 0.1.0
 */
export * as Output from "./Output.js"

/**
 * Progress on stderr, and only when a person can see it.
 *
 * @since 0.1.0
 */
export * as Progress from "./Progress.js"

/**
 * The root of the command tree: the options every command has.
 *
 * @since 0.1.0
 */
export * as Root from "./Root.js"

/**
 * The three standard streams, as the commands see them: what is a terminal, how wide it is, and whether it has colour.
 *
 * @since 0.1.0
 */
export * as Stdio from "./Stdio.js"
