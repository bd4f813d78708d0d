/**
 * What calls have in common: their options, what they accept, how their clients end.
 *
 * @since 0.1.0
 */
/// <reference lib="esnext.disposable" preserve="true" />
import type * as Datum from "../Datum.js"
import type * as Runner from "../internal/promise/runner.js"
import type * as ModelInput from "../ModelInput.js"
import type * as SamplingClient from "../SamplingClient.js"

/**
 * What every call takes.
 *
 * @since 0.1.0
 * @category models
 */
export type CallOptions = Runner.CallOptions

/**
 * What every operation of a model takes.
 *
 * @since 0.1.0
 * @category models
 */
export type OperationOptions = Runner.OperationOptions

/**
 * A client to be closed, by hand or by `await using`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Closing extends AsyncDisposable {
  readonly close: () => Promise<void>
}

/**
 * A datum, or what one is made from.
 *
 * @since 0.1.0
 * @category models
 */
export type DatumInput<Inputs extends string = string> = Datum.With<Inputs> | {
  readonly modelInput: ModelInput.ModelInput | ModelInput.Tokens
  readonly lossFnInputs: Readonly<Record<Inputs, Datum.LossFnInput>>
  /** A datum that says which inputs it has is held to it. */
  readonly "~inputs"?: never
}

/**
 * A prompt, or its tokens.
 *
 * @since 0.1.0
 * @category models
 */
export type PromptInput = SamplingClient.Prompt
