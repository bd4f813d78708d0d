/**
 * Finds added tokens in text: the longest one starting at the leftmost place, as the Rust implementation does.
 */
import type { AddedToken } from "../AddedToken.js"

interface Node {
  readonly children: Map<number, Node>
  token: AddedToken | undefined
}

/** @internal */
export class AddedTokens {
  private readonly root: Node = { children: new Map(), token: undefined }
  /** Matches a character at which a token may start: skipping to the next candidate is the engine's job, not ours. */
  private readonly firsts: RegExp | undefined

  constructor(tokens: ReadonlyArray<readonly [spelling: string, token: AddedToken]>) {
    const firsts = new Set<string>()
    for (const [spelling, token] of tokens) {
      if (spelling === "") continue
      firsts.add(spelling.charAt(0))
      let node = this.root
      for (let i = 0; i < spelling.length; i++) {
        const code = spelling.charCodeAt(i)
        let child = node.children.get(code)
        if (child === undefined) {
          child = { children: new Map(), token: undefined }
          node.children.set(code, child)
        }
        node = child
      }
      node.token = token
    }
    this.firsts = firsts.size === 0
      ? undefined
      : new RegExp(
        `[${Array.from(firsts, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")}]`,
        "g"
      )
  }

  /** Calls back with each stretch of plain text and each token, in order. Whitespace a token claims is left out. */
  split(text: string, onText: (text: string) => void, onToken: (token: AddedToken) => void): void {
    const firsts = this.firsts
    if (firsts === undefined) {
      if (text !== "") onText(text)
      return
    }
    let start = 0
    let at = 0
    while (at < text.length) {
      firsts.lastIndex = at
      if (!firsts.test(text)) break
      at = firsts.lastIndex - 1
      let node = this.root.children.get(text.charCodeAt(at))
      let found: AddedToken | undefined
      let end = at
      for (let i = at + 1; node !== undefined; i++) {
        if (node.token !== undefined) {
          found = node.token
          end = i
        }
        node = i < text.length ? node.children.get(text.charCodeAt(i)) : undefined
      }
      if (found === undefined) {
        at++
        continue
      }
      let before = text.slice(start, at)
      if (found.lstrip) before = before.trimEnd()
      if (before !== "") onText(before)
      onToken(found)
      start = end
      if (found.rstrip) { while (start < text.length && /\s/.test(text.charAt(start))) start++ }
      at = start
    }
    if (start < text.length) onText(start === 0 ? text : text.slice(start))
  }
}
