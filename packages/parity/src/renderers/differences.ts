/**
 * Where our renderers differ from the official ones on purpose. An entry that explains nothing any more fails the suite.
 */

/** What a conversation has, as far as differences depend on it. */
export interface Facts {
  readonly hasTools: boolean
  readonly hasSystem: boolean
  readonly calledTools: boolean
  /** Two answers of tools in a row. */
  readonly toolRuns: boolean
  /** How many questions it has. */
  readonly rounds: number
  readonly answers: number
  readonly reasoned: boolean
  readonly silentAnswer: boolean
  readonly lastIsSilent: boolean
  /** Arguments of calls hold `true`, `false` or `null`. */
  readonly constants: boolean
  readonly nonAscii: boolean
  /** Of the turn that is continued. */
  readonly isTruncated: boolean
  readonly followedByUser: boolean
  readonly turnReasoned: boolean
  readonly turnCalls: boolean
  readonly historyReasoned: boolean
}

export interface Explained {
  readonly oracle: "cookbook" | "renderers"
  readonly check:
    | "prompt"
    | "example"
    | "weights"
    | "stop"
    | "extends"
    | "parsed"
    | "next"
    | "only we continue"
    | "only they continue"
  readonly renderers: RegExp
  readonly when: (facts: Facts) => boolean
  readonly why: string
}

export const explained: ReadonlyArray<Explained> = []
