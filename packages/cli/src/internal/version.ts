/**
 * The version alone, so that `tinker version` loads nothing else.
 *
 * @since 0.1.0
 */

/** @internal */
export const version = "0.1.0"
