/**
 * The floor: the requests of the same futures, on undici and nothing else.
 */
import { Agent, request } from "undici"
import { serve } from "./measure.js"

const [base] = process.argv.slice(2)
// as many sockets as ours opens for polls
const dispatcher = new Agent({ connections: 2_048 })
const headers = { "content-type": "application/json", "x-api-key": "tml-bench" }

const post = async (path: string, body: unknown): Promise<unknown> => {
  const answer = await request(`${base}/api/v1/${path}`, {
    dispatcher,
    method: "POST",
    headers,
    body: JSON.stringify(body)
  })
  return answer.body.json()
}

serve(async (futures) => {
  const ids: Array<string> = []
  for (let seq = 1; seq <= futures; seq++) {
    const receipt = await post("optim_step", {
      adam_params: { learning_rate: 1e-4, beta1: 0.9, beta2: 0.95, eps: 1e-12 },
      model_id: "session:train:0",
      seq_id: seq,
      type: "optim_step"
    })
    ids.push((receipt as { readonly request_id: string }).request_id)
  }
  const polls = ids.map((id) => post("retrieve_future", { request_id: id, allow_metadata_only: true }))
  return { all: Promise.all(polls), count: polls.length }
})
