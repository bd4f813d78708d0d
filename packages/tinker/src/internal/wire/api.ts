/**
 * Parts that endpoints of the `Api` share.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { wireVersion } from "../../TinkerConfig.js"
import { AccessScope } from "../../wire/TrainingRun.js"
import { required } from "./json.js"

/** @internal */
export const startup = { pool: "session", retry: "startup" } as const

/** @internal */
export const training = { pool: "training", retry: "submit" } as const

/** The service counts who still calls what before it retires an endpoint: it asks for our version and method. */
const sdk = (method: string) => ({ "x-sdk-version": wireVersion, "x-sdk-method": method })

/** @internal */
export const read = (method: string) => ({ pool: "rest", retry: "restRead", headers: sdk(method) }) as const

/** @internal */
export const write = (method: string) => ({ pool: "rest", retry: "restWrite", headers: sdk(method) }) as const

/** @internal */
export const Nothing = Schema.Struct({})

/** @internal */
export const Page = {
  limit: Schema.NumberFromString,
  offset: Schema.NumberFromString
}

/** @internal */
export const Scope = required(AccessScope, "access_scope")
