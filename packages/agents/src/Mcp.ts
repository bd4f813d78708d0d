/**
 * Tools of a server of the Model Context Protocol as tools of an environment, over stdio or HTTP, by the official SDK. Every
 * episode has its own session, and over stdio its own process: what a rollout changed is gone with it.
 *
 * Needs `@modelcontextprotocol/sdk`, and Node for servers that are commands.
 *
 * @since 0.2.0
 */
import * as Environment from "@effect-tinker/cookbook/Environment"
import type * as Tool from "@effect-tinker/cookbook/Tool"
import * as Message from "@effect-tinker/tokenizer/Message"
import type { ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"

// =============================================================================
// models
// =============================================================================

/**
 * Where a server is: a command that speaks over its standard input and output, or an address that speaks streamable HTTP.
 *
 * @since 0.2.0
 * @category configuration
 */
export type Server =
  | {
    readonly command: string
    readonly args?: ReadonlyArray<string> | undefined
    /** Variables beside the few that the SDK passes on, such as `PATH` and `HOME`. */
    readonly env?: Readonly<Record<string, string>> | undefined
    readonly cwd?: string | undefined
  }
  | {
    readonly url: string
    readonly headers?: Readonly<Record<string, string>> | undefined
  }

/**
 * A server, and how long it may take.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface Options {
  readonly server: Server
  /** Which of its tools are offered to the policy. Defaults to all. */
  readonly only?: ReadonlyArray<string> | undefined
  /** Time limit for starting the server and listing its tools. Defaults to 30 seconds. */
  readonly connectTimeout?: Duration.DurationInput | undefined
  /** Time limit of a call; a longer one is cancelled, and the policy sees an error. Defaults to 1 minute. */
  readonly timeout?: Duration.DurationInput | undefined
  /** Maximum length of a tool's answer in characters; the rest is cut off with a note for the policy. Defaults to 20,000. */
  readonly maxLength?: number | undefined
}

/**
 * The server could not be reached, or did not do what the protocol says.
 *
 * @since 0.2.0
 * @category errors
 */
export class McpError extends Schema.TaggedError<McpError>("@effect-tinker/agents/Mcp/McpError")("McpError", {
  server: Schema.String,
  method: Schema.Literal("connect", "listTools", "callTool"),
  reason: Schema.Literal("TimedOut", "Failed"),
  description: Schema.String
}) {
  /** A new session may succeed. */
  get isRetryable(): boolean {
    return this.method === "connect" || this.reason === "TimedOut"
  }
  override get message(): string {
    return `${this.method} of ${this.server}: ${this.description}`
  }
}

/**
 * A tool call with the answer that the policy received.
 *
 * @since 0.2.0
 * @category models
 */
export interface Exchange {
  readonly tool: string
  /** As the model wrote them, read as JSON where that is possible. */
  readonly arguments: unknown
  readonly text: string
  /** Whether the tool failed, was unknown to the server, or took too long. */
  readonly failed: boolean
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  readonly endedAt: number
}

/**
 * A session with a server.
 *
 * @since 0.2.0
 * @category models
 */
export interface Session {
  /** The server's tools. Those that only read may run at once. */
  readonly tools: ReadonlyArray<Tool.Tool>
  /** Calls a tool, be it offered to the policy or not, and leaves no trace in the transcript: for setting up and checking. */
  readonly call: (tool: string, input?: Readonly<Record<string, unknown>>) => Effect.Effect<string, McpError>
  /** The policy's calls so far, in the order in which they ended. */
  readonly transcript: Effect.Effect<ReadonlyArray<Exchange>>
}

// =============================================================================
// sessions
// =============================================================================

const nameOf = (server: Server): string => "url" in server ? server.url : server.command

/** Characters kept of a command's standard error: the end of it says why the command ended. */
const maxErrorText = 2000

const textOf = (block: unknown): string => {
  if (!Predicate.hasProperty(block, "type")) return ""
  if (block.type === "text" && Predicate.hasProperty(block, "text")) return String(block.text)
  if (block.type === "resource" && Predicate.hasProperty(block, "resource")) {
    const { resource } = block
    if (Predicate.hasProperty(resource, "text")) return String(resource.text)
  }
  return `[${String(block.type)}]`
}

/** Answer of a tool, as text. */
const answerOf = (result: object): { readonly text: string; readonly failed: boolean } => {
  const content = Predicate.hasProperty(result, "content") && Array.isArray(result.content) ? result.content : []
  const structured = Predicate.hasProperty(result, "structuredContent") ? result.structuredContent : undefined
  return {
    text: content.length === 0 && structured !== undefined
      ? JSON.stringify(structured)
      : content.map(textOf).join("\n"),
    failed: Predicate.hasProperty(result, "isError") && result.isError === true
  }
}

/**
 * Opens a session until the scope closes; a command is ended with it.
 *
 * @since 0.2.0
 * @category constructors
 */
export const connect: (options: Options) => Effect.Effect<Session, McpError, Scope.Scope> = Effect.fnUntraced(
  function*({ connectTimeout = "30 seconds", maxLength = 20_000, only, server, timeout = "1 minute" }) {
    const name = nameOf(server)
    let errors = ""
    /** A request of the SDK, which is cancelled when it is interrupted. Its own limit is later than ours. */
    const ask = <A>(
      method: McpError["method"],
      limit: Duration.DurationInput,
      request: (options: { readonly signal: AbortSignal; readonly timeout: number }) => Promise<A>
    ): Effect.Effect<A, McpError> =>
      Effect.tryPromise({
        try: (signal) => request({ signal, timeout: Duration.toMillis(limit) + 60_000 }),
        catch: (error) =>
          new McpError({
            server: name,
            method,
            reason: "Failed",
            description: [error instanceof Error ? error.message : String(error), errors.trim()].filter((text) =>
              text !== ""
            ).join("\n")
          })
      }).pipe(Effect.timeoutFail({
        duration: limit,
        onTimeout: () =>
          new McpError({
            server: name,
            method,
            reason: "TimedOut",
            description: `no answer within ${Duration.format(Duration.decode(limit))}`
          })
      }))

    const client = new Client({ name: "effect-tinker", version: "1" })
    yield* Effect.addFinalizer(() =>
      // Finalizers are uninterruptible, and a timeout cannot end an uninterruptible effect.
      Effect.promise(() => client.close()).pipe(Effect.interruptible, Effect.timeout("10 seconds"), Effect.ignore)
    )
    yield* ask("connect", connectTimeout, async (options) => {
      if ("url" in server) {
        const transport = new StreamableHTTPClientTransport(new URL(server.url), {
          requestInit: { headers: { ...server.headers } }
        })
        await client.connect(transport, options)
        return
      }
      const transport = new StdioClientTransport({
        command: server.command,
        args: [...server.args ?? []],
        stderr: "pipe",
        ...(server.env === undefined ? {} : { env: { ...server.env } }),
        ...(server.cwd === undefined ? {} : { cwd: server.cwd })
      })
      transport.stderr?.on("data", (chunk: unknown) => {
        errors = `${errors}${String(chunk)}`.slice(-maxErrorText)
      })
      await client.connect(transport, options)
    })
    const listed = yield* ask("listTools", connectTimeout, async (options) => {
      const first = await client.listTools({}, options)
      const tools = [...first.tools]
      // a server might never end its list, so the time is limited
      for (let cursor = first.nextCursor; cursor !== undefined;) {
        const next = await client.listTools({ cursor }, options)
        tools.push(...next.tools)
        cursor = next.nextCursor
      }
      return tools
    })
    const missing = only?.find((name) => !listed.some((tool) => tool.name === name))
    if (missing !== undefined) {
      return yield* new McpError({
        server: name,
        method: "listTools",
        reason: "Failed",
        description: `it has no tool ${missing}: ${listed.map((tool) => tool.name).join(", ")}`
      })
    }

    const callTool = (tool: string, input: Readonly<Record<string, unknown>>) =>
      Effect.map(
        ask("callTool", timeout, (options) =>
          client.callTool({ name: tool, arguments: { ...input } }, undefined, options)),
        answerOf
      )
    const exchanges: Array<Exchange> = []
    const cut = (text: string) =>
      text.length <= maxLength ? text : `${text.slice(0, maxLength)}\n[${text.length - maxLength} characters cut off]`
    const tools = listed.filter((tool) => only?.includes(tool.name) ?? true).map((tool): Tool.Tool => ({
      spec: { name: tool.name, description: tool.description ?? "", parameters: { ...tool.inputSchema } },
      parallel: tool.annotations?.readOnlyHint === true,
      call: Effect.fnUntraced(function*(json) {
        const startedAt = yield* Clock.currentTimeMillis
        const input = yield* Effect.option(Effect.try((): unknown => JSON.parse(json)))
        const { failed, text } = input._tag === "Some" && Predicate.isReadonlyRecord(input.value)
          ? yield* Effect.catchAll(
            callTool(tool.name, input.value),
            ({ description }) => Effect.succeed({ text: description, failed: true })
          )
          : { text: "the arguments are not a JSON object", failed: true }
        const answer = cut(failed ? `Error: ${text}` : text)
        const endedAt = yield* Clock.currentTimeMillis
        const given = input._tag === "Some" ? input.value : json
        exchanges.push({ tool: tool.name, arguments: given, text: answer, failed, startedAt, endedAt })
        return { text: answer, stop: false, failed }
      })
    }))
    return {
      tools,
      call: (tool, input = {}) =>
        Effect.flatMap(callTool(tool, input), ({ failed, text }) =>
          failed
            ? new McpError({ server: name, method: "callTool", reason: "Failed", description: text })
            : Effect.succeed(text)),
      transcript: Effect.sync(() => exchanges.slice())
    }
  }
)

// =============================================================================
// environments
// =============================================================================

/**
 * A problem that is solved with the tools of a server.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface GroupOptions<E, R> extends Options {
  /** First message for the policy. */
  readonly question: string | ReadonlyArray<Message.Message>
  /** Runs at the beginning of every episode in its own session, for servers that keep state between sessions. */
  readonly reset?: ((session: Session) => Effect.Effect<unknown, E, R>) | undefined
  /** The reward of an answer, which ends the episode, by the answer, the calls before it, and the session. */
  readonly reward: (answer: string, episode: {
    readonly transcript: ReadonlyArray<Exchange>
    readonly session: Session
  }) => number | boolean | Effect.Effect<number | boolean, E, R>
  /** Metrics are also given for each tag. */
  readonly tags?: ReadonlyArray<string> | undefined
}

/**
 * A problem whose episodes have the server's tools, each in a session of its own.
 *
 * @example
 * ```ts
 * import * as Mcp from "@effect-tinker/agents/Mcp"
 *
 * const files = Mcp.group({
 *   server: { command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem", "/srv/data"] },
 *   question: "How many lines has notes.txt?",
 *   reward: (answer) => answer.includes("12")
 * })
 * ```
 *
 * @since 0.2.0
 * @category constructors
 */
export const group = <E = never, R = never>(
  options: GroupOptions<E, R>
): Environment.Group<E | McpError | RenderFailed | ChatTemplateFailed, R> => {
  const { question, reset, reward, tags } = options
  const start = typeof question === "string" ? [Message.user(question)] : question
  return Environment.group<E | McpError | RenderFailed | ChatTemplateFailed, R>((settings) =>
    Effect.gen(function*() {
      const session = yield* connect(options)
      if (reset !== undefined) yield* reset(session)
      return Environment.messages<E | McpError, R>({
        start,
        tools: session.tools,
        onMessage: (message) =>
          Effect.gen(function*() {
            const transcript = yield* session.transcript
            const given = reward(Message.text(message), { transcript, session })
            const failed = transcript.filter((exchange) => exchange.failed).length
            return Environment.done(Number(Effect.isEffect(given) ? yield* given : given), {
              metrics: { mcp_calls: transcript.length, mcp_errors: failed }
            })
          })
      }, settings)
    }), { tags })
}
