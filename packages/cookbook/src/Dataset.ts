/**
 * Rows to train on: streamed, and resumable from a {@link Position}, which is a value.
 *
 * - Every row carries the position after it. A dataset read from there gives exactly the rows that would have followed.
 * - Shuffles and interleavings are functions of a seed and the epoch, so a position needs no generator's state.
 * - Rows that cannot be used are part of the stream as {@link Skipped}, with the reason and where they stand. Nothing is
 *   dropped in silence.
 *
 * @since 0.1.0
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import { dual } from "effect/Function"
import * as Option from "effect/Option"
import type { Pipeable } from "effect/Pipeable"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { interleave as interleaveRows } from "./internal/dataset/interleave.js"
import * as internal from "./internal/dataset/make.js"
import * as reading from "./internal/dataset/read.js"
import * as shuffling from "./internal/dataset/shuffle.js"
import { split as splitRows } from "./internal/dataset/split.js"
import * as scoped from "./internal/scoped.js"

/**
 * Marks values of this module.
 *
 * @since 0.1.0
 * @category guards
 */
export const TypeId: "~@effect-tinker/cookbook/Dataset" = internal.TypeId

/**
 * The type of {@link TypeId}.
 *
 * @since 0.1.0
 * @category guards
 */
export type TypeId = typeof TypeId

/**
 * Where to read on: the epoch, how many of its rows have been read, and where a file stands. `parts` are the positions of
 * the datasets a combined one reads from.
 *
 * @since 0.1.0
 * @category models
 */
export interface Position {
  readonly epoch: number
  readonly index: number
  readonly offset: number
  readonly parts?: ReadonlyArray<Position> | undefined
}

/**
 * A position as JSON.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Position: Schema.Schema<Position> = Schema.Struct({
  epoch: Schema.NonNegativeInt,
  index: Schema.NonNegativeInt,
  offset: Schema.NonNegativeInt,
  parts: Schema.optional(Schema.Array(Schema.suspend((): Schema.Schema<Position> => Position)))
})

/**
 * The beginning of an epoch, the first by default.
 *
 * @since 0.1.0
 * @category constructors
 */
export const start: (epoch?: number) => Position = internal.start

/**
 * Why a row is not used. `remainder`: too few rows were left for a batch.
 *
 * @since 0.1.0
 * @category models
 */
export type SkipReason = "malformed" | "empty" | "too_long" | "filtered" | "remainder"

/**
 * Fail with it inside {@link mapEffect} to leave a row out.
 *
 * @since 0.1.0
 * @category errors
 */
export class Skip extends Data.TaggedError("Skip")<{
  readonly reason: SkipReason
  readonly detail: string
}> {
  override get message(): string {
    return `${this.reason}: ${this.detail}`
  }
}

/**
 * Where a row comes from: a file or another source, and the number of the row in it, from 0.
 *
 * @since 0.1.0
 * @category models
 */
export interface Origin {
  readonly source: string
  readonly row: number
}

/**
 * A row that is used.
 *
 * @since 0.1.0
 * @category models
 */
export interface Kept<out A> {
  readonly _tag: "Kept"
  readonly value: A
  readonly origin: Origin
  /** The position after it. */
  readonly next: Position
}

/**
 * A row that is not used.
 *
 * @since 0.1.0
 * @category models
 */
export interface Skipped {
  readonly _tag: "Skipped"
  readonly reason: SkipReason
  readonly detail: string
  readonly origin: Origin
  /** The position after it. */
  readonly next: Position
}

/**
 * A row of a dataset.
 *
 * @since 0.1.0
 * @category models
 */
export type Row<A> = Kept<A> | Skipped

/**
 * Rows that can be read by number, which is what a full shuffle needs.
 *
 * @since 0.1.0
 * @category models
 */
export interface Indexed<out A, out E = never, out R = never> {
  readonly size: number
  readonly read: (rows: ReadonlyArray<number>) => Effect.Effect<ReadonlyArray<Row<A>>, E, R>
}

/**
 * Rows to train on.
 *
 * @since 0.1.0
 * @category models
 */
export interface Dataset<out A, out E = never, out R = never> extends Pipeable {
  readonly [TypeId]: TypeId
  /** Rows left in the position's epoch. */
  readonly rows: (from: Position) => Stream.Stream<Row<A>, E, R>
  /** Access by number, where the source has it. */
  readonly indexed: Option.Option<Effect.Effect<Indexed<A, E, R>, E, R | Scope.Scope>>
}

/**
 * The type of a dataset's values.
 *
 * @since 0.1.0
 * @category models
 */
export type Value<D> = D extends Dataset<infer A, infer _E, infer _R> ? A : never

// =============================================================================
// constructors
// =============================================================================

/**
 * A dataset from its rows after a position, and by number where the source can.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: <A, E = never, R = never>(options: {
  readonly rows: (from: Position) => Stream.Stream<Row<A>, E, R>
  readonly indexed?: Effect.Effect<Indexed<A, E, R>, E, R | Scope.Scope> | undefined
}) => Dataset<A, E, R> = internal.make

/**
 * A row that is not used. A long detail is cut.
 *
 * @since 0.1.0
 * @category constructors
 */
export const skipped: (
  why: { readonly reason: SkipReason; readonly detail: string },
  row: { readonly origin: Origin; readonly next: Position }
) => Skipped = internal.skipped

/**
 * A dataset of a source whose rows can be read by number.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromIndexed = <A, E, R>(
  open: Effect.Effect<Indexed<A, E, R>, E, R | Scope.Scope>,
  options?: {
    /** Rows read at a time when they are read in order. Defaults to 1,024. */
    readonly page?: number | undefined
  }
): Dataset<A, E, R> =>
  make<A, E, R>({
    rows: (from) =>
      scoped.stream(Effect.map(open, ({ read, size }) => {
        const slice = (first: number, end: number) => Array.from({ length: end - first }, (_, i) => first + i)
        return internal.pages(read, { size, slice }, from, options?.page ?? 1024)
      })),
    indexed: open
  })

/**
 * Rows that are in memory.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromIterable = <A>(
  values: Iterable<A>,
  options?: { readonly name?: string | undefined }
): Dataset<A> => {
  const list = Array.from(values)
  const source = options?.name ?? "memory"
  return fromIndexed(
    Effect.succeed({
      size: list.length,
      read: (rows) =>
        Effect.sync(() =>
          rows.flatMap((row) => {
            const value = list[row]
            return row < list.length ? [internal.kept(value as A, source, row, start())] : []
          })
        )
    })
  )
}

/**
 * A dataset as it is, or a list as one.
 *
 * @since 0.1.0
 * @category constructors
 */
export const from = <A, E, R>(rows: Dataset<A, E, R> | Iterable<A>): Dataset<A, E, R> =>
  isDataset(rows) ? rows as Dataset<A, E, R> : fromIterable(rows)

/**
 * Rows of a stream that gives the same ones each time. A position is reached by reading up to it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromStream = <A, E, R>(
  values: (epoch: number) => Stream.Stream<A, E, R>,
  options?: { readonly name?: string | undefined }
): Dataset<A, E, R> =>
  make({
    rows: (from) =>
      values(from.epoch).pipe(
        Stream.drop(from.index),
        Stream.zipWithIndex,
        Stream.map(([value, i]) =>
          internal.kept(value, options?.name ?? "stream", from.index + i, internal.after(from, from.index + i + 1))
        )
      )
  })

// =============================================================================
// combinators
// =============================================================================

const mapRows = <A, B, E, R, E2, R2>(
  self: Dataset<A, E, R>,
  f: (row: Row<A>) => Effect.Effect<Row<B>, E2, R2>,
  concurrency: number
): Dataset<B, E | E2, R | R2> =>
  make({
    rows: (from) => Stream.mapEffect(self.rows(from), f, { concurrency }),
    indexed: Option.getOrUndefined(Option.map(self.indexed, (open) =>
      Effect.map(open, ({ read, size }) => ({
        size,
        read: (rows: ReadonlyArray<number>) =>
          Effect.flatMap(read(rows), (found) => Effect.forEach(found, f, { concurrency }))
      }))))
  })

/**
 * Every value by a function.
 *
 * @since 0.1.0
 * @category combinators
 */
export const map: {
  <A, B>(f: (value: A) => B): <E, R>(self: Dataset<A, E, R>) => Dataset<B, E, R>
  <A, E, R, B>(self: Dataset<A, E, R>, f: (value: A) => B): Dataset<B, E, R>
} = dual(
  2,
  <A, E, R, B>(self: Dataset<A, E, R>, f: (value: A) => B): Dataset<B, E, R> => mapOrigin(self, (value) => f(value))
)

/**
 * Every value by a function that also sees where it comes from.
 *
 * @since 0.1.0
 * @category combinators
 */
export const mapOrigin = <A, E, R, B>(
  self: Dataset<A, E, R>,
  f: (value: A, origin: Origin) => B
): Dataset<B, E, R> =>
  mapRows(
    self,
    (row) => Effect.sync((): Row<B> => row._tag === "Kept" ? { ...row, value: f(row.value, row.origin) } : row),
    1
  )

/**
 * Every value by an Effect, in order, so many of them ahead of the reader. A value whose Effect fails with {@link Skip} is
 * skipped; other failures are the dataset's.
 *
 * @since 0.1.0
 * @category combinators
 */
export const mapEffect: {
  <A, B, E2, R2>(
    f: (value: A) => Effect.Effect<B, E2, R2>,
    options?: { readonly lookAhead?: number | undefined }
  ): <E, R>(self: Dataset<A, E, R>) => Dataset<B, E | Exclude<E2, Skip>, R | R2>
  <A, E, R, B, E2, R2>(
    self: Dataset<A, E, R>,
    f: (value: A) => Effect.Effect<B, E2, R2>,
    options?: { readonly lookAhead?: number | undefined }
  ): Dataset<B, E | Exclude<E2, Skip>, R | R2>
} = dual(
  (args) => isDataset(args[0]),
  <A, E, R, B, E2, R2>(
    self: Dataset<A, E, R>,
    f: (value: A) => Effect.Effect<B, E2, R2>,
    options?: { readonly lookAhead?: number | undefined }
  ): Dataset<B, E | Exclude<E2, Skip>, R | R2> =>
    mapRows(
      self,
      (row): Effect.Effect<Row<B>, Exclude<E2, Skip>, R2> =>
        row._tag === "Skipped"
          ? Effect.succeed(row)
          : Effect.matchEffect(f(row.value), {
            onSuccess: (value) => Effect.succeed<Row<B>>({ ...row, value }),
            onFailure: (error) =>
              error instanceof Skip
                ? Effect.succeed<Row<B>>(skipped(error, row))
                : Effect.fail(error as Exclude<E2, Skip>)
          }),
      Math.max(1, options?.lookAhead ?? 8)
    )
)

/**
 * Only the values that pass; the others are skipped as `filtered`.
 *
 * @since 0.1.0
 * @category combinators
 */
export const filter: {
  <A>(
    predicate: (value: A) => boolean,
    detail?: string
  ): <E, R>(self: Dataset<A, E, R>) => Dataset<A, E, R>
  <A, E, R>(self: Dataset<A, E, R>, predicate: (value: A) => boolean, detail?: string): Dataset<A, E, R>
} = dual(
  (args) => isDataset(args[0]),
  <A, E, R>(self: Dataset<A, E, R>, predicate: (value: A) => boolean, detail = "filtered out"): Dataset<A, E, R> =>
    mapEffect(
      self,
      (value) => predicate(value) ? Effect.succeed(value) : Effect.fail(new Skip({ reason: "filtered", detail })),
      { lookAhead: 1 }
    )
)

/**
 * The rows in an order that a seed and the epoch decide: all of them where the source can be read by number, otherwise
 * within windows of so many rows, which are held in memory.
 *
 * @since 0.1.0
 * @category combinators
 */
export const shuffle: {
  (options: {
    readonly seed: number
    readonly window?: number | undefined
  }): <A, E, R>(self: Dataset<A, E, R>) => Dataset<A, E, R>
  <A, E, R>(self: Dataset<A, E, R>, options: {
    readonly seed: number
    /** Shuffle within windows of this many rows even where all could be shuffled. Defaults to 10,000. */
    readonly window?: number | undefined
  }): Dataset<A, E, R>
} = dual(2, <A, E, R>(self: Dataset<A, E, R>, options: {
  readonly seed: number
  readonly window?: number | undefined
}): Dataset<A, E, R> =>
  Option.isSome(self.indexed) && options.window === undefined
    ? shuffling.shuffleAll(self.indexed.value, options.seed)
    : shuffling.shuffleWindows(self, options.seed, Math.max(1, Math.trunc(options.window ?? 10_000))))

/**
 * Two datasets of one: so large a share of the rows, chosen by a seed and their numbers, and the rest. A row is in the
 * same one in every epoch and every run.
 *
 * @since 0.1.0
 * @category combinators
 */
export const split: <A, E, R>(
  self: Dataset<A, E, R>,
  options: {
    /** Share of the second dataset, 0 to 1. */
    readonly share: number
    /** Defaults to 0. */
    readonly seed?: number | undefined
  }
) => readonly [rest: Dataset<A, E, R>, share: Dataset<A, E, R>] = splitRows

/**
 * The first rows of each epoch.
 *
 * @since 0.1.0
 * @category combinators
 */
export const take: {
  (count: number): <A, E, R>(self: Dataset<A, E, R>) => Dataset<A, E, R>
  <A, E, R>(self: Dataset<A, E, R>, count: number): Dataset<A, E, R>
} = dual(2, <A, E, R>(self: Dataset<A, E, R>, count: number): Dataset<A, E, R> =>
  make({
    rows: (from) => Stream.take(self.rows(from), Math.max(0, count - from.index)),
    indexed: Option.getOrUndefined(Option.map(self.indexed, (open) =>
      Effect.map(open, (indexed) => ({ ...indexed, size: Math.min(indexed.size, count) }))))
  }))

/**
 * Several datasets as one: which of them the next row comes from is decided by the weights, the seed and the number of the
 * row. An epoch ends with the first dataset that is exhausted, or with `all` when each has been read whole.
 *
 * @since 0.1.0
 * @category combinators
 */
export const interleave = <const Sources extends ReadonlyArray<Dataset<unknown, unknown, unknown>>>(
  sources: Sources,
  options?: {
    /** One for each dataset. Defaults to equal ones. */
    readonly weights?: { readonly [K in keyof Sources]: number } | undefined
    /** Defaults to 0. */
    readonly seed?: number | undefined
    /** Defaults to `first`. */
    readonly until?: "first" | "all" | undefined
  }
): Dataset<
  Value<Sources[number]>,
  Sources[number] extends Dataset<infer _A, infer E, infer _R> ? E : never,
  Sources[number] extends Dataset<infer _A, infer _E, infer R> ? R : never
> => {
  type A = Value<Sources[number]>
  type E = Sources[number] extends Dataset<infer _A, infer E, infer _R> ? E : never
  type R = Sources[number] extends Dataset<infer _A, infer _E, infer R> ? R : never
  return interleaveRows(sources as ReadonlyArray<unknown> as ReadonlyArray<Dataset<A, E, R>>, options)
}

/**
 * Whether something is a {@link Dataset}.
 *
 * @since 0.1.0
 * @category guards
 */
export const isDataset: (u: unknown) => u is Dataset<unknown, unknown, unknown> = internal.isDataset

// =============================================================================
// reading
// =============================================================================

/**
 * Where to begin and how many epochs to read in all.
 *
 * @since 0.1.0
 * @category models
 */
export interface ReadOptions {
  /** Defaults to the beginning. */
  readonly from?: Position | undefined
  /** Defaults to 1. */
  readonly epochs?: number | undefined
}

/**
 * The rows of all epochs, those that are skipped among them.
 *
 * @since 0.1.0
 * @category combinators
 */
export const rows: <A, E, R>(
  self: Dataset<A, E, R>,
  options?: ReadOptions
) => Stream.Stream<Row<A>, E, R> = reading.rows

/**
 * The values alone. Nothing says what was skipped: see {@link rows} and {@link inspect}.
 *
 * @since 0.1.0
 * @category combinators
 */
export const values = <A, E, R>(self: Dataset<A, E, R>, options?: ReadOptions): Stream.Stream<A, E, R> =>
  Stream.filterMap(rows(self, options), (row) => row._tag === "Kept" ? Option.some(row.value) : Option.none())

/**
 * Values that are trained on together.
 *
 * @since 0.1.0
 * @category models
 */
export interface Batch<out A> {
  readonly epoch: number
  readonly items: ReadonlyArray<A>
  /** Rows skipped since the batch before. */
  readonly skipped: ReadonlyArray<Skipped>
  /** The position after it. */
  readonly next: Position
}

/**
 * The values in batches of one epoch each. What is left at the end of an epoch and is too little for a batch is skipped
 * as `remainder`, unless `partial` is `keep`. A last batch without items reports what was skipped after the last full one.
 *
 * @since 0.1.0
 * @category combinators
 */
export const batches: <A, E, R>(
  self: Dataset<A, E, R>,
  options: ReadOptions & {
    readonly size: number
    /** Defaults to `drop`. */
    readonly partial?: "drop" | "keep" | undefined
  }
) => Stream.Stream<Batch<A>, E, R> = reading.batches

/**
 * Result of reading a dataset once.
 *
 * @since 0.1.0
 * @category models
 */
export interface Inspection {
  readonly kept: number
  readonly skipped: Readonly<Partial<Record<SkipReason, number>>>
  /** The first rows of each reason. */
  readonly examples: ReadonlyArray<Skipped>
}

/**
 * How many rows of each reason.
 *
 * @since 0.1.0
 * @category combinators
 */
export const countSkipped = (skipped: Iterable<Skipped>): Readonly<Partial<Record<SkipReason, number>>> => {
  const counts: Partial<Record<SkipReason, number>> = {}
  for (const { reason } of skipped) counts[reason] = (counts[reason] ?? 0) + 1
  return counts
}

/**
 * Which row was skipped and why, for people to read: rows are numbered from 1, as an editor numbers lines.
 *
 * @since 0.1.0
 * @category combinators
 */
export const describeSkipped = ({ detail, origin, reason }: Skipped): string =>
  `row ${origin.row + 1}: ${reason.replace("_", " ")}: ${detail.replace(/\s+/g, " ")}`

/**
 * Reads one epoch and counts what is kept and what is skipped, with some examples of each reason.
 *
 * @since 0.1.0
 * @category combinators
 */
export const inspect: <A, E, R>(
  self: Dataset<A, E, R>,
  options?: {
    /** Examples of each reason. Defaults to 5. */
    readonly examples?: number | undefined
  }
) => Effect.Effect<Inspection, E, R> = reading.inspect
