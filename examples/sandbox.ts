/**
 * Programs a model wrote, tested where they can do no harm: functions in JavaScript, and Python where there is bubblewrap.
 */
import { Sandbox } from "@effect-tinker/cookbook"
import * as NodeSandbox from "@effect-tinker/cookbook/NodeSandbox"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Schema } from "effect"

const inputs = [[1, 2], [10, 5]]
const wanted = [3, 15]

const share = (results: ReadonlyArray<unknown>) =>
  results.filter((result, i) => result === wanted[i]).length / wanted.length

/** The share of the tests that a function passes. What is expected never enters the sandbox. */
export const grade = (source: string) =>
  Effect.gen(function*() {
    const sandbox = yield* Sandbox.Sandbox
    return share(yield* sandbox.call(source, inputs))
  }).pipe(Effect.catchTag("SandboxFailed", ({ reason }) => Effect.as(Console.log(reason), 0)))

const Numbers = Schema.parseJson(Schema.Array(Schema.Number))

/** The same for Python: the program and the inputs go in, the results come out as text. */
export const gradePython = (code: string) =>
  Effect.gen(function*() {
    const sandbox = yield* Sandbox.Sandbox
    const { stdout } = yield* sandbox.run({
      command: ["python3", "main.py"],
      files: {
        "main.py": `${code}\nimport json, sys\nprint(json.dumps([add(*args) for args in json.load(sys.stdin)]))\n`
      },
      stdin: JSON.stringify(inputs),
      limits: { time: "5 seconds", memory: 256 * 1024 * 1024 }
    })
    return share(yield* Schema.decodeUnknown(Numbers)(new TextDecoder().decode(stdout)))
  }).pipe(Effect.catchTags({ SandboxFailed: () => Effect.succeed(0), ParseError: () => Effect.succeed(0) }))

/** A container of Docker for every program. */
export const docker = NodeSandbox.layerCommand({
  name: "docker",
  wrap: (command, { id, limits }) => [
    "docker",
    ...["run", "--rm", "--interactive", "--name", id, "--network", "none", "--user", "65534:65534"],
    ...["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"],
    ...["--tmpfs", `/tmp:mode=1777,exec,size=${limits.disk}`, "--pids-limit", String(limits.processes)],
    ...["--memory", String(limits.memory), "--memory-swap", String(limits.memory), "node:22-slim"],
    ...command
  ],
  stop: (id) => ["docker", "kill", id],
  env: { PATH: "/usr/local/bin:/usr/bin:/bin" }
})

/** The client of a service that hosts sandboxes, as E2B, Modal and Vercel do. */
interface Hosted {
  readonly create: (options: { readonly timeoutMs: number }) => Promise<{
    readonly write: (path: string, data: Uint8Array) => Promise<void>
    readonly run: (command: ReadonlyArray<string>, stdin: Uint8Array) => Promise<{
      readonly exitCode: number
      readonly stdout: Uint8Array
      readonly stderr: Uint8Array
    }>
    readonly read: (path: string) => Promise<Uint8Array | undefined>
    readonly destroy: () => Promise<void>
  }>
}

export const hosted = (client: Hosted) => {
  const ask = <A>(promise: () => Promise<A>) =>
    Effect.tryPromise({
      try: promise,
      catch: (error) => new Sandbox.SandboxUnavailable({ sandbox: "hosted", description: String(error) })
    })
  return Sandbox.make({
    name: "hosted",
    run: ({ command, files, limits, outputs, stdin }) =>
      Effect.acquireUseRelease(
        ask(() => client.create({ timeoutMs: 60_000 })),
        (machine) =>
          Effect.gen(function*() {
            for (const [path, data] of files) yield* ask(() => machine.write(path, data))
            const result = yield* ask(() => machine.run(command, stdin)).pipe(Effect.timeoutFail({
              duration: limits.time,
              onTimeout: () => new Sandbox.SandboxFailed({ reason: "Timeout", description: "it took too long" })
            }))
            const read = new Map<string, Uint8Array>()
            for (const path of outputs) {
              const data = yield* ask(() => machine.read(path))
              if (data !== undefined) read.set(path, data)
            }
            return { ...result, files: read }
          }),
        (machine) => Effect.ignore(ask(() => machine.destroy()))
      )
  })
}

const program = Effect.gen(function*() {
  for (
    const source of ["(a, b) => a + b", "(a, b) => a * b + 1", "() => { for (;;) {} }", "() => process.env", "hello"]
  ) {
    yield* Console.log(`${source}: ${yield* grade(source)}`)
  }
}).pipe(Effect.provide(NodeSandbox.layerQuickJs({ limits: { time: "1 second" } })))

NodeRuntime.runMain(program)
