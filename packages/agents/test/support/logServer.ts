import { Effect } from "effect"
import { createServer, type IncomingMessage } from "node:http"
import { gunzipSync } from "node:zlib"
import { answer, type Conversation, toolCall, usage } from "../exporters/programs/shared.js"

/** What the services that programs log to keep: lines of their exports, by file. */
export interface LogServer {
  readonly url: string
  readonly files: ReadonlyMap<string, ReadonlyArray<string>>
}

const bodyOf = async (request: IncomingMessage): Promise<Buffer> => {
  const parts: Array<Buffer> = []
  for await (const part of request) parts.push(part)
  return Buffer.concat(parts)
}

/** A server that stands for the services; spans go on to a receiver. */
export const logServer = (receiver: string, conversations: ReadonlyArray<Conversation>) =>
  Effect.gen(function*() {
    const files = new Map<string, Array<string>>()
    const add = (file: string, row: unknown) => files.set(file, [...files.get(file) ?? [], JSON.stringify(row)])
    const runs = new Map<string, Record<string, unknown>>()
    const stored: Array<{ readonly messages: ReadonlyArray<unknown>; readonly completion: { readonly id: string } }> =
      []
    let batch: ReadonlyArray<
      { readonly custom_id: string; readonly body: { readonly messages: ReadonlyArray<unknown> } }
    > = []

    const completionOf = (messages: ReadonlyArray<unknown>) => {
      const text = JSON.stringify(messages)
      const one = conversations.find(({ city }) => text.includes(`What is the weather in ${city}?`))
      if (one === undefined) throw new Error("a question that is none of ours")
      return {
        id: `chatcmpl-${one.city}-${messages.length}`,
        object: "chat.completion",
        created: 1_790_000_000,
        model: "gpt-4o",
        usage,
        choices: [{
          index: 0,
          finish_reason: messages.length === 2 ? "tool_calls" : "stop",
          message: messages.length === 2
            ? { role: "assistant", content: null, tool_calls: [toolCall(one)] }
            : { role: "assistant", content: answer(one) }
        }]
      }
    }
    const outputs = () =>
      batch.map(({ body, custom_id }) => ({
        id: `batch_req_${custom_id}`,
        custom_id,
        response: { status_code: 200, request_id: "r", body: completionOf(body.messages) },
        error: null
      }))

    const respond = (method: string, path: string, raw: Buffer): unknown => {
      const json = () => JSON.parse(raw.toString("utf8"))
      if (path === "/api/public/ingestion") {
        add("langfuse.jsonl", json())
        return { successes: [], errors: [] }
      }
      if (path === "/runs" || path.startsWith("/runs/")) {
        const body = json()
        const id = body.id ?? path.split("/").at(-1)
        runs.set(id, { ...runs.get(id), ...body, id })
        files.set("langsmith.jsonl", Array.from(runs.values(), (run) => JSON.stringify(run)))
        return {}
      }
      if (path === "/feedback") {
        add("langsmith-feedback.jsonl", json())
        return json()
      }
      if (path === "/api/apikey/login") return { org_info: [{ id: "o", name: "o", api_url: url, proxy_url: url }] }
      if (path === "/api/project/register") return { project: { id: "p", name: "agents" } }
      if (path === "/logs3") {
        add("braintrust.jsonl", json())
        return {}
      }
      if (path === "/v1/files") {
        const lines = raw.toString("utf8").split(/\r?\n/).filter((line) => line.startsWith("{\"custom_id\""))
        files.set("batch-input.jsonl", lines)
        batch = lines.map((line) => JSON.parse(line))
        return { id: "file-in", object: "file" }
      }
      if (path === "/v1/batches") return { id: "b", object: "batch", status: "completed", output_file_id: "file-out" }
      if (path === "/v1/files/file-out/content") {
        for (const line of outputs()) add("batch-output.jsonl", line)
        return {}
      }
      if (path === "/v1/chat/completions" && method === "POST") {
        const body = json()
        const completion = completionOf(body.messages)
        if (body.store === true) {
          stored.push({ messages: body.messages, completion: { ...completion, ...{ metadata: body.metadata } } })
        }
        return completion
      }
      if (path === "/v1/chat/completions") {
        const page = { object: "list", data: stored.map(({ completion }) => completion), has_more: false }
        add("stored.jsonl", page)
        return page
      }
      const of = /^\/v1\/chat\/completions\/(.+)\/messages$/.exec(path)
      if (of !== null) {
        const messages = stored.find(({ completion }) => completion.id === of[1])?.messages ?? []
        const data = messages.map((message, i) => ({ id: `${of[1]}-${i}`, ...message as object }))
        const page = { object: "list", data, has_more: false }
        add("stored.jsonl", page)
        return page
      }
      return {}
    }

    const server = createServer((request, response) => {
      void (async () => {
        const raw = await bodyOf(request)
        const path = new URL(request.url ?? "/", "http://localhost").pathname
        if (path.endsWith("/v1/traces")) {
          const headers = {
            "content-type": request.headers["content-type"] ?? "",
            ...request.headers["content-encoding"] === undefined
              ? {}
              : { "content-encoding": request.headers["content-encoding"] }
          }
          const sent = await fetch(`${receiver}/v1/traces`, { method: "POST", headers, body: new Uint8Array(raw) })
          response.statusCode = sent.status
          response.end(await sent.text())
          return
        }
        const bytes = request.headers["content-encoding"] === "gzip" ? gunzipSync(raw) : raw
        response.setHeader("content-type", "application/json")
        response.end(JSON.stringify(respond(request.method ?? "", path, bytes)))
      })().catch((error) => {
        response.statusCode = 500
        response.end(String(error))
      })
    })
    yield* Effect.acquireRelease(
      Effect.async<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
      () =>
        Effect.async<void>((resume) => {
          server.closeAllConnections()
          server.close(() => resume(Effect.void))
        })
    )
    const address = server.address()
    const url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
    const found: LogServer = { url, files }
    return found
  })
