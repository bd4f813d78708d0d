import * as NodeSandbox from "@effect-tinker/cookbook/NodeSandbox"
import * as Sandbox from "@effect-tinker/cookbook/Sandbox"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { filter } from "../src/internal/sandbox/seccomp.js"
import * as Tar from "../src/internal/sandbox/tar.js"
import { limitMemory } from "../src/internal/sandbox/wasm.js"

const reasonOf = (source: string, limits?: Sandbox.Limits) =>
  Effect.gen(function*() {
    const sandbox = yield* Sandbox.Sandbox
    const error = yield* Effect.flip(sandbox.call(source, [[]], limits))
    return error._tag === "SandboxFailed" ? error.reason : error.message
  })

/** Patient, so that a busy machine does not decide which limit is reached first. */
const Live = NodeSandbox.layerQuickJs({ limits: { time: "1 minute", output: 1000 } })

describe("NodeSandbox.layerQuickJs", () => {
  it.live("calls a function with each list of arguments", () =>
    Effect.gen(function*() {
      const sandbox = yield* Sandbox.Sandbox
      assert.deepStrictEqual(yield* sandbox.call("(a, b) => a + b", [[1, 2], ["x", "y"]]), [3, "xy"])
      assert.deepStrictEqual(yield* sandbox.call("function (x) { return { x: [x] } }", [[null]]), [{ x: [null] }])
      assert.deepStrictEqual(yield* sandbox.call("() => undefined // nothing", [[]]), [null])
      assert.deepStrictEqual(yield* sandbox.call("async (x) => { await null; return x }", [[1], [2]]), [1, 2])
    }).pipe(Effect.provide(Live)))

  it.live("limits time, memory and output, and is ready for the next program", () =>
    Effect.gen(function*() {
      const sandbox = yield* Sandbox.Sandbox
      assert.strictEqual(yield* reasonOf("() => { for (;;) {} }", { time: "1 second" }), "Timeout")
      assert.strictEqual(yield* reasonOf("() => new Promise(() => {})"), "Timeout")
      assert.strictEqual(
        yield* reasonOf("() => { const a = []; for (;;) a.push(new Float64Array(1e6)) }"),
        "OutOfMemory"
      )
      assert.strictEqual(yield* reasonOf("() => 'x'.repeat(1e8)"), "OutOfMemory")
      assert.strictEqual(yield* reasonOf("() => 'x'.repeat(2000)"), "OutputTooLarge")
      assert.strictEqual(yield* reasonOf("() => 'ö'.repeat(600)"), "OutputTooLarge")
      assert.strictEqual(yield* reasonOf("() => 1n"), "Unserializable")
      assert.strictEqual(yield* reasonOf("() => { throw new Error('no') }"), "Thrown")
      assert.strictEqual(yield* reasonOf("this is no program"), "Thrown")
      const many = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, n) => n),
        (n) => sandbox.call("(n) => n * 2", [[n]]),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(many.flat(), Array.from({ length: 20 }, (_, n) => 2 * n))
    }).pipe(Effect.provide(Live)))

  it.live("a program sees nothing but the language, and the same every time", () =>
    Effect.gen(function*() {
      const sandbox = yield* Sandbox.Sandbox
      const names = ["process", "require", "fetch", "setTimeout", "WebAssembly", "tell", "console"]
      for (const name of names) {
        assert.deepStrictEqual(yield* sandbox.call(`() => typeof ${name}`, [[]]), ["undefined"])
      }
      const chance = "() => [Math.random(), Date.now(), new Date().getTimezoneOffset()]"
      assert.deepStrictEqual(yield* sandbox.call(chance, [[]]), yield* sandbox.call(chance, [[]]))
    }).pipe(Effect.provide(Live)))

  it.live("an answer that a program made too large stays inside", () =>
    Effect.gen(function*() {
      const sandbox = yield* Sandbox.Sandbox
      const source = "() => { String.prototype.slice = () => 'x'.repeat(1e6); throw new Error('no') }"
      const error = yield* Effect.flip(sandbox.call(source, [[]]))
      assert.include(error.message, "characters, of 1000 bytes allowed")
    }).pipe(Effect.provide(Live)))

  it.live("a program finds nothing that the one before it left on the same thread", () =>
    Effect.gen(function*() {
      const sandbox = yield* NodeSandbox.makeQuickJs({ threads: 1, limits: { time: "1 minute" } })
      const spoil = "() => { globalThis.left = 1; Array.prototype.map = () => 'forged'; JSON.stringify = () => '9' }"
      yield* sandbox.call(spoil, [[]])
      const found = yield* sandbox.call("() => [typeof left, [1].map((n) => n + 1)]", [[]])
      assert.deepStrictEqual(found, [["undefined", [2]]])
    }).pipe(Effect.scoped))

  it.live("runs no commands, and does not start with too little memory", () =>
    Effect.gen(function*() {
      const sandbox = yield* NodeSandbox.makeQuickJs()
      const refused = yield* Effect.flip(sandbox.run({ command: ["true"] }))
      assert.strictEqual(refused._tag, "SandboxUnavailable")
      const small = yield* Effect.flip(NodeSandbox.makeQuickJs({ limits: { memory: 65_536 } }))
      assert.include(small.message, "The sandbox \"quickjs\" is not available")
    }).pipe(Effect.scoped))
})

describe("NodeSandbox.layerBubblewrap", () => {
  it.live("is unavailable, and nothing weaker, where there is no bubblewrap", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(NodeSandbox.makeBubblewrap({ bwrap: "/nowhere/bwrap" }))
      assert.strictEqual(error._tag, "SandboxUnavailable")
      assert.strictEqual(error.sandbox, "bubblewrap")
    }))

  it.live("is unavailable for programs that would be root", (context) =>
    Effect.gen(function*() {
      if (process.getuid?.() !== 0) return context.skip("this process is not root")
      const error = yield* Effect.flip(NodeSandbox.makeBubblewrap({ user: { uid: 0, gid: 0 } }))
      assert.include(error.message, "programs cannot be root")
    }))
})

describe("Sandbox.make", () => {
  const result: Sandbox.Result = { exitCode: 0, stdout: new Uint8Array(), stderr: new Uint8Array(), files: new Map() }
  const bytes = (text: string) => new TextEncoder().encode(text)

  it.effect("gives an adapter every limit, checked paths and bytes", () =>
    Effect.gen(function*() {
      const requests: Array<Sandbox.Request> = []
      const sandbox = Sandbox.make({
        name: "mine",
        limits: { processes: 3 },
        run: (request) => Effect.sync(() => (requests.push(request), result))
      })
      yield* sandbox.run({ command: ["cat"], files: { "a/b": "x" }, stdin: "in", limits: { time: "3 seconds" } })
      const [request] = requests
      assert.deepStrictEqual(request?.files, new Map([["a/b", bytes("x")]]))
      assert.deepStrictEqual(request?.limits, Sandbox.resolve({ time: "3 seconds", processes: 3 }))
      for (const path of ["../a", "/etc/passwd", "a/../../b", "a//b", "a\nb", "", "."]) {
        const inward = yield* Effect.flip(sandbox.run({ command: ["cat"], files: { [path]: "" } }))
        const outward = yield* Effect.flip(sandbox.run({ command: ["cat"], outputs: [path] }))
        assert.deepStrictEqual([inward._tag, outward._tag], ["SandboxUnavailable", "SandboxUnavailable"], path)
      }
      assert.strictEqual(requests.length, 1)
    }))

  it.effect("does not believe an adapter: output, files and answers are looked at again", () =>
    Effect.gen(function*() {
      const failure = (
        given: Partial<Sandbox.Result>,
        use: (sandbox: Sandbox.Service) => Effect.Effect<unknown, unknown>
      ) =>
        Effect.map(
          Effect.flip(use(Sandbox.make({ name: "mine", run: () => Effect.succeed({ ...result, ...given }) }))),
          (error) => error instanceof Sandbox.SandboxFailed ? error.reason : String(error)
        )
      const run = (sandbox: Sandbox.Service) => sandbox.run({ command: ["x"], limits: { output: 10, disk: 10 } })
      assert.strictEqual(yield* failure({ stdout: new Uint8Array(11) }, run), "OutputTooLarge")
      assert.strictEqual(yield* failure({ stderr: new Uint8Array(11) }, run), "OutputTooLarge")
      assert.strictEqual(yield* failure({ files: new Map([["a", new Uint8Array(21)]]) }, run), "OutputTooLarge")
      const answer = (text: string | Uint8Array) =>
        failure(
          { files: new Map([["answer.json", typeof text === "string" ? bytes(text) : text]]) },
          (sandbox) => sandbox.call("x", [[]], { output: 20_000 })
        )
      assert.strictEqual(yield* failure({}, (sandbox) => sandbox.call("x", [[]])), "Crashed")
      assert.strictEqual(yield* answer("{\"results\":[1,2]}"), "Unserializable")
      assert.strictEqual(yield* answer("{\"results\":1}"), "Unserializable")
      assert.strictEqual(yield* answer("no json"), "Unserializable")
      assert.strictEqual(yield* answer(new Uint8Array([0x22, 0xff, 0x22])), "Unserializable")
      assert.strictEqual(yield* answer(`{"results":[${"[".repeat(1000)}${"]".repeat(1000)}]}`), "Unserializable")
      assert.strictEqual(yield* answer(`{"results":["${"x".repeat(30_000)}"]}`), "OutputTooLarge")
      // Of one that is too large nothing is parsed, so that nobody knows that it is no JSON.
      assert.strictEqual(yield* answer("x".repeat(30_000)), "OutputTooLarge")
      assert.strictEqual(yield* answer("{\"reason\":\"Thrown\",\"description\":\"no\"}"), "Thrown")
    }))
})

describe("archives", () => {
  it("come back as they were, long names and all", () => {
    const files = new Map([
      ["a", new Uint8Array()],
      [`${"d/".repeat(80)}ö`, new Uint8Array(513).fill(7)],
      ["b", new Uint8Array(512).fill(1)]
    ])
    const first = Tar.write(files)
    assert.deepStrictEqual(Tar.read(first)?.files, files)
    const both = Tar.read(Tar.write([["c", new Uint8Array([1])]], first))
    assert.deepStrictEqual([...both?.files.keys() ?? []], [...files.keys(), "c"])
  })

  it("that are cut short or no archives are nothing", () => {
    const archive = Tar.write([["a", new Uint8Array(600)]])
    for (const size of [0, 100, 512, 1000, 1500, 1536]) assert.isUndefined(Tar.read(archive.subarray(0, size)))
    assert.isUndefined(Tar.read(new Uint8Array(2048).fill(65)))
  })
})

describe("a limit on the memory of a module", () => {
  // (module (memory 1 <max?>) (export "m" (memory 0))), by hand
  const head = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]
  const exported = [7, 5, 1, 1, 0x6d, 2, 0]

  it("is that of the engine, whether there was one or not", () => {
    for (const section of [[5, 3, 1, 0, 1], [5, 5, 1, 1, 1, 0x80, 2]]) {
      const limited = limitMemory(new Uint8Array([...head, ...section, ...exported]), 200)
      assert.strictEqual(limited?.initial, 1)
      const { exports } = new WebAssembly.Instance(new WebAssembly.Module(limited?.bytes ?? new Uint8Array()))
      const { m } = exports
      assert.instanceOf(m, WebAssembly.Memory)
      assert.strictEqual(m.grow(199), 1)
      assert.throws(() => m.grow(1), RangeError)
    }
    assert.isUndefined(limitMemory(new Uint8Array(head), 200))
  })
})

describe("the filter of system calls", () => {
  /** The filter as the kernel runs it. */
  const verdict = (program: Uint8Array, arch: number, call: number, argument = 0) => {
    const lines = new DataView(program.buffer)
    const data = new Map([[0, call], [4, arch], [16, argument]])
    let value = 0
    for (let i = 0;; i++) {
      const code = lines.getUint16(8 * i, true)
      const k = lines.getUint32(8 * i + 4, true)
      if (code === 0x06) return k
      if (code === 0x20) value = data.get(k) ?? NaN
      else i += lines.getUint8(8 * i + ((code === 0x15 ? value === k : value >= k) ? 2 : 3))
    }
  }
  const allowed = 0x7fff0000

  it("refuses what is named, and sockets of other families", () => {
    const x64 = filter("x64") ?? new Uint8Array()
    const arch = 0xc000003e
    assert.strictEqual(verdict(x64, arch, 0), allowed) // read
    assert.strictEqual(verdict(x64, arch, 231), allowed) // exit_group
    assert.strictEqual(verdict(x64, arch, 319), 0x50026) // memfd_create: ENOSYS
    assert.strictEqual(verdict(x64, arch, 238), 0x50026) // the last of them
    assert.strictEqual(verdict(x64, arch, 0x40000000), 0x50026) // read, as x32
    assert.strictEqual(verdict(x64, arch, 41, 1), allowed) // a unix socket
    assert.strictEqual(verdict(x64, arch, 41, 16), allowed) // netlink
    assert.strictEqual(verdict(x64, arch, 41, 40), 0x50061) // a vsock: EAFNOSUPPORT
    assert.strictEqual(verdict(x64, 0x40000003, 0), 0x80000000) // i386
    const arm64 = filter("arm64") ?? new Uint8Array()
    assert.strictEqual(verdict(arm64, 0xc00000b7, 63), allowed) // read
    assert.strictEqual(verdict(arm64, 0xc00000b7, 117), 0x50026) // ptrace
    assert.strictEqual(verdict(arm64, 0xc00000b7, 198, 40), 0x50061)
    assert.isUndefined(filter("mips"))
  })
})
