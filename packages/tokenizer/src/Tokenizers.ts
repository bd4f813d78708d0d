/**
 * Finds, loads and keeps tokenizers by the name of the model.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Tokenizer from "./Tokenizer.js"
import type { TokenizerError } from "./TokenizerError.js"
import { TokenizerMalformed, TokenizerUnsupported } from "./TokenizerError.js"
import { TokenizerFiles } from "./TokenizerFiles.js"
import * as TokenizerId from "./TokenizerId.js"

/**
 * Tokenizers by model name and by repository.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /**
   * The tokenizer of a model, by the rules of `TokenizerId.resolve`. Callers that ask for the same one at once share one
   * load; what was loaded is kept, a failure is not.
   */
  readonly forModel: (
    model: string,
    options?: { readonly tokenizerId?: string | undefined; readonly revision?: string | undefined }
  ) => Effect.Effect<Tokenizer.Tokenizer, TokenizerError>
  /** The tokenizer in a repository. */
  readonly load: (ref: TokenizerId.TokenizerRef) => Effect.Effect<Tokenizer.Tokenizer, TokenizerError>
  /** Answers for a model name, tokenizer id or repository from now on; it is run once, when first asked for. */
  readonly register: (
    name: string,
    tokenizer: Effect.Effect<Tokenizer.Tokenizer, TokenizerError>
  ) => Effect.Effect<void>
}

/**
 * The service that finds, loads and keeps tokenizers.
 *
 * @since 0.1.0
 * @category services
 */
export class Tokenizers extends Context.Tag("@effect-tinker/tokenizer/Tokenizers")<Tokenizers, Service>() {}

/**
 * Size of the cache, and tokenizers known beforehand.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  /** Tokenizers to use for a model name, tokenizer id or repository, instead of looking for files. Defaults to none. */
  readonly registry?: Readonly<Record<string, Effect.Effect<Tokenizer.Tokenizer, TokenizerError>>> | undefined
  /** How many tokenizers are kept; one with a large vocabulary takes about 50 MB. Defaults to 32. */
  readonly capacity?: number | undefined
}

/**
 * The service on the source of files in the context; loads end with the scope.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (options?: Options) => Effect.Effect<Service, never, TokenizerFiles | Scope.Scope> = Effect
  .fnUntraced(function*(options) {
    const files = yield* TokenizerFiles
    const scope = yield* Effect.scope
    const capacity = Math.max(1, options?.capacity ?? 32)
    const registry = new Map(Object.entries(options?.registry ?? {}))
    const kept = new Map<string, Fiber.RuntimeFiber<Tokenizer.Tokenizer, TokenizerError>>()

    // The load belongs to the service, not to the first caller, whose interruption must not end it for the others.
    const shared = (
      key: string,
      load: Effect.Effect<Tokenizer.Tokenizer, TokenizerError>
    ): Effect.Effect<Tokenizer.Tokenizer, TokenizerError> =>
      Effect.uninterruptibleMask((restore) =>
        Effect.suspend(() => {
          const running = kept.get(key)
          if (running !== undefined) {
            // most recently used goes last
            kept.delete(key)
            kept.set(key, running)
            return restore(Fiber.join(running))
          }
          let own: Fiber.RuntimeFiber<Tokenizer.Tokenizer, TokenizerError> | undefined
          return Effect.interruptible(load).pipe(
            Effect.onError(() =>
              Effect.sync(() => {
                if (kept.get(key) === own) kept.delete(key)
              })
            ),
            Effect.forkIn(scope),
            Effect.tap((fiber) => {
              own = fiber
              const exit = fiber.unsafePoll()
              if (exit === null || Exit.isSuccess(exit)) kept.set(key, fiber)
              for (const oldest of kept.keys()) {
                if (kept.size <= capacity) break
                kept.delete(oldest)
              }
            }),
            Effect.flatMap((fiber) => restore(Fiber.join(fiber)))
          )
        })
      )

    const load = (ref: TokenizerId.TokenizerRef) =>
      shared(`${ref.repo}@${ref.revision ?? ""}`, read(ref).pipe(Effect.provideService(TokenizerFiles, files)))

    const registered = (...names: ReadonlyArray<string | undefined>) => {
      for (const name of names) {
        const tokenizer = name === undefined ? undefined : registry.get(name)
        if (tokenizer !== undefined) return Option.some(shared(`registered ${name}`, tokenizer))
      }
      return Option.none()
    }

    return Tokenizers.of({
      load: (ref) => Option.getOrElse(registered(ref.repo), () => load(ref)),
      forModel: (model, options) =>
        Effect.suspend(() => {
          const ref = TokenizerId.resolve(model, options)
          const own = registered(
            options?.tokenizerId,
            ...(options?.tokenizerId === undefined ? [model, TokenizerId.baseName(model)] : []),
            Either.isRight(ref) ? ref.right.repo : undefined
          )
          return Option.isSome(own) ? own.value : Effect.flatMap(ref, load)
        }),
      register: (name, tokenizer) =>
        Effect.sync(() => {
          kept.delete(`registered ${name}`)
          registry.set(name, tokenizer)
        })
    })
  })

/**
 * The service as a layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options?: Options): Layer.Layer<Tokenizers, never, TokenizerFiles> =>
  Layer.scoped(Tokenizers, make(options))

const text = (bytes: Uint8Array): string => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)

const parseJson = (ref: TokenizerId.TokenizerRef, file: string, bytes: Uint8Array) =>
  Effect.try({
    try: (): unknown => JSON.parse(text(bytes)),
    catch: (cause) => new TokenizerMalformed({ ...ref, file, description: "it is not JSON", cause })
  })

/**
 * Reads a tokenizer from the source in the context: `tokenizer.json` where there is one, otherwise Kimi's ranks.
 *
 * @since 0.1.0
 * @category constructors
 */
export const read: (
  ref: TokenizerId.TokenizerRef
) => Effect.Effect<Tokenizer.Tokenizer, TokenizerError, TokenizerFiles> = Effect.fnUntraced(function*(ref) {
  const files = yield* TokenizerFiles
  const main = yield* files.get(ref, "tokenizer.json")
  const at = { repo: ref.repo, revision: Option.getOrElse(main.commit, () => ref.revision) }
  const [config, template] = yield* Effect.all([
    files.get(at, "tokenizer_config.json", { optional: true }),
    files.get(at, "chat_template.jinja", { optional: true })
  ], { concurrency: 2 })
  const shared = {
    id: ref.repo,
    revision: at.revision,
    tokenizerConfig: Option.isSome(config.content)
      ? yield* parseJson(at, "tokenizer_config.json", config.content.value)
      : undefined,
    chatTemplates: Option.isSome(template.content) ? { default: text(template.content.value) } : undefined
  }
  if (Option.isSome(main.content)) {
    const tokenizerJson = yield* parseJson(at, "tokenizer.json", main.content.value)
    return yield* Tokenizer.fromHuggingFace({ ...shared, tokenizerJson })
  }
  const ranks = yield* files.get(at, "tiktoken.model")
  if (Option.isNone(ranks.content) || !ref.repo.includes("Kimi")) {
    return yield* new TokenizerUnsupported({
      ...at,
      description: Option.isNone(ranks.content)
        ? "it has neither tokenizer.json nor tiktoken.model; build a tokenizer yourself and hand it to Tokenizers.register"
        : "its tiktoken.model does not say how text is cut into words; use Tokenizer.fromTiktoken with a pattern"
    })
  }
  return yield* Tokenizer.fromTiktoken({
    ...shared,
    ranks: text(ranks.content.value),
    pattern: Tokenizer.kimiPattern,
    reserved: 256
  })
})
