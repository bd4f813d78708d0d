/**
 * What the clients of one `ServiceClient` are made from: its session, the way to the server, and the numbers the session
 * hands out.
 *
 * @since 0.1.0
 */
import type * as ApiClient from "../transport/apiClient.js"
import * as Startup from "../transport/startup.js"
import type * as Session from "./session.js"

/** @internal */
export interface ServiceContext extends Pick<Session.Session, "sessionId" | "clientConfig" | "dynamicConfig"> {
  readonly api: ApiClient.Service
  readonly budgets: Startup.Budgets
  readonly nextModelSeqId: () => number
  readonly nextSamplingSessionSeqId: () => number
  readonly nextCustomLossSeqId: () => number
}

/** @internal */
export const make = (api: ApiClient.Service, session: Session.Session): ServiceContext => {
  let models = 0
  let samplers = 0
  let losses = 0
  return {
    sessionId: session.sessionId,
    clientConfig: session.clientConfig,
    dynamicConfig: session.dynamicConfig,
    api,
    budgets: Startup.budgets(api),
    nextModelSeqId: () => models++,
    nextSamplingSessionSeqId: () => samplers++,
    nextCustomLossSeqId: () => losses++
  }
}
