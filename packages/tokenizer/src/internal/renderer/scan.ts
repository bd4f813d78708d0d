/**
 * Reads sampled text as it arrives: reasoning, text and tool calls.
 */
import type { Parsing } from "./format.js"
import { scanHarmony } from "./scan/harmony.js"
import { scanMarkers } from "./scan/markers.js"
import type { Delta, Scanner } from "./scan/scanner.js"
import { Collector } from "./scan/scanner.js"
import { scanTml } from "./scan/tml.js"

const scanPlain = (): Scanner => {
  const collector = new Collector()
  return {
    push: (text) => {
      const out: Array<Delta> = []
      collector.text(text, out)
      return out
    },
    end: () => [],
    message: () => collector.message()
  }
}

/** @internal */
export const scanner = (parsing: Parsing): Scanner => {
  switch (parsing._tag) {
    case "markers":
      return scanMarkers(parsing.markers, parsing.tools, parsing.startsInThinking)
    case "harmony":
      return scanHarmony()
    case "tml":
      return scanTml()
    default:
      return scanPlain()
  }
}
