/**
 * What can be wrong with a metrics log, in two lines.
 *
 * @since 0.1.0
 */
import type { PlatformError, SystemError } from "@effect/platform/Error"
import type * as MetricsLog from "effect-tinker/MetricsLog"
import { CliFailure } from "../CliFailure.js"

const isDirectory = (error: SystemError): boolean => /\bEISDIR\b/.test(`${error.description} ${error.message}`)

/** @internal */
export const explain =
  (log: string, ifMissing: string) => (cause: MetricsLog.MalformedLine | PlatformError): CliFailure | PlatformError => {
    if (cause._tag === "MalformedLine") {
      return new CliFailure({ what: cause.message, advice: "A metrics log has one JSON object a line.", cause })
    }
    if (cause._tag === "SystemError" && isDirectory(cause)) {
      return new CliFailure({
        what: `${log} is a directory`,
        advice: "Name the log in it: a file of JSON lines.",
        cause
      })
    }
    if (cause._tag === "SystemError" && cause.reason === "NotFound" && cause.pathOrDescriptor === log) {
      return new CliFailure({ what: `There is no file ${log}`, advice: ifMissing, cause })
    }
    return cause
  }
