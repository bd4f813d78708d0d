/**
 * @since 0.1.0
 */
import * as Command from "@effect/cli/Command"
import { lazily } from "../internal/lazily.js"

/** @internal */
export const command = Command.make("doctor", {}, lazily(() => import("../actions/doctor.js"), ({ doctor }) => doctor))
  .pipe(
    Command.withDescription("Check version, configuration, key, server and clock, with advice.")
  )
