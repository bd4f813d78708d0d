/**
 * Paths within a working directory.
 *
 * @since 0.2.0
 */

/**
 * Whether a path is relative and stays within, without resolving anything.
 *
 * @internal
 */
export const isPath = (path: string): boolean =>
  path.length > 0 && path.length <= 1024 && !/[\p{Cc}\\]/u.test(path) &&
  path.split("/").every((segment) => segment !== "" && segment !== "." && segment !== "..")
