import { AgentModel, Recorder, type Sampler } from "@effect-tinker/agents"
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import { Trajectory } from "@effect-tinker/cookbook"
import { Command, FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { fileURLToPath } from "node:url"
import { install } from "../../../.ci/install.mjs"
import { chatRenderer } from "./support/chat.js"

const directory = "packages/agents/test/coding-agents"
const root = fileURLToPath(new URL("../../../", import.meta.url))
const bin = `${root}${directory}/node_modules/.bin`

/** The agents take 1.2 GB: they are installed where they are asked for. */
const asked = process.env["CODING_AGENTS"] === "1"
const missing = asked ? (await install(directory)).missing : "CODING_AGENTS=1 installs the agents, 1.2 GB"

/** Calls of each agent at its task. */
const wanted = Number(process.env["CODING_AGENT_CALLS"] ?? 4)

interface CodingAgent {
  /** Its tool for commands, and the field that has the command. */
  readonly tool: readonly [name: string, field: string]
  /** The agent as a command, with its own settings for another address of its API. */
  readonly start: (
    gateway: NodeGateway.Running,
    task: string,
    home: string
  ) => { readonly command: readonly [string, ...ReadonlyArray<string>]; readonly env: Record<string, string> }
}

const agents: Readonly<Record<string, CodingAgent>> = {
  "Claude Agent SDK": {
    tool: ["Bash", "command"],
    start: (gateway, task) => ({
      command: [process.execPath, `${root}${directory}/claude.mjs`, task, String(wanted + 5)],
      env: {
        ANTHROPIC_BASE_URL: gateway.anthropicUrl("run"),
        ANTHROPIC_API_KEY: Redacted.value(gateway.apiKey),
        ANTHROPIC_MODEL: "local/chat",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        IS_SANDBOX: "1"
      }
    })
  },
  Codex: {
    tool: ["exec_command", "cmd"],
    start: (gateway, task, home) => ({
      command: [
        `${bin}/codex`,
        "exec",
        ...["--skip-git-repo-check", "--sandbox", "danger-full-access", "--model", "local/chat"],
        // tools that its own service runs, and those of a namespace, are nothing a model elsewhere can call
        ...["--disable", "multi_agent", "-c", "web_search=\"disabled\"", "-c", "model_provider=\"gateway\""],
        "-c",
        `model_providers.gateway={name="gateway",base_url="${
          gateway.rolloutUrl("run")
        }",env_key="GATEWAY_KEY",wire_api="responses"}`,
        task
      ],
      env: { CODEX_HOME: home, GATEWAY_KEY: Redacted.value(gateway.apiKey) }
    })
  },
  OpenCode: {
    tool: ["bash", "command"],
    start: (gateway, task) => ({
      command: [`${bin}/opencode`, "run", "--model", "gateway/chat", task],
      env: {
        OPENCODE_CONFIG_CONTENT: JSON.stringify({
          autoupdate: false,
          share: "disabled",
          provider: {
            gateway: {
              npm: "@ai-sdk/openai-compatible",
              options: { baseURL: gateway.rolloutUrl("run"), apiKey: Redacted.value(gateway.apiKey) },
              models: { chat: {} }
            }
          }
        })
      }
    })
  }
}

/** An agent at a task in a directory of its own, whose model does the task by commands: what it wrote, and what was recorded. */
const work = ({ start, tool: [tool, field] }: CodingAgent) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped({ prefix: "work-" })
    const home = yield* fs.makeTempDirectoryScoped({ prefix: "home-" })
    const renderer = yield* chatRenderer
    const recorder = yield* Recorder.make()
    const drawn: Array<string> = []
    let turn = 0
    const sampler: Sampler.Sampler = {
      sample: ({ prompt }) =>
        Effect.sync(() => {
          const text = renderer.tokenizer.decode(prompt)
          // a title for the session, say, is asked for without tools
          const isTask = text.includes(tool) && prompt.length > 3000
          const call = { name: tool, arguments: { [field]: `echo ${turn + 1} >> steps.txt`, description: "next" } }
          const answer = !isTask
            ? "A title"
            : ++turn < wanted
            ? `<tool_call>\n${JSON.stringify(call)}\n</tool_call>`
            : "All steps are done."
          const tokens = renderer.tokenizer.encode(`${answer}<|im_end|>`, { parseSpecial: "all" })
          drawn.push(tokens.join())
          const logprobs = Float32Array.from(tokens, (_, i) => -0.5 - i / 64)
          return [{ tokens, logprobs, stopReason: "stop", policyVersion: 0 }]
        })
    }
    const gateway = yield* Effect.flatMap(
      AgentModel.make({ renderer, sampler }),
      (model) =>
        Effect.provideService(
          NodeGateway.serve({ model: "local/chat", onRollout: () => Effect.void }),
          AgentModel.AgentModel,
          model
        )
    ).pipe(Effect.provideService(Recorder.Recorder, recorder))
    const { command: [program, ...args], env } = start(gateway, "Write the steps into steps.txt.", home)
    const printed = yield* Command.make(program, ...args).pipe(
      Command.workingDirectory(directory),
      // some take the directory from the shell's variable
      Command.env({ HOME: home, PWD: directory, ...env }),
      Command.feed(""),
      Command.string
    )
    const { calls } = yield* recorder.rollout("run")
    return { printed, drawn, calls, steps: yield* fs.readFileString(`${directory}/steps.txt`) }
  }).pipe(Effect.provide(NodeContext.layer))

describe.skipIf(missing !== undefined)("coding agents as they are", { sequential: true }, () => {
  for (const [name, agent] of Object.entries(agents)) {
    it.scopedLive(`${name} does a task, and every token that is trained on was sampled`, () =>
      Effect.gen(function*() {
        const { calls, drawn, printed, steps } = yield* work(agent)
        assert.include(printed, "All steps are done.")
        assert.deepStrictEqual(steps.trim().split("\n"), Array.from({ length: wanted - 1 }, (_, i) => String(i + 1)))

        // what was recorded is what was drawn, token for token
        assert.deepStrictEqual(calls.map(({ turn }) => turn.completion.join()), drawn)
        const { roots, spliced } = Recorder.summarize(calls)
        const asides = calls.length - wanted
        assert.deepStrictEqual({ roots, spliced }, { roots: 1 + asides, spliced: wanted - 1 })

        // and so is what is trained on: a row for the task, and one for each aside
        const rows = Trajectory.toRows(Recorder.toTrajectory(calls, { reward: 1 }), 1)
        const trained = rows.map(({ mask, targets }) => Array.from(targets).filter((_, i) => mask[i] === 1).join())
        assert.strictEqual(rows.length, 1 + asides)
        const sampled = drawn.reduce((sum, tokens) => sum + tokens.split(",").length, 0)
        assert.strictEqual(trained.reduce((sum, tokens) => sum + tokens.split(",").length, 0), sampled)
        const [task] = trained.sort((a, b) => b.length - a.length)
        assert.strictEqual(
          task,
          calls.slice(asides).map(({ turn }) => turn.completion.join()).join()
        )
        yield* Effect.logInfo(
          `${name}: ${calls.length} calls, ${sampled} tokens sampled and trained on, ${spliced} continued`
        )
      }), 1_800_000)
  }
})
