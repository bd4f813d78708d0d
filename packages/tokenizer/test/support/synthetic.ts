/**
 * Vocabularies of ours that have the control tokens of families whose own cannot be had here.
 */
import { Tokenizer } from "@effect-tinker/tokenizer"
import { Effect } from "effect"
import * as tiny from "./tiny.js"

/** The tiny vocabulary with more control tokens. */
export const withTokens = (tokens: ReadonlyArray<string>) =>
  Effect.runSync(Tokenizer.fromHuggingFace({
    id: "ours",
    tokenizerConfig: tiny.tokenizerConfig,
    tokenizerJson: {
      ...tiny.tokenizerJson,
      added_tokens: [
        ...tiny.tokenizerJson.added_tokens,
        ...tokens.map((content, i) => ({
          id: tiny.idOf("<pad>") + 1 + i,
          content,
          special: true,
          normalized: false,
          single_word: false,
          lstrip: false,
          rstrip: false
        }))
      ]
    }
  }))

export const chatml = withTokens([
  "<|im_start|>",
  "<|im_end|>",
  "<tool_call>",
  "</tool_call>",
  "<tool_response>",
  "</tool_response>"
])
// <|end|> is among the tiny ones
export const harmony = withTokens([
  "<|start|>",
  "<|message|>",
  "<|channel|>",
  "<|constrain|>",
  "<|return|>",
  "<|call|>"
])
export const kimi = withTokens([
  "<|im_user|>",
  "<|im_assistant|>",
  "<|im_system|>",
  "<|im_middle|>",
  "<|im_end|>",
  "<|tool_calls_section_begin|>",
  "<|tool_calls_section_end|>",
  "<|tool_call_begin|>",
  "<|tool_call_argument_begin|>",
  "<|tool_call_end|>"
])
export const llamaLike = withTokens(["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"])
export const deepseekLike = withTokens([
  "<｜begin▁of▁sentence｜>",
  "<｜end▁of▁sentence｜>",
  "<｜User｜>",
  "<｜Assistant｜>",
  "<｜tool▁calls▁begin｜>",
  "<｜tool▁calls▁end｜>",
  "<｜tool▁call▁begin｜>",
  "<｜tool▁call▁end｜>",
  "<｜tool▁sep｜>",
  "<｜tool▁output▁begin｜>",
  "<｜tool▁output▁end｜>"
])
export const deepseekV4Like = withTokens([
  "<｜begin▁of▁sentence｜>",
  "<｜end▁of▁sentence｜>",
  "<｜User｜>",
  "<｜Assistant｜>",
  "<｜System｜>",
  "｜DSML｜"
])
export const glm = withTokens([
  "[gMASK]",
  "<sop>",
  "<|system|>",
  "<|user|>",
  "<|assistant|>",
  "<|observation|>",
  "<|endoftext|>",
  "<tool_call>",
  "</tool_call>",
  "<tool_response>",
  "</tool_response>",
  "<arg_key>",
  "</arg_key>",
  "<arg_value>",
  "</arg_value>"
])
export const gemma = withTokens([
  "<bos>",
  "<eos>",
  "<|turn>",
  "<turn|>",
  "<|channel>",
  "<channel|>",
  "<|think|>",
  "<|tool_call>",
  "<tool_call|>",
  "<|tool_response>",
  "<tool_response|>",
  "<|\"|>"
])
export const minimax = withTokens(["]~!b[", "]~b]", "[e~[", "<minimax:tool_call>", "</minimax:tool_call>"])
export const localLike = withTokens([
  "<|endoftext|>",
  "<|im_start|>",
  "<|im_end|>",
  "<tools>",
  "</tools>",
  "<tool_call>",
  "</tool_call>",
  "<tool_response>",
  "</tool_response>"
])
export const inkling = withTokens([
  "<|message_user|>",
  "<|message_model|>",
  "<|message_system|>",
  "<|message_tool|>",
  "<|content_text|>",
  "<|content_thinking|>",
  "<|content_xml|>",
  "<|content_invoke_tool_json|>",
  "<|content_model_end_sampling|>",
  "<|end_message|>"
])
