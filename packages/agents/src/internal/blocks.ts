/**
 * Deltas of an answer grouped in blocks, as the AI SDK and `@effect/ai` both stream them.
 */
import type * as AgentModel from "../AgentModel.js"

type Kind = "text" | "reasoning"

/** @internal */
export type BlockPart =
  | { readonly type: `${Kind}-start`; readonly id: string }
  | { readonly type: `${Kind}-delta`; readonly id: string; readonly delta: string }
  | { readonly type: `${Kind}-end`; readonly id: string }

/** Opens a block with the first delta of a kind, and closes it when anything else follows. @internal */
export const make = () => {
  let open: { readonly id: string; readonly kind: Kind } | undefined
  let count = 0
  const close = (): Array<BlockPart> => {
    if (open === undefined) return []
    const { id, kind } = open
    open = undefined
    return [{ type: `${kind}-end`, id }]
  }
  return {
    close,
    write: ({ _tag, text }: Exclude<AgentModel.Delta, { readonly _tag: "ToolCall" }>): Array<BlockPart> => {
      const kind = _tag === "Text" ? "text" : "reasoning"
      if (open?.kind === kind) return [{ type: `${kind}-delta`, id: open.id, delta: text }]
      const closed = close()
      const id = String(count++)
      open = { id, kind }
      return [...closed, { type: `${kind}-start`, id }, { type: `${kind}-delta`, id, delta: text }]
    }
  }
}
