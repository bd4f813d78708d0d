/**
 * Answers that end with a string instead of a token.
 */
import { held } from "./scanner.js"

/**
 * Cuts text at a stop string, giving out what cannot be part of it any more.
 *
 * @internal
 */
export const stopString = (stop: string) => {
  let buffer = ""
  let started = false
  let count = 0
  const lead = (text: string): string => {
    if (started || text === "") return text
    started = true
    return text.startsWith(" ") ? text.slice(1) : text
  }
  return {
    push: (text: string): string => {
      if (count > 0) {
        buffer += text
        count = 1 + buffer.split(stop).length - 1
        return ""
      }
      buffer += text
      const at = buffer.indexOf(stop)
      if (at >= 0) {
        const done = lead(buffer.slice(0, at))
        buffer = buffer.slice(at + stop.length)
        count = 1 + buffer.split(stop).length - 1
        return done
      }
      const keep = held(buffer, [stop])
      const done = lead(buffer.slice(0, buffer.length - keep))
      buffer = buffer.slice(buffer.length - keep)
      return done
    },
    /** Text held back; the blank line that ends an answer is not part of it. */
    end: (): string => count > 0 ? "" : lead(buffer.replace(/\n\n$/, "")),
    count: (): number => count
  }
}
