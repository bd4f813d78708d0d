/**
 * Facts about a server: those the configuration states, and those its responses have shown. The second are
 * remembered for the tenant, so nothing is probed twice.
 *
 * There are two eras of the wire. `tinker` 0.25 brought `POST /client/dynamic_config` and made protobuf the only form of
 * a pass; a server that has the endpoint therefore reads protobuf, and one that has not may read JSON alone, which every
 * server of the earlier era does. That question is asked anyway before a session opens, so knowing costs nothing.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as TinkerConfig from "../../TinkerConfig.js"
import type * as TinkerError from "../../TinkerError.js"
import * as Logs from "../observability/logs.js"
import type * as Tenants from "./tenants.js"

/** @internal */
export type PassForm = NonNullable<TinkerConfig.Compatibility["passes"]>

interface Found {
  /** Whether `/client/dynamic_config` is there; `undefined` until it was asked for. */
  dynamicConfig: boolean | undefined
  /** Statement about protobuf of servers between the eras. */
  flags: Flags
  /** The form the server took after it had refused the other. */
  settled: PassForm | undefined
  /** Whether loading weights creates a model; `undefined` until it was tried. */
  createsByLoading: boolean | undefined
  /** The server names checkpoints in its routes without their kind. */
  bareNames: boolean
  /** Forms in which a pass was accepted. */
  readonly accepted: Set<PassForm>
  readonly noted: Set<string>
}

interface Flags {
  readonly createModelViaLoadWeights?: boolean | undefined
  readonly protoWriteFwdbwd?: boolean | undefined
  readonly fwdViaFwdbwd?: boolean | undefined
}

const key: Tenants.SharedKey<Found> = {
  make: () => ({
    dynamicConfig: undefined,
    flags: {},
    settled: undefined,
    createsByLoading: undefined,
    bareNames: false,
    accepted: new Set(),
    noted: new Set()
  })
}

/** @internal */
export interface ServerFacts {
  /** Whether the server is of the era before 0.25; `false` until that is known. */
  readonly isEarly: () => boolean
  /** Whether to ask for the dynamic configuration. */
  readonly asksDynamicConfig: () => boolean
  readonly foundDynamicConfig: (present: boolean) => void
  readonly foundFlags: (flags: Flags) => void
  /** Whether a 400 of a poll is the failure of its operation. */
  readonly failedFutureIsBadRequest: () => boolean
  /** Whether a 409 means what it says where no earlier copy of the request can have arrived. */
  readonly firstConflictIsFinal: () => boolean
  /** Longest time of one poll, where it is not the endpoint's. */
  readonly pollTimeout: () => Duration.Duration | undefined
  readonly checksBaseModels: () => boolean
  readonly unloadsModels: () => boolean
  /** Whether routes name a checkpoint without its kind. */
  readonly hasBareNames: () => boolean
  readonly foundBareNames: () => void
  /** Whether one request creates a model and loads its weights, as since 0.38: worth a try until the server has refused. */
  readonly createsByLoading: () => boolean
  readonly refusedToCreateByLoading: () => void
  /** Size of a model's vocabulary, where it is known. */
  readonly vocabularySize: (baseModel: string) => number | undefined
  /** The form to send a pass in. */
  readonly passForm: (forwardOnly: boolean) => PassForm
  /** Whether the form is known to work. */
  readonly isCertain: (form: PassForm) => boolean
  readonly acceptedPass: (form: PassForm) => void
  /** The other form works, this one was refused. */
  readonly settledPasses: (form: PassForm) => void
  /** Whether a failure may mean that the server does not read this form. */
  readonly refusesForm: (form: PassForm, error: TinkerError.TinkerError) => boolean
  /** Logs something about the server once. */
  readonly note: (what: string, message: string) => Effect.Effect<void>
}

/** As long as SkyRL holds a poll, and a little more: servers of the early era do not say how long they hold one. */
const earlyPollTimeout = Duration.seconds(330)

const isRecord = (u: unknown): u is Readonly<Record<string, unknown>> => typeof u === "object" && u !== null

/** FastAPI blames the body as a whole, or a position in its text: it is not JSON to it. */
const blamesWholeBody = (body: unknown): boolean => {
  const detail = isRecord(body) ? body["detail"] : undefined
  if (typeof detail === "string") return /protobuf|pars(e|ing)|content.type|not JSON|UTF-8/i.test(detail)
  return Array.isArray(detail) &&
    detail.some((one) =>
      isRecord(one) && Array.isArray(one["loc"]) && one["loc"][0] === "body" &&
      (one["loc"].length === 1 || one["type"] === "json_invalid")
    )
}

/** @internal */
export const make = (stated: TinkerConfig.Compatibility, tenant: Tenants.Tenant): ServerFacts => {
  const found = tenant.shared(key)
  const isEarly = () => !(stated.dynamicConfig ?? found.dynamicConfig ?? true)
  const isCertain = (form: PassForm) =>
    found.accepted.has(form) || (form === "protobuf" && found.dynamicConfig === true)
  return {
    isEarly,
    asksDynamicConfig: () => stated.dynamicConfig ?? found.dynamicConfig ?? true,
    foundDynamicConfig: (present) => {
      found.dynamicConfig = present
    },
    foundFlags: (flags) => {
      found.flags = flags
    },
    failedFutureIsBadRequest: () => stated.failedFutureIsBadRequest ?? isEarly(),
    firstConflictIsFinal: () => stated.firstConflictIsFinal ?? isEarly(),
    pollTimeout: () => stated.pollTimeout === undefined && isEarly() ? earlyPollTimeout : undefined,
    checksBaseModels: () => stated.checkBaseModel ?? isEarly(),
    unloadsModels: () => stated.unloadModels ?? true,
    hasBareNames: () => found.bareNames,
    foundBareNames: () => {
      found.bareNames = true
    },
    createsByLoading: () => found.createsByLoading ?? found.flags.createModelViaLoadWeights ?? !isEarly(),
    refusedToCreateByLoading: () => {
      found.createsByLoading = false
    },
    vocabularySize: (baseModel) =>
      stated.vocabularySizes !== undefined && Object.hasOwn(stated.vocabularySizes, baseModel)
        ? stated.vocabularySizes[baseModel]
        : undefined,
    passForm: (forwardOnly) => {
      const { fwdViaFwdbwd, protoWriteFwdbwd } = found.flags
      return found.settled ?? stated.passes ??
        (!isEarly() || (protoWriteFwdbwd === true && (!forwardOnly || fwdViaFwdbwd === true)) ? "protobuf" : "json")
    },
    isCertain,
    acceptedPass: (form) => {
      found.accepted.add(form)
    },
    settledPasses: (form) => {
      found.settled = form
    },
    refusesForm: (form, error) => {
      switch (error.status) {
        case 415:
          return true
        case 422:
          return blamesWholeBody(error.body)
        case 404:
        case 405:
          return form === "json" && error._tag === "Unsupported"
        case 400:
        case 500:
          // Where the form is known to work, these are about something else.
          return !isCertain(form) && (error.status === 500 || blamesWholeBody(error.body))
        default:
          return false
      }
    },
    note: (what, message) =>
      Effect.suspend(() => {
        if (found.noted.has(what)) return Effect.void
        found.noted.add(what)
        return Effect.logInfo(message).pipe(Logs.of("ApiClient"))
      })
  }
}
