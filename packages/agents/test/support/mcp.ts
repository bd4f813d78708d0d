import type * as Mcp from "@effect-tinker/agents/Mcp"
import type { Environment } from "@effect-tinker/cookbook"
import { assert } from "@effect/vitest"
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js"
import { Effect } from "effect"
import * as Http from "node:http"
import { chatRenderer } from "./chat.js"
import { make } from "./mcpServer.js"

/** The server behind a port, with one count for every session. */
export const http = Effect.acquireRelease(
  Effect.promise(() =>
    new Promise<Http.Server>((resolve) => {
      const sessions = new Map<string, StreamableHTTPServerTransport>()
      const server = Http.createServer((request, response) => {
        const handle = async () => {
          const known = sessions.get(String(request.headers["mcp-session-id"]))
          if (known !== undefined) return known.handleRequest(request, response)
          const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
            sessionIdGenerator: () => String(sessions.size),
            onsessioninitialized: (id) => void sessions.set(id, transport)
          })
          // its optional fields are declared for a compiler that does not tell `undefined` from absent
          await make().connect(transport as Parameters<ReturnType<typeof make>["connect"]>[0])
          await transport.handleRequest(request, response)
        }
        handle().catch((error: unknown) => response.writeHead(500).end(String(error)))
      })
      server.listen(0, "127.0.0.1", () => resolve(server))
    })
  ),
  (server) =>
    Effect.async<void>((resume) => {
      server.closeAllConnections()
      server.close(() => resume(Effect.void))
    })
)

export const toolOf = ({ tools }: Mcp.Session, name: string) => {
  const tool = tools.find(({ spec }) => spec.name === name)
  assert(tool !== undefined, name)
  return tool
}

/** What becomes of answers in an episode: the policy that gives them is the test. */
export const play = Effect.fnUntraced(function*<E, R>(group: Environment.Group<E, R>, texts: ReadonlyArray<string>) {
  const renderer = yield* chatRenderer
  const environment = yield* group.make({ renderer })
  yield* environment.initial
  const steps: Array<Environment.Step> = []
  for (const text of texts) {
    const [end = 0] = renderer.stop
    const tokens = Int32Array.from([...renderer.tokenizer.encode(text, { parseSpecial: "all" }), Number(end)])
    const logprobs = new Float32Array(tokens.length)
    steps.push(yield* environment.step({ tokens, logprobs, stopReason: "stop", policyVersion: 0 }))
  }
  return steps
})

export const call = (name: string, args: string) =>
  `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`
