/**
 * The processes of this machine, as far as a lock has to know about them.
 *
 * @since 0.2.0
 */
import * as Context from "effect/Context"

/**
 * The id of this process, and whether another one runs. Where there are no processes (a browser), every id is this one's.
 *
 * @since 0.2.0
 * @category services
 */
export class Processes extends Context.Reference<Processes>()("@effect-tinker/platform/Processes", {
  defaultValue: (): { readonly pid: number; readonly isRunning: (pid: number) => boolean } => {
    const { process } = globalThis
    return {
      pid: process?.pid ?? 0,
      isRunning: (pid) => {
        try {
          return pid === 0 || process?.kill(pid, 0) === true
        } catch (error) {
          // it exists, and belongs to another user
          return Object(error).code === "EPERM"
        }
      }
    }
  }
}) {}
