/**
 * The gateway behind a port of this machine. Safe by default: loopback only, a key that cannot be guessed, and no requests
 * from web pages or under foreign host names.
 *
 * @since 0.1.0
 */
import * as Entropy from "@effect-tinker/platform/Entropy"
import * as HostGuard from "@effect-tinker/platform/HostGuard"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import type * as HttpApp from "@effect/platform/HttpApp"
import type * as HttpServerError from "@effect/platform/HttpServerError"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Http from "node:http"
import * as Agent from "./Agent.js"
import * as AgentModel from "./AgentModel.js"
import * as Gateway from "./Gateway.js"
import { invalid, refuse } from "./internal/openai/common.js"
import * as Recorder from "./Recorder.js"

/**
 * Where to listen, and whom to serve.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options extends Omit<Gateway.Options, "apiKey"> {
  /** Defaults to any free port. */
  readonly port?: number | undefined
  /** Defaults to `127.0.0.1`, which other machines cannot reach. */
  readonly host?: string | undefined
  /** Host names under which the gateway may be addressed besides loopback names and IP addresses. Defaults to none. */
  readonly allowHosts?: ReadonlyArray<string> | undefined
  /** Key that callers send as a bearer token or as `x-api-key`. Defaults to a random key. */
  readonly apiKey?: Redacted.Redacted | undefined
  /** Accepts requests without a key, from anyone who can reach the port. Defaults to false. */
  readonly open?: boolean | undefined
}

/**
 * A gateway that is listening.
 *
 * @since 0.1.0
 * @category models
 */
export interface Running {
  /** The address, without a path. OpenAI clients take `${url}/v1`, Anthropic's client takes it as it is. */
  readonly url: string
  readonly port: number
  /** Bearer token to send; with `open`, any. */
  readonly apiKey: Redacted.Redacted
  /** The base URL that OpenAI clients take for one rollout. */
  readonly rolloutUrl: (rollout: string) => string
  /** The base URL that Anthropic's client takes for one rollout: it adds `/v1` itself. */
  readonly anthropicUrl: (rollout: string) => string
  /** The key for an agent: it samples for one rollout, and does nothing else. */
  readonly rolloutKey: (rollout: string) => Effect.Effect<Redacted.Redacted>
}

/**
 * The gateway of a layer.
 *
 * @since 0.1.0
 * @category services
 */
export class NodeGateway extends Context.Tag("@effect-tinker/agents/NodeGateway")<NodeGateway, Running>() {}

/** Agents are not web pages: what a browser sends is refused by its `Origin`. */
const guarded = (app: HttpApp.Default, options: Options): HttpApp.Default => {
  const isOurs = HostGuard.make({ host: options.host, allow: options.allowHosts })
  return Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) => {
    const name = Option.getOrElse(HostGuard.nameOf(headers["host"]), () => "")
    if (!isOurs(name)) {
      return Effect.succeed(refuse(invalid(`Host ${name} is not allowed; name it in allowHosts`, { status: 403 })))
    }
    return headers["origin"] === undefined
      ? app
      : Effect.succeed(refuse(invalid("web pages may not call the gateway", { status: 403 })))
  })
}

/**
 * Listens until the scope is closed, over the model and the recorder in the context.
 *
 * @since 0.1.0
 * @category constructors
 */
export const serve: (
  options: Options
) => Effect.Effect<Running, HttpServerError.ServeError, AgentModel.AgentModel | Recorder.Recorder | Scope.Scope> =
  Effect
    .fnUntraced(function*(options) {
      const apiKey = options.apiKey ?? Redacted.make(`ag-${yield* Entropy.hex(32)}`)
      const { app, reportRest } = yield* Gateway.makeWithRoutes({
        ...options,
        apiKey: options.open === true ? undefined : apiKey
      })
      yield* Effect.addFinalizer(() => reportRest)
      const host = options.host ?? "127.0.0.1"
      // Connections are closed late: by then, no client is about to send a request on one that is idle (a tool may take its
      // time), and none has sent a request that waits to be read (hundreds may arrive at once on a busy machine).
      const server = () => Http.createServer({ keepAliveTimeout: 60_000, headersTimeout: 300_000 })
      const http = yield* NodeHttpServer.make(server, { port: options.port ?? 0, host })
      yield* http.serve(guarded(app, options))
      const port = http.address._tag === "TcpAddress" ? http.address.port : 0
      const reachable = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host
      const url = `http://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`
      return {
        url,
        port,
        apiKey,
        rolloutUrl: (rollout) => `${url}/rollouts/${rollout}/v1`,
        anthropicUrl: (rollout) => `${url}/rollouts/${rollout}`,
        rolloutKey: (rollout) => Gateway.rolloutKey(apiKey, rollout)
      }
    })

/**
 * A gateway for as long as the layer lives.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: Options
): Layer.Layer<NodeGateway, HttpServerError.ServeError, AgentModel.AgentModel | Recorder.Recorder> =>
  Layer.scoped(NodeGateway, serve(options))

/**
 * Context of a run of the agent.
 *
 * @since 0.1.0
 * @category models
 */
export interface RunContext {
  /** The address for clients of OpenAI's API, and for the AI SDK's of any API. */
  readonly baseURL: string
  /** The address for Anthropic's own client, which adds `/v1` itself. */
  readonly anthropicBaseURL: string
  readonly apiKey: string
  /** Aborted when the run is over before the agent is. */
  readonly signal: AbortSignal
}

/**
 * An agent that calls its model by OpenAI's API or Anthropic's, to be trained: only the URL and the key of its client change. Each run has
 * its own gateway on loopback for as long as it lasts.
 *
 * @example
 * ```ts
 * import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
 * import OpenAI from "openai"
 *
 * export default NodeGateway.agent({
 *   tasks: [{ question: "2+3", answer: "5" }],
 *   run: async ({ question }, { apiKey, baseURL, signal }) => {
 *     const client = new OpenAI({ apiKey, baseURL })
 *     const messages = [{ role: "user" as const, content: question }]
 *     const { choices } = await client.chat.completions.create({ model: "any", messages }, { signal })
 *     return choices[0]?.message.content ?? ""
 *   },
 *   score: ({ answer }, text) => text.includes(answer)
 * })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const agent = <Task, Result, E = never, R = never, ED = never, RD = never>(
  options: Agent.Definition<Task, Result, E, R, ED, RD> & {
    readonly run: (task: Task, context: RunContext) => PromiseLike<Result>
  }
): Agent.Agent<Task, Result, E, R, ED, RD> =>
  Agent.make({
    ...options,
    run: (task, { model, signal }) =>
      Effect.gen(function*() {
        // what a trainer says of its runs is in its metrics
        const onRollout = (report: Gateway.Report) => Effect.logDebug(Gateway.reportLine(report))
        const { rolloutKey, url } = yield* serve({ model: model.renderer.name, onRollout }).pipe(
          Effect.provideService(AgentModel.AgentModel, model),
          Effect.provideServiceEffect(Recorder.Recorder, Recorder.make()),
          Effect.mapError(Agent.failed("run"))
        )
        const apiKey = yield* rolloutKey("run")
        return yield* Effect.tryPromise({
          try: () =>
            options.run(task, { baseURL: `${url}/v1`, anthropicBaseURL: url, apiKey: Redacted.value(apiKey), signal }),
          catch: Agent.failed("run")
        })
      }).pipe(Effect.scoped)
  })
