/**
 * The likeliest tokens at every position, as two matrices.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * The log probability of a cell that holds no token.
 *
 * @since 0.1.0
 * @category models
 */
export const emptyLogprob = -99999

/**
 * The `k` likeliest tokens at each of `length` positions, row by row, likeliest first. A cell with token 0 and log
 * probability {@link emptyLogprob} is empty; a row that starts with one has no candidates at all.
 *
 * @since 0.1.0
 * @category models
 */
export interface TopkLogprobs {
  /** Token ids, `length` × `k`. */
  readonly tokenIds: Int32Array
  /** Their log probabilities, likewise. */
  readonly logprobs: Float32Array
  readonly k: number
  readonly length: number
}

/**
 * A token and its log probability.
 *
 * @since 0.1.0
 * @category models
 */
export type Candidate = readonly [tokenId: number, logprob: number]

/**
 * The candidates at every position, empty cells left out; `null` where a position has none.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toLists = (self: TopkLogprobs): Array<Array<Candidate> | null> => {
  const rows: Array<Array<Candidate> | null> = []
  if (self.k === 0) return rows
  const isEmpty = (cell: number) => self.tokenIds[cell] === 0 && self.logprobs[cell] === emptyLogprob
  for (let row = 0; row < self.length; row++) {
    const start = row * self.k
    if (isEmpty(start)) {
      rows.push(null)
      continue
    }
    let end = start + self.k
    while (end > start && isEmpty(end - 1)) end--
    const candidates: Array<Candidate> = []
    for (let cell = start; cell < end; cell++) {
      candidates.push([self.tokenIds[cell] ?? 0, self.logprobs[cell] ?? emptyLogprob])
    }
    rows.push(candidates)
  }
  return rows
}

/**
 * The matrices of such lists, as wide as the longest of them.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromLists = (rows: ReadonlyArray<ReadonlyArray<Candidate> | null>): TopkLogprobs => {
  // at least one cell in every row, for it to say that there is no candidate
  const k = rows.reduce((most, row) => Math.max(most, row?.length ?? 1), 0)
  const tokenIds = new Int32Array(rows.length * k)
  const logprobs = new Float32Array(rows.length * k).fill(emptyLogprob)
  rows.forEach((row, i) =>
    row?.forEach(([tokenId, logprob], j) => {
      tokenIds[i * k + j] = tokenId
      logprobs[i * k + j] = logprob
    })
  )
  return { tokenIds, logprobs, k, length: rows.length }
}

const isCandidate = (u: unknown): u is Candidate =>
  Array.isArray(u) && u.length === 2 && Number.isInteger(u[0]) && typeof u[1] === "number"

const Lists: Schema.Schema<ReadonlyArray<ReadonlyArray<Candidate> | null>> = Schema.declare(
  (u): u is ReadonlyArray<ReadonlyArray<Candidate> | null> =>
    Array.isArray(u) && u.every((row) => row === null || (Array.isArray(row) && row.every(isCandidate))),
  { identifier: "lists of [token, logprob]" }
)

const FromSelf: Schema.Schema<TopkLogprobs> = Schema.declare(
  (u): u is TopkLogprobs =>
    typeof u === "object" && u !== null && "tokenIds" in u && u.tokenIds instanceof Int32Array && "logprobs" in u &&
    u.logprobs instanceof Float32Array && "k" in u && typeof u.k === "number" && "length" in u &&
    typeof u.length === "number" && u.tokenIds.length === u.k * u.length && u.logprobs.length === u.k * u.length,
  {
    identifier: "TopkLogprobs",
    arbitrary: () => (fc) => {
      const logprob = fc.float({ max: 0, noDefaultInfinity: true, noNaN: true })
      const row = fc.array(fc.tuple(fc.nat(1000), logprob), { minLength: 1, maxLength: 3 })
      return fc.array(fc.option(row), { maxLength: 3 }).map(fromLists)
    }
  }
)

/**
 * Lists in JSON, matrices here.
 *
 * @since 0.1.0
 * @category schemas
 */
export const TopkLogprobs: Schema.Schema<
  TopkLogprobs,
  ReadonlyArray<ReadonlyArray<readonly [number, number]> | null>
> = Schema.transform(Lists, FromSelf, {
  strict: true,
  decode: fromLists,
  encode: toLists
})
