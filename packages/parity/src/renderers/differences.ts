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
    /** A mode of weights that theirs does not have. */
    | "mode"
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

const always = () => true

/** Prompts and examples differ for the same reasons. */
const written = (entry: Omit<Explained, "check">): ReadonlyArray<Explained> => [
  { ...entry, check: "prompt" },
  { ...entry, check: "example" }
]

export const explained: ReadonlyArray<Explained> = [
  ...written({
    oracle: "cookbook",
    renderers: /^qwen3_[58]/,
    when: (facts) => facts.hasTools,
    why: "the cookbook declares tools without the wrapper that the models' templates write around them"
  }),
  ...written({
    oracle: "cookbook",
    renderers: /^(qwen3|nemotron3)/,
    when: (facts) => facts.nonAscii,
    why: "the cookbook escapes other scripts in the arguments of calls, the templates do not"
  }),
  ...written({
    oracle: "cookbook",
    renderers: /^qwen3(_disable_thinking|_instruct|_vl_instruct)?$/,
    when: (facts) => facts.toolRuns,
    why: "the cookbook writes a block for each answer of a round of tools, the templates one for all"
  }),
  ...written({
    oracle: "cookbook",
    renderers: /^qwen3$/,
    when: (facts) => facts.calledTools && facts.reasoned,
    why: "the cookbook drops reasoning within a round of tools, the template after the next question only"
  }),
  ...written({
    oracle: "cookbook",
    renderers: /^qwen3_vl_instruct$/,
    when: (facts) => facts.calledTools,
    why: "the cookbook writes a line break before a call that nothing precedes, the template does not"
  }),
  {
    oracle: "cookbook",
    check: "extends",
    renderers: /^(qwen3_vl_instruct|kimi_k26_preserve_thinking)$/,
    when: always,
    why: "the cookbook claims it for neither; nothing of theirs is rewritten, as the property tests show for ours"
  },
  {
    oracle: "cookbook",
    check: "extends",
    renderers: /^qwen3_5_preserve_thinking$/,
    when: always,
    why: "the cookbook writes silent answers in other tokens than they are sampled in; ours keeps the sampled ones"
  },
  ...written({
    oracle: "cookbook",
    renderers: /^qwen3_5_preserve_thinking$/,
    when: (facts) => facts.silentAnswer,
    why:
      "the cookbook leaves out the empty block of a silent answer before a later question; keeping it keeps the prefix"
  }),
  ...written({
    oracle: "cookbook",
    renderers: /^gpt_oss/,
    when: (facts) => facts.hasTools,
    why: "ours declares tools as the model's template does, in one system message; the cookbook writes a second one"
  }),
  ...written({
    oracle: "cookbook",
    renderers: /^deepseekv3/,
    when: (facts) => facts.calledTools,
    why:
      "the template ends an answer that calls tools, and does not reason again after them; the cookbook the other way"
  }),
  ...written({
    oracle: "cookbook",
    renderers: /^gpt_oss/,
    when: (facts) => facts.reasoned && facts.answers > 1,
    why: "the cookbook keeps the analysis of earlier answers, the template drops it after the next question"
  }),
  {
    oracle: "cookbook",
    check: "mode",
    renderers: /^tml_v0$/,
    when: always,
    why: "the cookbook has three of the seven modes of weights for Inkling"
  },
  {
    oracle: "cookbook",
    check: "example",
    renderers: /^tml_v0$/,
    when: (facts) => facts.calledTools,
    why: "in the customized mode the cookbook ends Inkling's example with the last message that it trains"
  },
  {
    oracle: "cookbook",
    check: "weights",
    renderers: /^tml_v0$/,
    when: always,
    why:
      "in the customized mode the cookbook trains Inkling's answers only; ours whatever is marked, as everywhere else"
  },
  {
    oracle: "cookbook",
    check: "parsed",
    renderers: /^tml_v0$/,
    when: always,
    why: "an answer with two ends is malformed, as in every other format; tml-renderers reads the first"
  },
  {
    oracle: "cookbook",
    check: "parsed",
    renderers: /^gpt_oss/,
    when: always,
    why: "the cookbook leaves control tokens in the text of an answer that names no channel"
  },
  {
    oracle: "renderers",
    check: "prompt",
    renderers: /^qwen3_(5_)?disable_thinking$/,
    when: (facts) => facts.answers > 1,
    why: "`renderers` keeps the empty block in the history for stability, where the template drops it"
  },
  {
    oracle: "renderers",
    check: "only they continue",
    renderers: /disable_thinking$/,
    when: always,
    why: "`renderers` keeps the empty block in the history; the template drops it, so ours wants `history: \"sampled\"`"
  },
  {
    oracle: "renderers",
    check: "only they continue",
    renderers: /^qwen3$/,
    when: (facts) => !facts.followedByUser,
    why: "the answer closed an empty block of reasoning, which the template does not write once it is history"
  },
  {
    oracle: "renderers",
    check: "prompt",
    renderers: /^nemotron3$/,
    when: (facts) => facts.calledTools && facts.reasoned,
    why: "a call that only dropped reasoning precedes: the cookbook, which ours follows, writes no line break before it"
  },
  {
    oracle: "renderers",
    check: "only they continue",
    renderers: /^minimax_m2$/,
    when: (facts) => !facts.turnReasoned,
    why:
      "the prompt opens the reasoning, and history shows no empty block; `renderers` keeps it within a round of tools"
  },
  {
    oracle: "renderers",
    check: "only we continue",
    renderers: /./,
    when: (facts) => facts.followedByUser && !facts.turnReasoned,
    why: "`renderers` refuses every new question; ours only where there is reasoning that the template would drop"
  },
  {
    oracle: "renderers",
    check: "only we continue",
    renderers: /./,
    when: (facts) => facts.followedByUser && facts.isTruncated,
    why: "the answer was cut before it said anything in its reasoning: there is nothing the template would drop"
  },
  {
    oracle: "renderers",
    check: "only we continue",
    renderers: /^nemotron3_ultra_medium_thinking$/,
    when: (facts) => !facts.followedByUser,
    why:
      "`renderers` never continues where the last question names an effort; within a round of tools it stays where it is"
  },
  {
    oracle: "renderers",
    check: "only they continue",
    renderers: /^kimi_k25$/,
    when: (facts) => facts.isTruncated && !facts.followedByUser,
    why:
      "an answer that was cut short calls no tool, so the template takes it for a finished one and drops its reasoning"
  },
  {
    oracle: "renderers",
    check: "parsed",
    renderers: /./,
    when: (facts) => facts.constants,
    why: "`renderers` reads arguments by the tool's schema and refuses Python's constants; ours reads what is written"
  },
  {
    oracle: "renderers",
    check: "prompt",
    renderers: /^qwen3_6_preserve_thinking$/,
    when: (facts) => facts.silentAnswer,
    why: "the same text in other tokens: ours keeps a silent answer as it is sampled after the opened block"
  },
  {
    oracle: "renderers",
    check: "prompt",
    renderers: /^qwen3_/,
    when: (facts) => facts.calledTools,
    why: "the same text in other tokens: `renderers` encodes the line break before a call apart from the text before it"
  },
  {
    oracle: "renderers",
    check: "prompt",
    renderers: /^kimi_k25/,
    when: (facts) => !facts.hasSystem,
    why: "the cookbook, which ours follows, writes the default system message that K2.5's template has dropped"
  },
  {
    oracle: "renderers",
    check: "next",
    renderers: /^glm5_3/,
    when: (facts) => facts.isTruncated,
    why:
      "`renderers` closes an answer that was cut short with the end of text before the next header; ours with the header"
  },
  {
    oracle: "renderers",
    check: "only they continue",
    renderers: /^glm5_3/,
    when: (facts) => facts.isTruncated,
    why: "a call that was cut short is no call, so no answer of a tool follows it; `renderers` closes it all the same"
  }
]
