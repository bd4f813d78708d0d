import OpenAI, { toFile } from "openai"
import { beginning, history, type Log } from "./shared.js"

/** Batches: the file of requests is uploaded, and that of the answers downloaded. */
export const batch: Log = async (url, conversations) => {
  const client = new OpenAI({ apiKey: "k", baseURL: `${url}/v1` })
  const lines = conversations.map((one) => ({
    custom_id: one.city,
    method: "POST",
    url: "/v1/chat/completions",
    body: { model: "gpt-4o", messages: history(one), metadata: { session_id: one.session } }
  }))
  const input = await client.files.create({
    file: await toFile(Buffer.from(lines.map((line) => JSON.stringify(line)).join("\n")), "requests.jsonl"),
    purpose: "batch"
  })
  const { output_file_id: output } = await client.batches.create({
    input_file_id: input.id,
    endpoint: "/v1/chat/completions",
    completion_window: "24h"
  })
  await client.files.content(output ?? "")
}

/** Completions that are stored, as they are listed later. */
export const stored: Log = async (url, conversations) => {
  const client = new OpenAI({ apiKey: "k", baseURL: `${url}/v1` })
  for (const one of conversations) {
    const metadata = { session_id: one.session }
    await client.chat.completions.create({ model: "gpt-4o", messages: beginning(one), store: true, metadata })
    await client.chat.completions.create({ model: "gpt-4o", messages: history(one), store: true, metadata })
  }
  for await (const completion of client.chat.completions.list()) {
    for await (const message of client.chat.completions.messages.list(completion.id)) void message
  }
}
