/**
 * Part of the command line that may be kept.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"

/**
 * The words after the program's name, as they were given, but for secrets.
 *
 * @internal
 */
export class RecordedWords
  extends Context.Reference<RecordedWords>()("@effect-tinker/cli/recordedWords/RecordedWords", {
    defaultValue: (): ReadonlyArray<string> => []
  })
{}
