/**
 * The floor: the two requests of a sample, on undici and nothing else.
 */
import { Agent, request } from "undici"
import { prompt, serve } from "./measure.js"

const [base] = process.argv.slice(2)
const dispatcher = new Agent({ connections: 2_000 })
const headers = { "content-type": "application/json", "x-api-key": "tml-bench" }
const tokens = Array.from(prompt)
let seq = 0

serve(async () => {
  const sent = await request(`${base}/api/v1/asample`, {
    dispatcher,
    method: "POST",
    headers,
    body: JSON.stringify({
      num_samples: 1,
      prompt: { chunks: [{ tokens, type: "encoded_text" }] },
      sampling_params: { max_tokens: 200, temperature: 1, top_k: -1, top_p: 1 },
      sampling_session_id: "session:sample:0",
      seq_id: seq++,
      prompt_logprobs: false,
      topk_prompt_logprobs: 0,
      type: "sample"
    })
  })
  const receipt = await sent.body.json() as { readonly request_id: string }
  const polled = await request(`${base}/api/v1/retrieve_future`, {
    dispatcher,
    method: "POST",
    headers,
    body: JSON.stringify({ request_id: receipt.request_id, allow_metadata_only: true })
  })
  return polled.body.arrayBuffer()
})
