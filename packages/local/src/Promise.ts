/**
 * The embedded backend for plain async code: the connection of `effect-tinker/Promise`, answered in this process.
 *
 * @since 0.1.0
 */
import { type ConnectOptions, Tinker } from "effect-tinker/Promise"
import * as Layer from "effect/Layer"
import * as TinkerLocal from "./TinkerLocal.js"

/**
 * How to connect.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options extends Omit<ConnectOptions, "layer"> {
  /** How the backend behaves. */
  readonly backend?: TinkerLocal.Options | undefined
}

/** Further services of the connection: `NodeContext.layer` for trainers and downloads, which use files. */
type WithServices<R> = Options & { readonly services: Layer.Layer<R, unknown> }

function connect<R>(options: WithServices<R>): Promise<Tinker<TinkerLocal.Provided | R>>
function connect(options?: Options): Promise<Tinker<TinkerLocal.Provided>>
function connect(
  { backend, services, ...options }: Options & { readonly services?: Layer.Layer<never, unknown> } = {}
): Promise<Tinker<TinkerLocal.Provided>> {
  const local = TinkerLocal.layer(backend)
  return Tinker.connect<TinkerLocal.Provided>({
    baseUrl: TinkerLocal.baseUrl,
    apiKey: TinkerLocal.apiKey,
    ...options,
    layer: services === undefined ? local : Layer.merge(local, services)
  })
}

/**
 * Connects to a new backend, which trains and samples on this machine and keeps its checkpoints in memory. The
 * tokenizers of its models come with it, and whatever `services` provides.
 *
 * @since 0.1.0
 * @category constructors
 */
export const connectLocal: typeof connect = connect
