/**
 * Splits a rendered prompt back into the turns it was rendered from, for people to read. It knows the two ways in which
 * nearly all chat formats mark a turn; a prompt in any other format stays in one piece.
 */

/** @internal */
export interface Part {
  readonly role: string
  readonly text: string
}

const formats: ReadonlyArray<RegExp> = [
  /<\|im_start\|>([a-z_]+)\n([\s\S]*?)(?:<\|im_end\|>\n?|$)/g,
  /<\|start_header_id\|>([a-z_]+)<\|end_header_id\|>\n\n([\s\S]*?)(?:<\|eot_id\|>|$)/g
]

/** @internal */
export const split = (text: string): ReadonlyArray<Part> => {
  if (text.trim() === "") return []
  for (const format of formats) {
    const parts: Array<Part> = []
    let end = 0
    for (const found of text.matchAll(format)) {
      const between = text.slice(end, found.index)
      if (between.trim() !== "" && !/^<\|[a-z_]+\|>$/.test(between.trim())) parts.push({ role: "text", text: between })
      parts.push({ role: found[1] ?? "text", text: found[2] ?? "" })
      end = found.index + found[0].length
    }
    if (parts.length === 0) continue
    // The format ends with the header of the answer to come, which has nothing to show yet.
    const last = parts[parts.length - 1]
    return (last?.role === "assistant" && last.text.trim() === "" ? parts.slice(0, -1) : parts).map(tool)
  }
  return [{ role: "prompt", text }]
}

/** Tools answer in the name of the user. */
const tool = (part: Part): Part =>
  /^<tool_response>[\s\S]*<\/tool_response>$/.test(part.text.trim())
    ? { role: "tool", text: part.text.trim().replace(/<\/?tool_response>\n?/g, "").trim() }
    : part
