/**
 * The committed corpus: what the official SDK wrote and read when it was last asked.
 */
import { readFileSync } from "node:fs"

/** One value through one class of the SDK: what came out, or the error it raised. */
export interface Vector {
  readonly type: string
  readonly case: string
  readonly input: unknown
  readonly output?: unknown
  readonly error?: string
}

/** One value through one function of the SDK. */
export interface Outcome<A> {
  readonly output?: A
  readonly error?: string
}

export interface JsonCorpus {
  readonly sdk: string
  readonly vectors: ReadonlyArray<Vector>
}

export interface Span {
  readonly kind: "prompt" | "sampled"
  readonly sequence_id: string
  readonly offset: number
  readonly length: number
}

export interface RequestInput {
  readonly model_id: string
  readonly seq_id?: number
  readonly loss_fn: string
  readonly loss_fn_config?: Readonly<Record<string, number | string>>
  readonly forward_only?: boolean
  readonly data: ReadonlyArray<{
    readonly model_input: unknown
    readonly loss_fn_inputs: unknown
    readonly model_input_spans?: ReadonlyArray<Span>
    readonly loss_fn_input_spans?: ReadonlyArray<Span>
  }>
}

export interface ProtobufCorpus {
  readonly sdk: string
  /** Values to bytes. */
  readonly requests: ReadonlyArray<{ readonly case: string; readonly input: RequestInput } & Outcome<string>>
  /** Bytes to values. */
  readonly samples: ReadonlyArray<{ readonly case: string; readonly input: string } & Outcome<unknown>>
  readonly outputs: ReadonlyArray<{ readonly case: string; readonly input: string } & Outcome<unknown>>
}

export interface HelperCorpus {
  readonly sdk: string
  readonly paths: ReadonlyArray<{ readonly input: string } & Outcome<unknown>>
  readonly urls: ReadonlyArray<
    { readonly function: string; readonly args: ReadonlyArray<string>; readonly output: string }
  >
  readonly inputs: ReadonlyArray<
    { readonly input: unknown; readonly length: Outcome<number>; readonly ints: Outcome<ReadonlyArray<number>> }
  >
  readonly coercions: ReadonlyArray<{ readonly key: string; readonly input: ReadonlyArray<unknown> } & Outcome<unknown>>
  readonly topk: ReadonlyArray<{
    readonly input: {
      readonly token_ids: ReadonlyArray<ReadonlyArray<number>>
      readonly logprobs: ReadonlyArray<ReadonlyArray<number>>
    }
    readonly output: unknown
  }>
  readonly combinations: ReadonlyArray<
    & {
      readonly input: ReadonlyArray<
        { readonly outputs: number; readonly metrics: Readonly<Record<string, number | string>> }
      >
    }
    & Outcome<{
      readonly loss_fn_output_type: string
      readonly loss_fn_outputs: number
      readonly metrics: Readonly<Record<string, number | string>>
    }>
  >
  readonly splits: ReadonlyArray<{
    readonly lengths: ReadonlyArray<number>
    readonly max_chunk_len: number
    readonly max_chunk_bytes: number
    readonly output: ReadonlyArray<{ readonly datums: number; readonly bytes: number }>
  }>
  readonly durations: ReadonlyArray<{ readonly millis: number; readonly output: string }>
}

export interface TypesCorpus {
  readonly sdk: string
  readonly exports: ReadonlyArray<{ readonly name: string; readonly kind: string }>
  readonly enumerations: ReadonlyArray<{ readonly name: string; readonly words: ReadonlyArray<unknown> }>
}

/** A request an official client sent. */
export interface Recorded {
  readonly method: string
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>
  /** JSON, or `{ hex }` of a protobuf message. */
  readonly body?: unknown
}

export interface RecordedCorpus {
  readonly sdk: string
  /** What each method of the clients sends. */
  readonly calls: ReadonlyArray<{ readonly call: string; readonly requests: ReadonlyArray<Recorded> }>
}

/** Directory of the committed corpus. */
export const directory = new URL("../../vectors/", import.meta.url)

/** The files of the corpus, which the Python side writes. */
export const files = [
  "requests.json",
  "responses.json",
  "protobuf.json",
  "helpers.json",
  "recorded.json",
  "types.json"
] as const

const read = <A>(name: string): A => JSON.parse(readFileSync(new URL(name, directory), "utf8")) as A

export const requests = (): JsonCorpus => read("requests.json")
export const responses = (): JsonCorpus => read("responses.json")
export const protobuf = (): ProtobufCorpus => read("protobuf.json")
export const helpers = (): HelperCorpus => read("helpers.json")
export const recorded = (): RecordedCorpus => read("recorded.json")
export const types = (): TypesCorpus => read("types.json")

/** Exports of `tinker.types` that need no vector, each with the reason. */
export const uncovered = (): Readonly<Record<string, string>> => read("uncovered.json")

/** Number of vectors in the corpus: values through classes, messages and functions. */
export const count = (): number =>
  [requests(), responses(), protobuf(), helpers(), recorded()]
    .flatMap((file) => Object.values<unknown>({ ...file }))
    .reduce<number>((sum, value) => sum + (Array.isArray(value) ? value.length : 0), 0)
