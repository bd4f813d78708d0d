import { AgentModel, type Sampler } from "@effect-tinker/agents"
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import { Effect, Redacted } from "effect"
import { chatRenderer, scripted } from "./chat.js"

/** What the gateway answered. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** A gateway over a sampler, behind a port. */
export const gatewayOver = (sampler: Sampler.Sampler, options?: Partial<NodeGateway.Options>) =>
  Effect.gen(function*() {
    const model = yield* AgentModel.make({ renderer: yield* chatRenderer, sampler })
    return yield* NodeGateway.serve({ model: "m", onRollout: () => Effect.void, ...options }).pipe(
      Effect.provideService(AgentModel.AgentModel, model)
    )
  })

/** A gateway whose model writes these texts in turn. */
export const gateway = (texts: ReadonlyArray<string>, options?: Partial<NodeGateway.Options>) =>
  Effect.gen(function*() {
    return yield* gatewayOver(yield* scripted(yield* chatRenderer, texts), options)
  })

/** A request with a key, the gateway's own unless another is given. */
export const send = (
  { apiKey, url }: Pick<NodeGateway.Running, "apiKey" | "url">,
  path: string,
  body?: unknown,
  init?: { readonly method?: string; readonly headers?: Record<string, string>; readonly key?: Redacted.Redacted }
): Effect.Effect<Answer> =>
  Effect.promise(async (signal) => {
    const response = await fetch(`${url}${path}`, {
      method: init?.method ?? (body === undefined ? "GET" : "POST"),
      headers: { authorization: `Bearer ${Redacted.value(init?.key ?? apiKey)}`, ...init?.headers },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      signal
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  })
