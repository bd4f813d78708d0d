import "./requiresEffect3.js"

/**
 * Who the credential belongs to.
 *
 * @since 0.1.0
 */
export * as Account from "./wire/Account.js"

/**
 * Every endpoint of the service, once, as data. Clients call through it and a compatible server routes from it.
 *
 * @since 0.1.0
 */
export * as Api from "./wire/Api.js"

/**
 * The audit log of an organization.
 *
 * @since 0.1.0
 */
export * as Audit from "./wire/Audit.js"

/**
 * Usage and its costs.
 *
 * @since 0.1.0
 */
export * as Billing from "./wire/Billing.js"

/**
 * Models and limits of a server.
 *
 * @since 0.1.0
 */
export * as Capabilities from "./wire/Capabilities.js"

/**
 * How the server wants its clients to behave: asked for once when a client starts, and again while it runs.
 *
 * @since 0.1.0
 */
export * as ClientConfig from "./wire/ClientConfig.js"

/**
 * Where a page of a list stands.
 *
 * @since 0.1.0
 */
export * as Cursor from "./wire/Cursor.js"

/**
 * A loss registered with the service as a graph of operations, for servers that run custom losses themselves.
 *
 * @since 0.1.0
 */
export * as CustomLossGraph from "./wire/CustomLossGraph.js"

/**
 * One HTTP endpoint as data: what a client calls and a server serves.
 *
 * The request of an endpoint is one flat value. Encoded, the fields named in the path template go into the path, and
 * the others into the query (`GET`, `DELETE`) or the JSON body; binary bodies have their own codec.
 *
 * @since 0.1.0
 */
export * as Endpoint from "./wire/Endpoint.js"

/**
 * A training pass over a batch: which loss, with which settings, and what comes back.
 *
 * @since 0.1.0
 */
export * as ForwardBackward from "./wire/ForwardBackward.js"

/**
 * Operations in two phases on the wire: what is accepted, what a poll returns, and what the poll of a whole sampler
 * returns.
 *
 * @since 0.1.0
 */
export * as Future from "./wire/Future.js"

/**
 * The ids of the service, each with its own branded type. They are strings on the wire and opaque here.
 *
 * @since 0.1.0
 */
export * as Id from "./wire/Id.js"

/**
 * Models in training: creating one, asking about it, unloading it.
 *
 * @since 0.1.0
 */
export * as Model from "./wire/Model.js"

/**
 * Sampling: what is asked for and what comes back.
 *
 * @since 0.1.0
 */
export * as Sample from "./wire/Sample.js"

/**
 * Sampling sessions, which the REST surface calls samplers.
 *
 * @since 0.1.0
 */
export * as Sampler from "./wire/Sampler.js"

/**
 * How tokens are drawn.
 *
 * @since 0.1.0
 */
export * as SamplingParams from "./wire/SamplingParams.js"

/**
 * Sessions: opened by a client, kept alive by heartbeats, finished with a reason.
 *
 * @since 0.1.0
 */
export * as Session from "./wire/Session.js"

/**
 * Searching the sessions of an organization, and the state a session is in.
 *
 * @since 0.1.0
 */
export * as SessionSearch from "./wire/SessionSearch.js"

/**
 * Reports of a client about itself.
 *
 * @since 0.1.0
 */
export * as TelemetryEvent from "./wire/TelemetryEvent.js"

/**
 * The likeliest tokens at every position, as two matrices.
 *
 * @since 0.1.0
 */
export * as TopkLogprobs from "./wire/TopkLogprobs.js"

/**
 * The service's record of a model in training.
 *
 * @since 0.1.0
 */
export * as TrainingRun from "./wire/TrainingRun.js"

/**
 * Saving, loading and copying weights.
 *
 * @since 0.1.0
 */
export * as Weights from "./wire/Weights.js"
