/**
 * The two requests of a sample, for those who do without the SDK.
 */
import { prompt } from "../sampling/measure.js"

const tokens = Array.from(prompt)
let seq = 0

export const headers = { "content-type": "application/json", "x-api-key": "tml-bench" }

export const asample = (): string =>
  JSON.stringify({
    num_samples: 1,
    prompt: { chunks: [{ tokens, type: "encoded_text" }] },
    sampling_params: { max_tokens: 200, temperature: 1, top_k: -1, top_p: 1 },
    sampling_session_id: "session:sample:0",
    seq_id: seq++,
    prompt_logprobs: false,
    topk_prompt_logprobs: 0,
    type: "sample"
  })

export const retrieveFuture = (receipt: string): string => {
  const { request_id } = JSON.parse(receipt) as { readonly request_id: string }
  return JSON.stringify({ request_id, allow_metadata_only: true })
}
