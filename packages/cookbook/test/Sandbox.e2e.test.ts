import * as NodeSandbox from "@effect-tinker/cookbook/NodeSandbox"
import * as Sandbox from "@effect-tinker/cookbook/Sandbox"
import { FileSystem, Path } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import type { Scope } from "effect"
import { Array, Duration, Effect, Either, Fiber, Schedule } from "effect"
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { createServer } from "node:net"
import { missing } from "./utils/bubblewrap.js"
import type { HostileCall, HostileCommand, Witness } from "./utils/hostile.js"
import { calls, commands } from "./utils/hostile.js"

const text = (bytes: Uint8Array | undefined) => new TextDecoder().decode(bytes)

/** A secret in the environment and in a file, a directory, a port and a process: all that a program must not reach. */
const witness = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const secret = `secret-${randomUUID()}`
  const before = process.env["TINKER_API_KEY"]
  yield* Effect.acquireRelease(
    Effect.sync(() => process.env["TINKER_API_KEY"] = secret),
    () =>
      Effect.sync(() => {
        if (before === undefined) delete process.env["TINKER_API_KEY"]
        else process.env["TINKER_API_KEY"] = before
      })
  )
  const directory = yield* fs.makeTempDirectoryScoped()
  // What is open to everybody, so that only the sandbox is in the way.
  yield* fs.chmod(directory, 0o777)
  const secretFile = path.join(directory, "secret")
  yield* fs.writeFileString(secretFile, secret)
  let connections = 0
  const port = yield* Effect.acquireRelease(
    Effect.async<{ readonly number: number; readonly close: () => void }>((resume) => {
      const server = createServer((socket) => {
        connections++
        socket.destroy()
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed({
          number: typeof address === "object" ? address?.port ?? 0 : 0,
          close: () => server.close()
        }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )
  const canary = yield* Effect.acquireRelease(
    Effect.sync(() => spawn("sleep", ["3600"], { stdio: "ignore" })),
    (canary) => Effect.sync(() => canary.kill())
  )
  const given: Witness = { secretFile, directory, port: port.number, pid: canary.pid ?? 0 }
  const harmed = Effect.gen(function*() {
    const harm: Array<string> = []
    if ((yield* fs.readDirectory(directory)).join() !== "secret") harm.push("a file was written")
    if ((yield* fs.readFileString(secretFile)) !== secret) harm.push("a file was changed")
    if (canary.exitCode !== null || canary.signalCode !== null) harm.push("a process was ended")
    if (connections > 0) harm.push("a connection was made")
    if (process.env["TINKER_API_KEY"] !== secret) harm.push("the environment was changed")
    return harm
  })
  return { given, harmed, secret }
})

/** Innocent programs whose results are known, for which there is time however busy the machine is. */
const innocent = Effect.fnUntraced(function*(sandbox: Sandbox.Service) {
  const limits = { time: "1 minute" } as const
  const results = yield* Effect.either(Effect.all([
    sandbox.call("(a, b) => [a, b].map((x) => x * 2)", [[1, 2], [3, 4]], limits),
    sandbox.call("async (o) => JSON.stringify(o) + Object.keys({}) + String([1].concat(2))", [[{ a: 1 }]], limits)
  ]))
  return JSON.stringify(Either.getOrElse(results, ({ message }) => message)) ===
      "[[[2,4],[6,8]],[\"{\\\"a\\\":1}1,2\"]]"
    ? []
    : [`the next program: ${JSON.stringify(results)}`]
})

const limits = { time: "2 seconds", memory: 256 * 1024 * 1024, output: 100_000 } as const

/** What was wrong with a program, in words. */
const attempt = Effect.fnUntraced(
  function*(
    sandbox: Sandbox.Service,
    program: HostileCall | HostileCommand,
    { given, harmed, secret }: Effect.Effect.Success<typeof witness>
  ) {
    const wrong: Array<string> = []
    const [took, outcome] = yield* Effect.timed(Effect.either(
      "source" in program
        ? Effect.map(
          sandbox.call(
            program.source,
            [[given]],
            sandbox.name === "quickjs" ? { ...limits, memory: undefined } : limits
          ),
          (results) => {
            if (results.length !== 1) wrong.push(`${results.length} results`)
            if (program.gives !== undefined && !program.gives(results[0])) {
              wrong.push(`gave ${JSON.stringify(results[0])}`)
            }
            if (program.gives === undefined && program.ends !== undefined) {
              wrong.push(`gave ${JSON.stringify(results[0])}`)
            }
            return JSON.stringify(results)
          }
        )
        : Effect.map(
          sandbox.run({
            command: program.command,
            files: Object.fromEntries(
              Object.entries(program.files ?? {}).map((
                [path, data]
              ) => [path, data.replace("PORT", String(given.port))])
            ),
            outputs: program.outputs,
            limits
          }),
          ({ exitCode, files, stderr, stdout }) => {
            const result = { exitCode, stdout: text(stdout), files: new Set(files.keys()) }
            if (program.gives?.(result) !== true) {
              wrong.push(`gave ${exitCode} ${result.stdout.slice(0, 300)} ${text(stderr)}`)
            }
            return `${result.stdout}${text(stderr)}${Array.fromIterable(files.values()).map(text)}`
          }
        )
    ))
    if (Either.isLeft(outcome)) {
      const { left } = outcome
      if (left._tag === "SandboxUnavailable") wrong.push(left.message)
      // A sandbox may end any program for its limits or as one that fails; where reasons are named, for one of those.
      else if (
        program.ends?.includes(left.reason) === false || (program.ends === undefined && program.gives !== undefined)
      ) {
        wrong.push(`ended for ${left.message}`)
      }
    }
    const said = Either.match(outcome, { onLeft: ({ message }) => message, onRight: (said) => said })
    if (said.includes(secret)) wrong.push(`the secret leaked: ${said.slice(0, 300)}`)
    if (Duration.toSeconds(took) > 60) wrong.push(`took ${Duration.format(took)}`)
    wrong.push(...yield* harmed, ...yield* innocent(sandbox))
    return wrong.map((what) => `${program.name}: ${what}`)
  }
)

const escape = Effect.fnUntraced(
  function*(
    sandbox: Sandbox.Service,
    programs: ReadonlyArray<HostileCall | HostileCommand>
  ) {
    const found = yield* witness
    const wrong = yield* Effect.forEach(programs, (program) => attempt(sandbox, program, found), { concurrency: 2 })
    assert.deepStrictEqual(wrong.flat(), [])
  },
  Effect.scoped,
  Effect.provide(NodeContext.layer)
)

/** Processes of programs that should have ended with them. */
const processesOf = (word: string) =>
  readdirSync("/proc").filter((name) => /^\d+$/.test(name)).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(word)
    } catch {
      return false
    }
  })

const long = 600_000

/** bubblewrap as a command that wraps another, as `docker run` would be; from root, as nobody. */
const wrapped = NodeSandbox.makeCommand({
  name: "command",
  directory: "/tmp",
  node: process.execPath,
  wrap: (command, { limits }) => [
    ...process.getuid?.() === 0
      ? ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] as const
      : ["env"] as const,
    ...["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"],
    ...[
      "--uid",
      "65534",
      "--gid",
      "65534",
      "--ro-bind",
      "/usr",
      "/usr",
      "--ro-bind-try",
      "/etc/alternatives",
      "/etc/alternatives"
    ],
    ...["--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"],
    ...["--proc", "/proc", "--dev", "/dev", "--size", String(limits.disk), "--tmpfs", "/tmp"],
    ...["--remount-ro", "/dev", "--remount-ro", "/"],
    ...["prlimit", `--data=${limits.memory}`, `--nproc=${limits.processes}`, `--fsize=${limits.disk}`],
    ...command
  ]
})

describe("Sandbox", () => {
  it.scopedLive("programs do not get out of QuickJS, nor spoil the next one", () =>
    Effect.gen(function*() {
      const sandbox = yield* NodeSandbox.makeQuickJs()
      yield* escape(sandbox, calls)
    }), long)

  const processes = (
    make: Effect.Effect<Sandbox.Service, Sandbox.SandboxUnavailable, Scope.Scope>,
    programs: ReadonlyArray<HostileCall | HostileCommand>
  ) =>
    Effect.gen(function*() {
      yield* escape(yield* make, programs)
      assert.deepStrictEqual(processesOf("98.7654"), [])
    })

  it.scopedLive(
    "programs do not get out of bubblewrap, nor spoil the next one",
    (context) =>
      Effect.flatMap(missing, (why) =>
        why === undefined
          ? processes(NodeSandbox.makeBubblewrap(), [...calls, ...commands])
          : Effect.sync(() => context.skip(why))),
    long
  )

  it.scopedLive(
    "programs do not get out of a command that wraps them, nor spoil the next one",
    (context) =>
      Effect.flatMap(missing, (why) =>
        why === undefined
          ? processes(wrapped, [...calls, ...commands.filter(({ beyond }) => beyond !== true)])
          : Effect.sync(() => context.skip(why))),
    long
  )

  const bubblewrap = (
    context: { readonly skip: (why: string) => void },
    use: (sandbox: Sandbox.Service) => Effect.Effect<void, unknown, Sandbox.Sandbox>
  ) =>
    Effect.gen(function*() {
      const why = yield* missing
      if (why !== undefined) return context.skip(why)
      const sandbox = yield* NodeSandbox.makeBubblewrap({ limits: { time: "1 minute" } })
      yield* Effect.provideService(use(sandbox), Sandbox.Sandbox, sandbox)
    })

  it.live(
    "bubblewrap runs Python with files, input and an exit code",
    (context) =>
      bubblewrap(context, (sandbox) =>
        Effect.gen(function*() {
          const given = yield* sandbox.run({
            command: ["python3", "src/main.py", "it's", "$HOME"],
            files: {
              "src/main.py": [
                "import os, sys",
                "print(sys.argv[1:], sys.stdin.read(), sorted(os.environ))",
                "open('made.txt', 'w').write('x' * 3)",
                "os.makedirs('deep/er')",
                "open('deep/er/file', 'w')",
                "sys.stderr.write('complaint')",
                "sys.exit(7)"
              ].join("\n"),
              "data.bin": new Uint8Array([0, 255])
            },
            stdin: "input",
            outputs: ["made.txt", "deep", "data.bin", "missing"]
          })
          assert.strictEqual(given.exitCode, 7)
          // The variable is Python's own, for a locale that is not set.
          assert.strictEqual(text(given.stdout), "[\"it's\", '$HOME'] input ['LC_CTYPE']\n")
          assert.strictEqual(text(given.stderr), "complaint")
          assert.deepStrictEqual(
            Object.fromEntries(Array.fromIterable(given.files).map(([path, data]) => [path, Array.fromIterable(data)])),
            { "made.txt": [120, 120, 120], "deep/er/file": [], "data.bin": [0, 255] }
          )
          const inline = yield* sandbox.run({ command: ["python3", "-c", "print(6 * 7)"] })
          assert.strictEqual(text(inline.stdout), "42\n")
          assert.strictEqual((yield* sandbox.run({ command: ["no-such-command"] })).exitCode, 127)
        })),
    long
  )

  it.live(
    "a workspace keeps links and permissions, and goes back to a snapshot",
    (context) =>
      bubblewrap(context, () =>
        Effect.gen(function*() {
          const workspace = yield* Sandbox.workspace()
          const sh = (code: string) =>
            Effect.map(workspace.run({ command: ["sh", "-c", code] }), ({ stdout }) => text(stdout).trim())
          yield* sh("echo one >file; chmod 640 file; ln -s file link; mkdir empty")
          const before = yield* workspace.snapshot
          assert.strictEqual(yield* sh("cat link; stat -c %a file; ls -d empty"), "one\n640\nempty")
          yield* sh("echo two >file; rm -r empty")
          assert.strictEqual(yield* sh("cat link; ls"), "two\nfile\nlink")
          yield* workspace.reset(before)
          assert.strictEqual(yield* sh("cat link; ls"), "one\nempty\nfile\nlink")
          // One that fails leaves the files as they were.
          yield* Effect.flip(workspace.run({ command: ["sh", "-c", "rm file; yes"], limits: { output: 1000 } }))
          assert.strictEqual(yield* sh("cat file"), "one")
          yield* workspace.reset()
          assert.strictEqual(yield* sh("ls"), "")
        })),
    long
  )

  it.live(
    "what interrupts a program ends its processes",
    (context) =>
      bubblewrap(context, (sandbox) =>
        Effect.gen(function*() {
          // Of this run alone: others may run the same tests on this machine.
          const seconds = `97.${process.pid}`
          const alive = Effect.sync(() => processesOf(seconds).length > 0)
          // From the moment it is spawned on, when bubblewrap has not set anything up yet.
          for (const after of [0, 2, 5, 10, 50, 200]) {
            const running = yield* Effect.fork(sandbox.run({ command: ["sleep", seconds] }))
            yield* Effect.repeat(alive, { until: (yes) => yes, schedule: Schedule.spaced("1 millis") }).pipe(
              Effect.raceFirst(Effect.zipRight(Fiber.join(running), Effect.never)),
              Effect.timeout("1 minute")
            )
            yield* Effect.sleep(Duration.millis(after))
            yield* Fiber.interrupt(running)
            yield* Effect.repeat(alive, { until: (yes) => !yes, schedule: Schedule.spaced("20 millis") }).pipe(
              Effect.timeout("1 minute")
            )
          }
        })),
    long
  )
})
