/**
 * Results as plain values: dates for instants, milliseconds for durations, `undefined` for what is not there.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"

/** @internal */
export type Plain<T> = T extends DateTime.DateTime ? Date
  : T extends Duration.Duration ? number
  : T extends Option.Option<infer A> ? Plain<A> | undefined
  : T extends Error | ArrayBufferView | ((...args: ReadonlyArray<never>) => unknown) ? T
  : T extends string ? string extends T ? T : T & string
  : T extends ReadonlyArray<infer A> ? ReadonlyArray<Plain<A>>
  : T extends object ? { readonly [K in keyof T as K extends string ? K : never]: Plain<T[K]> }
  : T

const convert = (value: unknown): unknown => {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value) || value instanceof Error) return value
  if (DateTime.isDateTime(value)) return DateTime.toDateUtc(value)
  if (Duration.isDuration(value)) return Duration.toMillis(value)
  if (Option.isOption(value)) return Option.isSome(value) ? convert(value.value) : undefined
  if (Array.isArray(value)) return value.map(convert)
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, convert(inner)]))
}

/** @internal */
export const plain = <T>(value: T): Plain<T> => convert(value) as Plain<T>

/** @internal */
export async function* each<A, B>(items: AsyncIterable<A>, f: (item: A) => B): AsyncIterable<B> {
  for await (const item of items) yield f(item)
}
