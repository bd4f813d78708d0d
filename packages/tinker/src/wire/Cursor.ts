/**
 * Where a page of a list stands.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { lenient, required } from "../internal/wire/json.js"

/**
 * Where a page stands in its list. There is more when `offset + limit < totalCount`.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Cursor extends Schema.Class<Cursor>("effect-tinker/Cursor")({
  offset: Schema.Int,
  limit: Schema.Int,
  totalCount: required(Schema.Int, "total_count")
}, lenient) {}

/**
 * The offset of the next page, if there is one.
 *
 * @since 0.1.0
 * @category combinators
 */
export const nextOffset = (cursor: Cursor): number | undefined => {
  const next = cursor.offset + cursor.limit
  return cursor.limit > 0 && next < cursor.totalCount ? next : undefined
}
