/**
 * A renderer on a model's own chat template: it can prompt, and read text.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type * as ChatTemplate from "../../ChatTemplate.js"
import * as Message from "../../Message.js"
import type { Renderer } from "../../Renderer.js"
import type { Tokenizer } from "../../Tokenizer.js"
import { CannotContinue, RenderFailed } from "../../TokenizerError.js"
import { parseWith, tokenParser } from "./make.js"
import { scanner } from "./scan.js"

/** @internal */
export interface TemplateOptions {
  readonly variables?: Readonly<Record<string, unknown>> | undefined
  readonly tools?: ReadonlyArray<Message.ToolSpec> | undefined
}

/** @internal */
export const fromTemplate = (
  template: ChatTemplate.ChatTemplate,
  tokenizer: Tokenizer,
  options: TemplateOptions | undefined
): Renderer => {
  const refuse = new RenderFailed({
    renderer: "template",
    description: "a template cannot say which tokens to train on; use a renderer of the model's family"
  })
  const eos = Option.flatMap(tokenizer.specialTokens.eos, tokenizer.tokenToId)
  const stop = Option.toArray(eos)
  const parser = tokenParser(tokenizer, new Set(stop), () => scanner({ _tag: "plain" }))
  return {
    name: "template",
    tokenizer,
    stop,
    extends: false,
    images: false,
    generationPrompt: (messages, prompt) =>
      messages.some((message) => Message.images(message).length > 0)
        ? Effect.fail(
          new RenderFailed({
            renderer: "template",
            description: "a template does not say how many tokens an image takes; use a renderer of the model's family"
          })
        )
        : template.render(messages.map(Message.toTemplate), {
          addGenerationPrompt: true,
          variables: options?.variables,
          tools: options?.tools?.map((tool) => ({ type: "function", function: tool }))
        }).pipe(
          // templates write the beginning-of-text themselves
          Effect.map((text) => tokenizer.encode(text + (prompt?.prefill ?? ""), { addSpecialTokens: false }))
        ),
    supervised: () => Effect.fail(refuse),
    supervisedAll: () => Effect.fail(refuse),
    toolMessages: () =>
      Effect.fail(
        new RenderFailed({ renderer: "template", description: "give the tools to Renderer.fromTemplate instead" })
      ),
    continue: () =>
      Either.left(
        new CannotContinue({
          renderer: "template",
          reason: "Unsupported",
          description: "a template does not say what it does to history; use a renderer of the model's family"
        })
      ),
    parser,
    parse: parseWith(parser)
  }
}
