import { assert, describe, it } from "@effect/vitest"
import { Either, Schema } from "effect"
import { Api, Sample } from "effect-tinker/wire"
import { compareJson, compareValue } from "../src/vectors/compare.js"
import * as corpus from "../src/vectors/corpus.js"
import { deliberate } from "../src/vectors/deliberate.js"
import * as table from "../src/vectors/table.js"

const isRecord = (u: unknown): u is Record<string, unknown> => typeof u === "object" && u !== null && !Array.isArray(u)

const without = (record: Record<string, unknown>, keys: ReadonlyArray<string>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(record).filter(([key]) => !keys.includes(key)))

const byType = (vectors: ReadonlyArray<corpus.Vector>): Map<string, Array<corpus.Vector>> => {
  const groups = new Map<string, Array<corpus.Vector>>()
  for (const vector of vectors) groups.set(vector.type, [...groups.get(vector.type) ?? [], vector])
  return groups
}

const uncovered = corpus.uncovered()

const groups = (vectors: ReadonlyArray<corpus.Vector>) =>
  Array.from(byType(vectors), ([type, cases]) => ({ type, cases, count: cases.length }))
    .filter(({ type }) => uncovered[type] === undefined)

const rowOf = (rows: Readonly<Record<string, table.Row>>, type: string): table.Row => {
  const row = rows[type]
  assert.isDefined(row, `${type} has no Schema`)
  return row
}

const used = new Set<string>()

/** Whether we mean to differ on a vector: to read what Python refuses, or the other way round. */
const isDeliberate = (vector: corpus.Vector, ours: "read" | "refuse"): boolean => {
  const entry = deliberate.find((entry) => entry.ours === ours && entry.vectors.test(`${vector.type}.${vector.case}`))
  if (entry !== undefined) used.add(entry.why)
  return entry !== undefined
}

/** A bare stop text goes out as a list of one. */
const stopAsList = (json: unknown): unknown => {
  if (!isRecord(json)) return json
  const stop = typeof json.stop === "string" ? { stop: [json.stop] } : {}
  const params = isRecord(json.sampling_params) ? { sampling_params: stopAsList(json.sampling_params) } : {}
  return { ...json, ...stop, ...params }
}

describe("requests: values to JSON", () => {
  it.each(groups(corpus.requests().vectors))("$type: $count vectors", ({ cases, type }) => {
    const row = rowOf(table.requests, type)
    const decode = Schema.decodeUnknownEither(row.schema)
    const encode = Schema.encodeSync(row.schema)
    const differences: Array<string> = []
    for (const vector of cases) {
      const input = row.toWire === undefined ? vector.input : row.toWire(vector.input)
      const value = decode(input)
      if (vector.error !== undefined) {
        if (Either.isRight(value) && !isDeliberate(vector, "read")) differences.push(`${vector.case}: not refused`)
        continue
      }
      if (Either.isLeft(value)) {
        if (!isDeliberate(vector, "refuse")) differences.push(`${vector.case}: refused: ${value.left.message}`)
        continue
      }
      const text = JSON.parse(JSON.stringify(encode(value.right)))
      const unset = (row.onlyWhenSet ?? []).filter((key) => !isRecord(vector.input) || vector.input[key] === undefined)
      const expected = isRecord(vector.output)
        ? { ...row.always, ...without(vector.output, unset) }
        : vector.output
      const difference = compareJson(stopAsList(expected), row.fromWire === undefined ? text : row.fromWire(text))
      if (difference !== undefined) differences.push(`${vector.case}: ${difference}`)
    }
    assert.deepStrictEqual(differences, [])
  })
})

describe("sample requests written without their Schema", () => {
  it("are what the Schema writes", () => {
    for (const vector of corpus.requests().vectors) {
      if (vector.type !== "SampleRequest" || vector.output === undefined) continue
      const value = Schema.decodeUnknownEither(Sample.SampleRequest)(vector.input)
      if (Either.isLeft(value)) continue
      const { body } = Either.getOrThrow(Api.asample.encodeRequest(value.right))
      const json: unknown = JSON.parse(JSON.stringify(Schema.encodeSync(Sample.SampleRequest)(value.right)))
      assert.isUndefined(compareJson(json, JSON.parse(String(body))), vector.case)
    }
  })
})

describe("responses: JSON to values", () => {
  it.each(groups(corpus.responses().vectors))("$type: $count vectors", ({ cases, type }) => {
    const row = rowOf(table.responses, type)
    const decode = Schema.decodeUnknownEither(row.schema)
    const encode = Schema.encodeSync(row.schema)
    const differences: Array<string> = []
    for (const vector of cases) {
      const value = decode(vector.input)
      if (vector.error !== undefined) {
        if (Either.isRight(value) && !isDeliberate(vector, "read")) differences.push(`${vector.case}: not refused`)
        continue
      }
      if (Either.isLeft(value)) {
        if (!isDeliberate(vector, "refuse")) differences.push(`${vector.case}: refused: ${value.left.message}`)
        continue
      }
      const difference = compareValue(vector.output, value.right) ??
        // what a server of ours would answer reads back as the same value
        compareValue(
          vector.output,
          Schema.decodeUnknownSync(row.schema)(JSON.parse(JSON.stringify(encode(value.right))))
        )
      if (difference !== undefined) differences.push(`${vector.case}: ${difference}`)
    }
    assert.deepStrictEqual(differences, [])
  })
})

describe.sequential("the exceptions", () => {
  it("are all needed", () => {
    assert.deepStrictEqual(deliberate.filter((entry) => !used.has(entry.why)).map((entry) => entry.why), [])
  })
})
