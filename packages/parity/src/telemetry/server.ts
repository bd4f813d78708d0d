/**
 * A server for one session in which everything goes wrong once; it keeps the reports it is sent.
 */
import { Effect } from "effect"
import { createServer } from "node:http"

type Json = Readonly<Record<string, unknown>>

interface Answer {
  readonly status?: number
  readonly body: unknown
}

/** What becomes of the optimizer step of this number: refused at once, or when its result is asked for. */
const results: ReadonlyArray<(poll: number) => Answer> = [
  () => ({ status: 422, body: { detail: "refused" } }),
  () => ({ body: { error: "it is your fault", category: "user" } }),
  () => ({ body: { error: "it is our fault", category: "server" } }),
  () => ({ status: 403, body: { detail: "forbidden" } }),
  () => ({ status: 410, body: { detail: "expired" } }),
  () => ({ body: { metrics: 5 } }),
  (poll) => poll === 0 ? { status: 500, body: { detail: "busy" } } : { body: { metrics: { grad_norm: 1 } } }
]

/** How often this has been asked for before. */
const count = (asked: Map<string, number>, what: string): number => {
  const before = asked.get(what) ?? 0
  asked.set(what, before + 1)
  return before
}

/** What becomes of the samples: refused at once, or accepted, lost, and then refused when it is asked for again. */
const samples: ReadonlyArray<Answer> = [
  { status: 422, body: { detail: "refused" } },
  { body: { request_id: "sample-lost" } },
  { status: 422, body: { detail: "refused" } }
]

const answer = (path: string, body: Json, asked: Map<string, number>): Answer => {
  if (path === "/api/v1/telemetry") return { body: { status: "accepted" } }
  if (path === "/api/v1/create_session") return { body: { session_id: "session-1" } }
  if (path === "/api/v1/create_model") return { body: { request_id: "create" } }
  if (path === "/api/v1/create_sampling_session") return { body: { sampling_session_id: "sampler-1" } }
  if (path === "/api/v1/asample") return samples[count(asked, path)] ?? { status: 404, body: {} }
  if (path === "/api/v1/get_info") {
    return { body: { model_id: "session-1:train:0", model_data: { tokenizer_id: "base", model_name: "base" } } }
  }
  if (path.startsWith("/api/v1/samplers/")) return { body: { sampler_id: "sampler-1", base_model: "base" } }
  if (path.startsWith("/api/v1/training_runs/")) return { status: 404, body: { detail: "no such run" } }
  const refusal = results[0]
  if (path === "/api/v1/optim_step") {
    return body["seq_id"] === 1 && refusal !== undefined
      ? refusal(0)
      : { body: { request_id: `step-${body["seq_id"]}` } }
  }
  if (path === "/api/v1/retrieve_future") {
    const id = String(body["request_id"])
    if (id === "create") return { body: { model_id: "session-1:train:0" } }
    if (id === "sample-lost") return { status: 410, body: { detail: "expired" } }
    const poll = count(asked, id)
    return results[Number(id.slice("step-".length)) - 1]?.(poll) ?? { status: 404, body: {} }
  }
  return { body: {} }
}

const parse = (text: string): Json => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === "object" && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}

/** The server on a port of its own, until the scope closes. */
export const start = Effect.acquireRelease(
  Effect.async<{ readonly baseUrl: string; readonly reports: ReadonlyArray<Json>; readonly close: () => void }>(
    (resume) => {
      const reports: Array<Json> = []
      const asked = new Map<string, number>()
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const path = (request.url ?? "").split("?")[0] ?? ""
          const body = parse(Buffer.concat(chunks).toString())
          if (path === "/api/v1/telemetry") reports.push(body)
          const { body: content, status } = answer(path, body, asked)
          response.writeHead(status ?? 200, { "content-type": "application/json" }).end(JSON.stringify(content))
        })
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({
          baseUrl: `http://127.0.0.1:${port}`,
          reports,
          close: () => {
            server.close()
            server.closeAllConnections()
          }
        }))
      })
    }
  ),
  ({ close }) => Effect.sync(close)
)
