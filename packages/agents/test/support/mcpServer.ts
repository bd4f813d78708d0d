import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js"
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js"
import { z } from "zod"

/** A small server with a count that its tools change and read, and with tools that fail, take too long or say too much. */
export const make = () => {
  let count = 0
  const server = new McpServer({ name: "counter", version: "1.0.0" })
  const text = (value: string) => ({ content: [{ type: "text" as const, text: value }] })
  server.registerTool(
    "add",
    { description: "Adds to the count.", inputSchema: { by: z.number() } },
    ({ by }) => text(String(count += by))
  )
  server.registerTool(
    "read",
    { description: "Reads the count.", annotations: { readOnlyHint: true } },
    () => text(String(count))
  )
  server.registerTool("fail", { description: "Fails." }, () => ({ ...text("out of order"), isError: true }))
  server.registerTool("wait", { description: "Never answers." }, () => new Promise<never>(() => undefined))
  server.registerTool("talk", { description: "Says much." }, () => text("x".repeat(500)))
  server.registerTool("draw", { description: "Draws." }, () => ({
    content: [{ type: "image" as const, data: "AAAA", mimeType: "image/png" }]
  }))
  return server
}

if (process.argv.includes("--stdio")) {
  process.stderr.write("counting\n")
  await make().connect(new StdioServerTransport())
}
