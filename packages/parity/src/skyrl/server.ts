/**
 * A real SkyRL server on this machine's CPU: its environment, a model it can train, and the process group it runs in.
 */
import { Command, FileSystem, HttpClient, Path } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Config, Console, Effect, Option, Schedule, Stream } from "effect"
import * as Net from "node:net"
import * as Python from "../Python.js"
import { PythonMissing } from "../Suite.js"

const missing = (reason: string) => new PythonMissing({ reason })

/** The release that its users install. */
export const release = "0.3.0"

export interface Environment {
  readonly python: Python.Python
  /** Its interpreter, `uv` beside it. */
  readonly interpreter: string
  /** A tiny random Qwen3, by which the server knows it too. */
  readonly model: string
  /** What is added to the module path: a checkout, and what stands in for torch and peft. */
  readonly pythonPath: string
  /** `skyrl 0.3.0`, or the checkout. */
  readonly version: string
}

/**
 * The environment of the server and of the client it pins. `SKYRL_PYTHON` names an interpreter that has everything,
 * `SKYRL_SOURCE` a checkout to run instead of the release.
 */
export const environment: Effect.Effect<
  Environment,
  PythonMissing,
  NodeContext.NodeContext
> = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const source = yield* Config.string("SKYRL_SOURCE").pipe(Config.option, Effect.orDie)
  const { interpreter, ...python } = yield* Python.makeSkyrl(release)
  const standIns = path.join(Python.root, "python", "skyrl_server", "standins")
  const model = path.join(Python.root, ".venv-skyrl-model")
  if (!(yield* fs.exists(path.join(model, "tokenizer_config.json")))) {
    yield* python.run("skyrl_server.tiny_model", model).pipe(Effect.mapError(({ message }) => missing(message)))
  }
  return {
    python,
    interpreter,
    model,
    pythonPath: [...Option.toArray(source), standIns].join(":"),
    version: Option.getOrElse(source, () => `skyrl ${release}`)
  }
}).pipe(
  Effect.catchTags({
    BadArgument: (error) => missing(error.message),
    SystemError: (error) => missing(error.message)
  })
)

const freePort = Effect.async<number>((resume) => {
  const probe = Net.createServer()
  probe.listen(0, "127.0.0.1", () => {
    const address = probe.address()
    probe.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

export interface Running {
  readonly baseUrl: string
  /** Ends the group and waits until it is gone. */
  readonly stop: Effect.Effect<void>
}

const killGroup = (pid: number, signal: NodeJS.Signals) => Effect.ignore(Effect.try(() => process.kill(-pid, signal)))

/** Starts the server in a directory that keeps its database and checkpoints, until the scope closes. */
export const start = Effect.fnUntraced(
  function*(environment: Environment, directory: string, port?: number) {
    const path = yield* Path.Path
    const client = yield* HttpClient.HttpClient
    const at = port ?? (yield* freePort)
    const baseUrl = `http://127.0.0.1:${at}`
    const bin = path.dirname(environment.interpreter)
    // It reads its parent's command line, which must begin like this, to start its engine in the same way.
    const child = yield* Command.start(
      Command.make(
        path.join(bin, "uv"),
        ...["run", "--no-project", "--python", environment.interpreter, "-m", "skyrl.tinker.api"],
        ...["--host", "127.0.0.1", "--port", String(at), "--base-model", environment.model],
        ...["--backend-config", JSON.stringify({ max_lora_adapters: 16, max_lora_rank: 32 })],
        ...["--checkpoints-base", path.join(directory, "checkpoints")],
        ...["--database-url", `sqlite:///${path.join(directory, "tinker.db")}`]
      ).pipe(
        Command.workingDirectory(directory),
        Command.env({
          PATH: `${bin}:${process.env["PATH"] ?? ""}`,
          PYTHONPATH: environment.pythonPath,
          JAX_PLATFORMS: "cpu",
          HF_HUB_OFFLINE: "1",
          TRANSFORMERS_OFFLINE: "1",
          UV_OFFLINE: "1"
        })
      )
    )
    const said: Array<string> = []
    yield* Stream.merge(child.stdout, child.stderr).pipe(
      Stream.decodeText(),
      Stream.splitLines,
      Stream.runForEach((line) =>
        Effect.sync(() => {
          said.push(line)
          if (said.length > 200) said.shift()
        })
      ),
      Effect.ignore,
      Effect.forkScoped
    )
    const stop = child.kill("SIGTERM").pipe(
      Effect.timeout("20 seconds"),
      Effect.ignore,
      // The engine is a process of its own, and must not outlive the API.
      Effect.zipRight(killGroup(child.pid, "SIGKILL"))
    )
    yield* Effect.addFinalizer(() => stop)
    const ended = Effect.flatMap(
      Effect.exit(child.exitCode),
      () => missing(`the SkyRL server ended before it served:\n${said.slice(-20).join("\n")}`)
    )
    yield* client.get(`${baseUrl}/api/v1/healthz`).pipe(
      Effect.filterOrFail(({ status }) => status === 200),
      Effect.scoped,
      Effect.retry(Schedule.spaced("500 millis")),
      Effect.mapError((error) => missing(String(error))),
      Effect.timeoutFail({
        duration: "5 minutes",
        onTimeout: () => missing(`the SkyRL server did not start within 5 minutes:\n${said.slice(-20).join("\n")}`)
      }),
      Effect.raceFirst(ended)
    )
    yield* Console.log(`${environment.version} serves at ${baseUrl}`)
    return { baseUrl, stop } satisfies Running
  },
  Effect.catchTags({
    BadArgument: (error) => missing(error.message),
    SystemError: (error) => missing(error.message)
  })
)
