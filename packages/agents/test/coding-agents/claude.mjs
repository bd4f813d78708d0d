// The Claude Agent SDK as its documentation teaches it: what is left of the answer is printed.
import { query } from "@anthropic-ai/claude-agent-sdk"

const [task = "", turns = "10"] = process.argv.slice(2)

for await (
  const message of query({
    prompt: task,
    options: { permissionMode: "bypassPermissions", allowDangerouslySkipPermissions: true, maxTurns: Number(turns) }
  })
) {
  if (message.type === "result" && message.subtype === "success") console.log(message.result)
}
