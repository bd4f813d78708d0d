import { assert, describe, it } from "@effect/vitest"
import { Cursor } from "effect-tinker/wire"

const next = (offset: number, limit: number, totalCount: number) =>
  Cursor.nextOffset(new Cursor.Cursor({ offset, limit, totalCount }))

describe("Cursor", () => {
  it("knows the next page while there is one", () => {
    assert.strictEqual(next(0, 20, 45), 20)
    assert.strictEqual(next(20, 20, 45), 40)
    assert.isUndefined(next(40, 20, 45))
    assert.isUndefined(next(0, 20, 20))
    assert.isUndefined(next(0, 20, 0))
  })

  it("never stands still", () => assert.isUndefined(next(0, 0, 10)))
})
