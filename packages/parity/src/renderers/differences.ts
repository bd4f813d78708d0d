/**
 * Where our renderers differ from the official ones on purpose.
 *
 * An entry about text says what to do to both texts so that they are equal: any other difference in the same conversation is
 * still found. An entry about a decision says in which conversations it is taken, and the suite holds the decision against a
 * whole render of the conversation. An entry that explains nothing any more fails the suite.
 */

/** What a conversation has, as far as differences depend on it. */
export interface Facts {
  readonly hasTools: boolean
  readonly hasSystem: boolean
  readonly hasImages: boolean
  readonly calledTools: boolean
  /** Two answers of tools in a row. */
  readonly toolRuns: boolean
  readonly reasoned: boolean
  readonly silentAnswer: boolean
  readonly answers: number
  /** Of the turn that is continued. */
  readonly isTruncated: boolean
  readonly followedByUser: boolean
  /** How many answers of tools follow it. */
  readonly toolAnswers: number
  readonly turnReasoned: boolean
  readonly turnCalls: boolean
  /** Whether tools answered right before it, and whether their caller said something besides its calls. */
  readonly afterTools: boolean
  readonly callerSpoke: boolean
}

type Oracle = "cookbook" | "renderers"

/** The same text after an edit. */
export interface EqualAfter {
  readonly kind: "text"
  readonly oracle: Oracle
  readonly checks: ReadonlyArray<"prompt" | "example" | "next" | "parsed">
  readonly renderers: RegExp
  readonly when: (facts: Facts) => boolean
  readonly edit: (text: string) => string
  readonly why: string
}

/** Something one side does and the other does not. */
export interface Decided {
  readonly kind: "decision"
  readonly oracle: Oracle
  readonly checks: ReadonlyArray<
    "weights" | "mode" | "extends" | "parsed" | "example" | "only we continue" | "only they continue"
  >
  readonly renderers: RegExp
  readonly when: (facts: Facts, detail: string) => boolean
  /** Their whole render of the conversation is not the template's either, for the same reason. */
  readonly rendersSo?: true
  readonly why: string
}

export type Explained = EqualAfter | Decided

const written = ["prompt", "example"] as const

const always = () => true

const without = (pattern: RegExp) => (text: string): string => text.replace(pattern, "")

/** Blocks of reasoning that say nothing. */
const withoutEmptyBlocks = without(/<think>\s*<\/think>(\n\n)?/g)

interface Said {
  readonly text: string
  readonly calls: ReadonlyArray<{ readonly arguments: unknown }>
}

const said = (edit: (said: Said) => Said) => (text: string): string => {
  const value: Said = JSON.parse(text)
  return JSON.stringify(edit(value))
}

export const explained: ReadonlyArray<Explained> = [
  {
    kind: "text",
    oracle: "cookbook",
    checks: written,
    renderers: /^qwen3_[58]/,
    when: (facts) => facts.hasTools,
    edit: (text) => text.replace(/^\{"type": "function", "function": (.*)\}$/gm, "$1"),
    why: "the cookbook declares tools without the wrapper that the models' templates write around them"
  },
  {
    kind: "text",
    oracle: "cookbook",
    checks: written,
    renderers: /^(qwen3|nemotron3)/,
    when: (facts) => facts.calledTools,
    edit: (text) => text.replace(/\\u([0-9a-f]{4})/g, (_, code: string) => String.fromCharCode(parseInt(code, 16))),
    why: "the cookbook escapes other scripts in the arguments of calls, the templates do not"
  },
  {
    kind: "text",
    oracle: "cookbook",
    checks: written,
    renderers: /^qwen3(_disable_thinking|_instruct|_vl|_vl_instruct)?$/,
    when: (facts) => facts.toolRuns,
    edit: (text) =>
      text.replaceAll(
        "</tool_response><|im_end|>\n<|im_start|>user\n<tool_response>",
        "</tool_response>\n<tool_response>"
      ),
    why: "the cookbook writes a block for each answer of a round of tools, the templates one for all"
  },
  {
    kind: "text",
    oracle: "cookbook",
    checks: written,
    renderers: /^(qwen3|qwen3_5)$/,
    when: (facts) => facts.calledTools && facts.reasoned,
    edit: without(/<think>\n(?:(?!<\/think>)[^])*<\/think>\n\n(?=(?:(?!<\|im_end\|>)[^])*<tool_call>)/g),
    why: "the cookbook drops reasoning within a round of tools, the template after the next question only"
  },
  {
    kind: "text",
    oracle: "cookbook",
    checks: written,
    renderers: /^qwen3_vl(_instruct)?$/,
    when: (facts) => facts.calledTools,
    edit: (text) => text.replaceAll("<|im_start|>assistant\n\n<tool_call>", "<|im_start|>assistant\n<tool_call>"),
    why: "the cookbook writes a line break before a call that nothing precedes, the template does not"
  },
  {
    kind: "decision",
    oracle: "cookbook",
    checks: ["extends"],
    renderers: /^(qwen3_vl|qwen3_vl_instruct|kimi_k26_preserve_thinking)$/,
    when: (_, detail) => detail === "ours true, theirs false",
    why: "the cookbook claims it for none of them; nothing of theirs is rewritten, as the property tests show for ours"
  },
  {
    kind: "decision",
    oracle: "cookbook",
    checks: ["extends"],
    renderers: /^qwen3_5_preserve_thinking$/,
    when: (_, detail) => detail === "ours true, theirs false",
    why: "the cookbook writes silent answers in other tokens than they are sampled in; ours keeps the sampled ones"
  },
  {
    kind: "text",
    oracle: "cookbook",
    checks: written,
    renderers: /^qwen3_5_preserve_thinking$/,
    when: (facts) => facts.silentAnswer,
    edit: withoutEmptyBlocks,
    why:
      "the cookbook leaves out the empty block of a silent answer before a later question; keeping it keeps the prefix"
  },
  {
    kind: "text",
    oracle: "cookbook",
    checks: written,
    renderers: /^gpt_oss/,
    when: (facts) => facts.hasTools,
    edit: (text) => text.slice(text.indexOf("<|start|>user")),
    why: "ours declares tools as the model's template does, in one system message; the cookbook writes a second one"
  },
  {
    kind: "text",
    oracle: "cookbook",
    checks: written,
    renderers: /^gpt_oss/,
    when: (facts) => facts.reasoned && facts.answers > 1,
    edit: without(
      /<\|start\|>assistant<\|channel\|>analysis<\|message\|>(?:(?!<\|end\|>)[^])*<\|end\|>(?=[^]*<\|start\|>(?:user|functions\.))/g
    ),
    why: "the cookbook keeps the analysis of earlier answers, the template drops it after the next one"
  },
  {
    kind: "text",
    oracle: "cookbook",
    checks: written,
    renderers: /^deepseekv3/,
    when: (facts) => facts.calledTools,
    edit: (text) =>
      text
        .replaceAll("<｜tool▁calls▁end｜><｜end▁of▁sentence｜>", "<｜tool▁calls▁end｜>")
        .replace(/<\/think><think>(?:(?!<\/think>)[^])*<\/think>/g, "</think>")
        .replace(
          /<｜tool▁output▁end｜>(<｜Assistant｜>)?(<think>(?:(?!<\/think>)[^])*<\/think>|<\/?think>)?/g,
          "<｜tool▁output▁end｜>"
        ),
    why:
      "the template ends an answer that calls tools, drops its reasoning, and does not reason again after them; the " +
      "cookbook the other way"
  },
  {
    kind: "decision",
    oracle: "cookbook",
    checks: ["example"],
    renderers: /^gpt_oss_(low|medium|high)_reasoning$/,
    when: (_, detail) => detail.startsWith("customized: they refuse: AssertionError: When using CUSTOMIZED"),
    why: "the cookbook's own system message does not say whether it is trained, and its customized mode refuses it"
  },
  {
    kind: "decision",
    oracle: "cookbook",
    checks: ["mode"],
    renderers: /^tml_v0$/,
    when: always,
    why: "the cookbook has three of the seven modes of weights for Inkling"
  },
  {
    kind: "decision",
    oracle: "cookbook",
    checks: ["example"],
    renderers: /^tml_v0$/,
    when: (facts, detail) => facts.calledTools && detail.startsWith("customized: "),
    why: "in the customized mode the cookbook ends Inkling's example with the last message that it trains"
  },
  {
    kind: "decision",
    oracle: "cookbook",
    checks: ["weights"],
    renderers: /^tml_v0$/,
    when: (_, detail) => detail.startsWith("customized: "),
    why:
      "in the customized mode the cookbook trains Inkling's answers only; ours whatever is marked, as everywhere else"
  },
  {
    kind: "decision",
    oracle: "cookbook",
    checks: ["weights"],
    renderers: /./,
    when: (facts, detail) => facts.hasImages && /^last_assistant_(message|turn): .* only the prompt's$/.test(detail),
    why: "with images the cookbook cannot compare prompts, and leaves weight on what the prompt supplies"
  },
  {
    kind: "decision",
    oracle: "cookbook",
    checks: ["parsed"],
    renderers: /^tml_v0$/,
    when: (_, detail) => detail === "ours malformed, theirs stop_sequence",
    why: "an answer with two ends is malformed, as in every other format; tml-renderers reads the first"
  },
  {
    kind: "text",
    oracle: "cookbook",
    checks: ["parsed"],
    renderers: /^gpt_oss/,
    when: always,
    edit: said(({ text, ...rest }) => ({ text: text.replace(/^[a-z]*<\|message\|>/, ""), ...rest })),
    why: "the cookbook leaves the header in the text of an answer that does not open with a channel"
  },
  {
    kind: "text",
    oracle: "renderers",
    checks: ["prompt"],
    renderers: /^qwen3_([56]_)?disable_thinking$/,
    when: (facts) => facts.answers > 1,
    edit: withoutEmptyBlocks,
    why: "`renderers` keeps the empty block in the history for stability, where the template drops it"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only they continue"],
    renderers: /^qwen3_.*disable_thinking$/,
    when: (_, detail) => detail.startsWith("HistoryRewritten"),
    rendersSo: true,
    why: "`renderers` keeps the empty block in the history; the template drops it, so ours wants `history: \"sampled\"`"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only they continue"],
    renderers: /^qwen3$/,
    when: (facts, detail) => !facts.followedByUser && detail.startsWith("HistoryRewritten"),
    why: "the answer closed an empty block of reasoning, which the template does not write once it is history"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only they continue"],
    renderers: /^(minimax_m2|glm5|glm5_preserve_thinking|glm5_1_preserve_thinking)$/,
    when: (facts, detail) => (!facts.turnReasoned || facts.isTruncated) && detail.startsWith("HistoryRewritten"),
    why: "the prompt opens the reasoning, and history shows no empty block; `renderers` keeps the one that was sampled"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only they continue"],
    renderers: /^gemma4(_preserve_thinking)?$/,
    when: (facts, detail) =>
      facts.afterTools && !facts.callerSpoke && !facts.turnReasoned && detail.startsWith("HistoryRewritten"),
    why: "after tools the prompt opens the channel, and history shows no empty one; `renderers` keeps the sampled one"
  },
  {
    kind: "text",
    oracle: "renderers",
    checks: ["prompt"],
    renderers: /^nemotron3$/,
    when: (facts) => facts.calledTools && facts.reasoned,
    edit: (text) => text.replaceAll("</think>\n<tool_call>", "</think><tool_call>"),
    why: "a call that only dropped reasoning precedes: the cookbook, which ours follows, writes no line break before it"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only we continue"],
    renderers: /./,
    when: (facts) => facts.followedByUser && !facts.turnReasoned,
    why: "`renderers` refuses every new question; ours only where there is reasoning that the template would drop"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only we continue"],
    renderers: /./,
    when: (facts) => facts.followedByUser && facts.isTruncated,
    why: "the answer was cut before it said anything in its reasoning: there is nothing the template would drop"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only we continue"],
    renderers: /^nemotron3_ultra_medium_thinking$/,
    when: (facts) => !facts.followedByUser,
    why:
      "`renderers` never continues where the last question names an effort; within a round of tools it stays where it is"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only we continue"],
    renderers: /^deepseekv4/,
    when: (facts) => facts.toolAnswers > 1,
    why:
      "`renderers` does not continue with several answers of tools, whose order it does not know; ours takes the given"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only we continue"],
    renderers: /^deepseekv4/,
    when: (facts) => facts.hasTools && facts.followedByUser,
    why: "with tools declared the encoder keeps all reasoning; `renderers` refuses a new question all the same"
  },
  {
    kind: "text",
    oracle: "renderers",
    checks: ["parsed"],
    renderers: /^deepseekv4/,
    when: (facts) => facts.turnCalls,
    edit: said(({ text, ...rest }) => ({ text: text.replace(/\n\n$/, ""), ...rest })),
    why: "the blank line before calls belongs to the format; `renderers` leaves it in the text"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only they continue"],
    renderers: /^gemma4_preserve_thinking$/,
    when: (facts, detail) => facts.reasoned && facts.followedByUser && detail.startsWith("HistoryRewritten"),
    why:
      "the template keeps the reasoning of turns that call tools, and drops that of final answers; `renderers` keeps it"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only they continue"],
    renderers: /^gemma4/,
    when: (facts, detail) => facts.afterTools && facts.callerSpoke && detail.startsWith("HistoryRewritten"),
    why:
      "after tools whose caller also spoke, the prompt ends the turn; once it is answered, the template no longer does"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only we continue"],
    renderers: /^gemma4/,
    when: (facts) => facts.isTruncated && facts.toolAnswers > 0,
    why: "`renderers` ends the turn of every answer that was cut short; ours goes on where its calls were whole"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only they continue"],
    renderers: /^kimi_k25$/,
    when: (facts, detail) => facts.isTruncated && !facts.followedByUser && detail.startsWith("HistoryRewritten"),
    why:
      "an answer that was cut short calls no tool, so the template takes it for a finished one and drops its reasoning"
  },
  {
    kind: "text",
    oracle: "renderers",
    checks: ["parsed"],
    renderers: /./,
    when: (facts) => facts.turnCalls,
    edit: said(({ calls, ...rest }) => ({
      calls: calls.filter((call) => !/\b(true|false|null|True|False|None)\b/.test(JSON.stringify(call.arguments))),
      ...rest
    })),
    why: "`renderers` reads arguments by the tool's schema and refuses Python's constants; ours reads what is written"
  },
  {
    kind: "text",
    oracle: "renderers",
    checks: ["prompt"],
    renderers: /^kimi_k25/,
    when: (facts) => !facts.hasSystem,
    edit: without(
      /<\|im_system\|>system<\|im_middle\|>You are Kimi, an AI assistant created by Moonshot AI\.<\|im_end\|>/
    ),
    why: "the cookbook, which ours follows, writes the default system message that K2.5's template has dropped"
  },
  {
    kind: "text",
    oracle: "renderers",
    checks: ["next"],
    renderers: /^glm5/,
    when: (facts) => facts.isTruncated,
    edit: without(/<\|endoftext\|>(?=<\|(user|observation)\|>)/g),
    why:
      "`renderers` closes an answer that was cut short with the end of text before the next header; ours with the header"
  },
  {
    kind: "decision",
    oracle: "renderers",
    checks: ["only they continue"],
    renderers: /^glm5/,
    when: (facts, detail) => facts.isTruncated && detail.startsWith("AnswerTruncated"),
    why: "a call that was cut short is no call, so no answer of a tool follows it; `renderers` closes it all the same"
  }
]

export type Check = Explained["checks"][number] | "stop"

/** Where texts still part after all edits. */
export const remaining = (ours: string, theirs: string, entries: ReadonlyArray<EqualAfter>): string => {
  const edited = (text: string) => entries.reduce((out, { edit }) => edit(out), text)
  const [left, right] = [edited(ours), edited(theirs)]
  let at = 0
  while (at < left.length && left[at] === right[at]) at++
  const around = (text: string) => JSON.stringify(text.slice(Math.max(0, at - 20), at + 60))
  return `after ${entries.length} edits ours ${around(left)}, theirs ${around(right)}`
}

/** Edits that make two texts equal, as few as it takes; none where they stay different. */
export const equalAfter = (
  ours: string,
  theirs: string,
  entries: ReadonlyArray<EqualAfter>
): ReadonlyArray<EqualAfter> | undefined => {
  const equal = (edits: ReadonlyArray<EqualAfter>): boolean => {
    const edited = (text: string) => edits.reduce((out, { edit }) => edit(out), text)
    return edited(ours) === edited(theirs)
  }
  const one = entries.find((entry) => equal([entry]))
  if (one !== undefined) return [one]
  if (!equal(entries)) return undefined
  return entries.reduce<ReadonlyArray<EqualAfter>>((kept, entry) => {
    const rest = kept.filter((other) => other !== entry)
    return equal(rest) ? rest : kept
  }, entries)
}

/** Models of the cookbook whose renderers there is nothing to hold ours against, and why. */
export const notHeld: ReadonlyMap<string, string> = new Map([
  [
    "moonshotai/Kimi-K3.1-Pro",
    "its five formats are those of tml-renderers 0.4.1 or newer, which the index does not have; ours uses the chat template"
  ]
])
