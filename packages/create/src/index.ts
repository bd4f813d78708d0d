/**
 * The command: takes its choices from options or asks for them, writes the project, installs its packages and says what to
 * type next.
 *
 * @since 0.1.0
 */
export * as Create from "./Create.js"

/**
 * A project that trains a model: the choices, and the files that a choice makes. A project is made of folders of
 * `templates/`, of which a later one replaces files of an earlier one, and of a `package.json` and a README.
 *
 * @since 0.1.0
 */
export * as Project from "./Project.js"
