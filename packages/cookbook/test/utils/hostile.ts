/**
 * Programs that try to get out of a sandbox, to take it down, or to spoil the next program. Each entry says what may come
 * of it; that nothing leaks and nothing is harmed is looked at for all of them.
 */
import type * as Sandbox from "@effect-tinker/cookbook/Sandbox"

export type Outcome =
  | { readonly results: ReadonlyArray<unknown> }
  | { readonly reason: Sandbox.SandboxFailed["reason"] }

export interface HostileCall {
  readonly name: string
  /** The source of a function. Its argument is the witness: what there is on the machine to be reached. */
  readonly source: string
  /** Reasons for which there may be no results; with none given, anything may come of it that leaks nothing. */
  readonly ends?: ReadonlyArray<Sandbox.SandboxFailed["reason"]>
  /** Results that are right, where there may be results. */
  readonly gives?: (result: unknown) => boolean
}

export interface HostileCommand {
  readonly name: string
  readonly command: readonly [string, ...ReadonlyArray<string>]
  readonly files?: Readonly<Record<string, string>>
  readonly outputs?: ReadonlyArray<string>
  /** Held by the bubblewrap layer beyond what bubblewrap itself holds: its filter of system calls, and its watch. */
  readonly beyond?: boolean
  readonly ends?: ReadonlyArray<Sandbox.SandboxFailed["reason"]>
  /** What its results have to be like, where there may be results. */
  readonly gives?: (
    result: { readonly stdout: string; readonly exitCode: number; readonly files: ReadonlySet<string> }
  ) => boolean
}

/** What a program on the machine itself would find. */
export interface Witness {
  readonly secretFile: string
  readonly directory: string
  readonly port: number
  /** A process that does no harm, and that it does no harm to end. */
  readonly pid: number
}

/** Every way to Node.js that there is, then what is to be done with it. */
const node = (body: string) =>
  `async (w) => {
  const ways = [
    () => process,
    () => globalThis.constructor.constructor("return process")(),
    () => (function () { return this })().process,
    () => import("x").catch((e) => e.constructor.constructor("return process")()),
    () => new Error().constructor.constructor("return process")()
  ]
  for (const way of ways) {
    try {
      const process = await way()
      if (process === undefined) continue
      const require = (name) => process.mainModule ? process.mainModule.require(name) : process.getBuiltinModule(name)
      ${body}
    } catch (e) {}
  }
  return "nothing"
}`

const python = (name: string, code: string, rest: Partial<HostileCommand> = {}): HostileCommand => ({
  name,
  command: ["python3", "main.py"],
  files: { "main.py": code },
  ...rest
})
const shell = (name: string, code: string, rest: Partial<HostileCommand> = {}): HostileCommand => ({
  name,
  command: ["sh", "-c", code],
  ...rest
})

const timeout = { ends: ["Timeout"] } as const
const memory = { ends: ["OutOfMemory", "Timeout", "Crashed", "Thrown"] } as const
const output = { ends: ["OutputTooLarge", "OutOfMemory", "Timeout"] } as const

export const calls: ReadonlyArray<HostileCall> = [
  // out of the realm
  {
    name: "the constructor of the global object",
    source: `() => globalThis.constructor.constructor("return process")().env`
  },
  {
    name: "the constructor of an error of import()",
    source: `() => import("x").catch((e) => e.constructor.constructor("return process")().env)`
  },
  {
    name: "the constructor of an awaited error of import()",
    source:
      `async () => { try { await import("node:fs") } catch (e) { return e.constructor.constructor("return process")().env } }`
  },
  {
    name: "import() of a module of Node",
    source: `async (w) => (await import("node:fs")).readFileSync(w.secretFile, "utf8")`
  },
  {
    name: "import() of a data URL",
    source: `async () => (await import("data:text/javascript,export default process.env")).default`
  },
  { name: "code from strings", source: `() => new Function("return process.env")()` },
  { name: "an async function's constructor", source: `() => (async () => {}).constructor("return process.env")()` },
  {
    name: "a generator's constructor",
    source: `() => (function* () {}).constructor("yield process.env")().next().value`
  },
  {
    name: "the stack trace hook",
    source:
      `() => { Error.prepareStackTrace = (e, frames) => frames; const frames = new Error().stack; return String(frames[0].getThis && frames[frames.length - 1].getThis().process.env.TINKER_API_KEY) }`
  },
  {
    name: "the caller of the function",
    source: `function f() { return String(f.caller) + String(arguments.callee.caller) }`
  },
  {
    name: "a Proxy as the result",
    source:
      `() => new Proxy({}, { ownKeys: () => { throw globalThis.process }, get: (t, k) => k === "toJSON" ? () => String(globalThis.process) : 1 })`
  },
  {
    name: "the prototype of a proxied result",
    source: `() => new Proxy(function () {}, { getPrototypeOf: () => { throw new Error("no") } })`
  },
  {
    name: "toJSON that looks at its caller",
    source: `() => ({ toJSON() { return String(globalThis.process && process.env.TINKER_API_KEY) } })`
  },
  {
    name: "a getter that throws a getter",
    source: `() => ({ get a() { throw { get message() { throw { toString() { throw 1 } } } } } })`,
    ends: ["Unserializable"]
  },
  {
    name: "an error whose message is an object",
    source: `() => { throw { message: { toString() { return globalThis.process.env.TINKER_API_KEY } } } }`,
    ends: ["Thrown"]
  },
  { name: "a throw of nothing", source: `() => { throw undefined }`, ends: ["Thrown"] },
  // onto the machine
  { name: "the environment", source: node(`return process.env.TINKER_API_KEY ?? Object.keys(process.env).length`) },
  {
    name: "the environment in /proc",
    source: node(
      `const fs = require("fs"); return ["self", 1, process.pid, process.ppid, w.pid].map((p) => { try { return fs.readFileSync("/proc/" + p + "/environ", "latin1") } catch { return "" } })`
    )
  },
  {
    name: "the memory of the parent",
    source: node(`return require("fs").readFileSync("/proc/" + process.ppid + "/mem", { length: 10 }).length`)
  },
  { name: "a file", source: node(`return require("fs").readFileSync(w.secretFile, "utf8")`) },
  {
    name: "a file through the root of a process",
    source: node(`return require("fs").readFileSync("/proc/1/root" + w.secretFile, "utf8")`)
  },
  {
    name: "a file through a link",
    source: node(
      `const fs = require("fs"); fs.symlinkSync(w.secretFile, "answer.json"); return fs.readFileSync("answer.json", "utf8")`
    )
  },
  {
    name: "its answer as a link to a file",
    source: node(`const fs = require("fs"); fs.symlinkSync("/etc/hostname", "answer.json"); process.reallyExit(0)`),
    ends: ["Crashed", "Unserializable"],
    gives: (r) => r === "nothing"
  },
  { name: "writing a file", source: node(`require("fs").writeFileSync(w.directory + "/written", "x"); return "done"`) },
  {
    name: "writing in every place",
    source: node(
      `const fs = require("fs"); return ["/", "/usr", "/usr/bin", "/etc", "/dev", "/dev/shm", "/run", "/var/tmp", "/root", "/home", w.directory].filter((d) => { try { fs.writeFileSync(d + "/sandbox-was-here", "x"); return true } catch { return false } })`
    ),
    gives: (r) => r === "nothing" || JSON.stringify(r) === "[]"
  },
  {
    name: "settings of the kernel",
    source: node(
      `const fs = require("fs"); return ["/proc/sys/kernel/domainname", "/proc/sys/vm/swappiness", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/self/oom_score_adj_"].filter((p) => { try { fs.writeFileSync(p, fs.readFileSync(p)); return true } catch { return false } })`
    ),
    gives: (r) => r === "nothing" || JSON.stringify(r) === "[]"
  },
  {
    name: "killing another process",
    source: node(
      `try { process.kill(w.pid, "SIGKILL") } catch {}; return "done"`
    )
  },
  {
    name: "a child process",
    source: node(`return require("child_process").execFileSync("cat", [w.secretFile], { encoding: "utf8" })`)
  },
  {
    name: "a worker",
    source: node(
      `const { Worker } = require("worker_threads"); return await new Promise((give) => { new Worker("require('worker_threads').parentPort.postMessage(process.env)", { eval: true }).on("message", give) })`
    )
  },
  {
    name: "the loopback interface",
    source: node(
      `return await new Promise((give) => { require("net").connect(w.port, "127.0.0.1").on("connect", () => give("connected")).on("error", () => give("refused")) })`
    ),
    gives: (r) => r === "nothing" || r === "refused"
  },
  { name: "the inspector", source: node(`require("inspector").open(0, "127.0.0.1"); return "opened"`) },
  {
    name: "native code",
    source: node(`process.dlopen({ exports: {} }, "/lib/x86_64-linux-gnu/libc.so.6"); return "loaded"`)
  },
  {
    name: "internal bindings",
    source: node(
      `return process.binding("fs").readFileUtf8 ? process.binding("fs").readFileUtf8(w.secretFile, 0) : "none"`
    )
  },
  // time
  { name: "a loop", source: `() => { for (;;) {} }`, ...timeout },
  { name: "a loop while the source is evaluated", source: `(() => { for (;;) {} })()`, ...timeout },
  {
    name: "endless microtasks",
    source: `() => new Promise(() => { const f = () => Promise.resolve().then(f); f() })`,
    // Microtasks that are made faster than they are collected end for memory first.
    ends: ["Timeout", "OutOfMemory"]
  },
  { name: "an endless async loop", source: `async () => { for (;;) await null }`, ...timeout },
  { name: "a promise that never settles", source: `() => new Promise(() => {})`, ...timeout },
  { name: "a thenable that never settles", source: `() => ({ then() {} })`, ...timeout },
  {
    name: "a thenable that answers with itself",
    source: `() => { const t = { then(give) { give(t) } }; return t }`,
    ...timeout
  },
  { name: "a loop in toJSON", source: `() => ({ toJSON() { for (;;) {} } })`, ...timeout },
  { name: "a loop in a getter of the result", source: `() => ({ get a() { for (;;) {} } })`, ...timeout },
  { name: "a loop in a Proxy of the result", source: `() => new Proxy({}, { ownKeys() { for (;;) {} } })`, ...timeout },
  {
    name: "a loop in the message of an error",
    source: `() => { throw { get message() { for (;;) {} } } }`,
    ...timeout
  },
  {
    name: "a loop that catches everything",
    source: `() => { for (;;) { try { for (;;) {} } catch {} finally { continue } } }`,
    ...timeout
  },
  { name: "a regular expression that backtracks", source: `() => /^(a+)+$/.test("a".repeat(50) + "b")`, ...timeout },
  {
    name: "an endless sort",
    source: `() => Array.from({ length: 1000 }, (_, i) => i).sort(() => { for (;;) {} })`,
    ...timeout
  },
  {
    name: "timers that go on",
    source: `() => { globalThis.setInterval && setInterval(() => {}, 1); return new Promise(() => {}) }`,
    ...timeout
  },
  // memory
  { name: "a string of 1e8 characters", source: `() => "x".repeat(1e8)`, ...output },
  { name: "a string of 3e7 characters", source: `() => "x".repeat(3e7)`, ...output },
  {
    name: "a string that doubles",
    source: `() => { let s = "x"; for (;;) s += s }`,
    ends: ["OutOfMemory", "Thrown", "Crashed"]
  },
  {
    name: "an array that grows",
    source: `() => { const a = []; for (;;) a.push(new Array(10000).fill(a.length)) }`,
    ...memory
  },
  { name: "typed arrays", source: `() => { const a = []; for (;;) a.push(new Float64Array(1e6).fill(1)) }`, ...memory },
  { name: "one large buffer", source: `() => new Uint8Array(4e9).fill(1).length`, ...memory },
  {
    name: "a buffer that is resized",
    source:
      `() => { const b = new ArrayBuffer(1, { maxByteLength: 4e9 }); b.resize(4e9); return new Uint8Array(b).fill(1).length }`,
    ...memory
  },
  {
    name: "memory of WebAssembly",
    source:
      `() => { const m = []; for (;;) { const x = new WebAssembly.Memory({ initial: 1000 }); new Uint8Array(x.buffer).fill(1); m.push(x) } }`,
    ...memory
  },
  { name: "a large BigInt", source: `() => String(2n ** 500000000n).length`, ...memory },
  { name: "deep recursion", source: `function f() { return 1 + f() }`, ends: ["Thrown", "OutOfMemory"] },
  {
    name: "recursion that is caught",
    source: `() => { const f = () => { try { f() } catch { f() } }; f() }`,
    ends: ["Timeout", "Thrown", "OutOfMemory", "Crashed"]
  },
  {
    name: "a deep result",
    source: `() => { let r = []; for (let i = 0; i < 100000; i++) r = [r]; return r }`,
    ends: ["Unserializable", "OutOfMemory", "Timeout"]
  },
  {
    name: "deep source text",
    source: `() => ${"[".repeat(50_000)}${"]".repeat(50_000)}`,
    ends: ["Thrown", "Unserializable", "OutOfMemory", "Crashed"]
  },
  {
    name: "deep text as the result",
    source: `() => ({ toJSON: undefined, a: JSON.parse("[".repeat(5000) + "]".repeat(5000)) })`,
    ends: ["Unserializable", "Thrown", "OutOfMemory"]
  },
  { name: "many keys", source: `() => { const o = {}; for (let i = 0;; i++) o["key" + i] = i }`, ...memory },
  // forging
  {
    name: "more results than calls",
    source: `() => { const s = JSON.stringify; JSON.stringify = () => "1,2,3"; return 1 }`,
    gives: (r) => r === 1
  },
  {
    name: "an answer through Array.prototype",
    source:
      `() => { Array.prototype.map = () => [42]; Array.prototype.push = () => 42; Object.prototype.results = [42]; return 1 }`,
    gives: (r) => r === 1
  },
  {
    name: "toJSON on the prototype of everything",
    source:
      `() => { Object.prototype.toJSON = () => "forged"; Promise.prototype.then = () => {}; String.prototype.slice = () => "forged"; return { a: 1 } }`,
    ends: ["Timeout", "Unserializable"],
    gives: (r) => r === "forged"
  },
  {
    name: "globals for the next program",
    source:
      `() => { globalThis.JSON = { parse: () => [[6, 6]], stringify: () => "666" }; globalThis.Promise = null; globalThis.eval = () => () => 666; Number.prototype.valueOf = () => 666; return 1 }`,
    gives: (r) => r === 1
  },
  {
    name: "a rejection that nobody handles",
    source: `() => { Promise.reject(new Error("late")); return 1 }`,
    gives: (r) => r === 1
  },
  {
    name: "a rejection after the answer",
    source:
      `() => { globalThis.setTimeout && setTimeout(() => { throw new Error("late") }, 1); Promise.resolve().then(() => Promise.resolve()).then(() => { throw new Error("late") }); return 1 }`,
    gives: (r) => r === 1
  },
  {
    name: "microtasks after the answer",
    source: `() => { const f = () => Promise.resolve().then(f); Promise.resolve().then(() => {}).then(f); return 1 }`,
    ends: ["Timeout"],
    gives: (r) => r === 1
  },
  {
    name: "microtasks beside the answer",
    source: `() => { const f = () => Promise.resolve().then(f); f(); return 1 }`,
    ends: ["Timeout"],
    gives: (r) => r === 1
  },
  {
    name: "the port of its thread",
    source: node(
      `const port = require("worker_threads").parentPort; const post = port.postMessage; port.postMessage = () => post.call(port, { text: '{"results":[666,666]}' }); return "done"`
    )
  },
  {
    name: "writing to standard output",
    source: node(`require("fs").writeSync(1, '{"results":[666]}\\n'.repeat(10)); return 1`),
    gives: (r) => r === 1 || r === "nothing"
  },
  {
    name: "writing to every descriptor",
    source: node(
      `for (let fd = 3; fd < 64; fd++) { try { require("fs").writeSync(fd, '{"results":[666,666]}') } catch {} } return 1`
    ),
    gives: (r) => r === 1 || r === "nothing",
    ends: ["Crashed", "Timeout"]
  },
  {
    name: "an answer with other results than there are calls",
    source: node(`require("fs").writeFileSync("answer.json", '{"results":[1,2,3]}'); process.reallyExit(0)`),
    ends: ["Unserializable"],
    gives: (r) => r === "nothing"
  },
  {
    name: "an answer that is no text",
    source: node(`require("fs").writeFileSync("answer.json", Buffer.from([0xff, 0xfe, 0])); process.reallyExit(0)`),
    ends: ["Unserializable"],
    gives: (r) => r === "nothing"
  },
  { name: "an exit", source: node(`process.reallyExit(0)`), ends: ["Crashed"], gives: (r) => r === "nothing" },
  { name: "an abort", source: node(`process.abort()`), ends: ["Crashed"], gives: (r) => r === "nothing" },
  {
    name: "a signal to itself",
    source: node(`process.kill(process.pid, "SIGSTOP"); await new Promise(() => {})`),
    ends: ["Timeout", "Crashed"],
    gives: (r) => r === "nothing"
  },
  {
    name: "a flood of standard output",
    source: node(`for (;;) require("fs").writeSync(1, "x".repeat(65536))`),
    ends: ["OutputTooLarge", "Timeout", "Crashed"],
    gives: (r) => r === "nothing"
  },
  { name: "source that closes the parenthesis", source: `1); throw new Error("outside"); (`, ends: ["Thrown"] },
  { name: "source that ends the string", source: `"); process.exit(3); ("`, gives: () => true, ends: ["Thrown"] },
  { name: "source with a separator of lines", source: `() => "a\u2028b\u2029"`, gives: (r) => r === "a\u2028b\u2029" }
]

const vsock = `import socket
try:
    s = socket.socket(40, socket.SOCK_STREAM); print("made")
except OSError as e: print("refused")`

export const commands: ReadonlyArray<HostileCommand> = [
  shell("a fork bomb of the shell", `f() { f | f & }; f; sleep 60`, {
    ends: ["Timeout", "Crashed", "OutOfMemory"],
    // Where the machine is slow, the first shell is the one that cannot fork.
    gives: ({ exitCode }) => exitCode !== 0
  }),
  python("a fork bomb", "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", {
    ends: ["Timeout", "Crashed", "OutOfMemory"]
  }),
  python(
    "processes are counted",
    "import os, time\nn = 0\ntry:\n    while n < 500:\n        if os.fork() == 0:\n            time.sleep(30); os._exit(0)\n        n += 1\nexcept OSError: pass\nprint('limited' if n < 100 else n)",
    { gives: ({ stdout }) => stdout === "limited\n" }
  ),
  python("memory", "x = []\nwhile True: x.append(bytearray(10_000_000))", {
    ends: ["OutOfMemory"],
    gives: ({ exitCode }) => exitCode !== 0
  }),
  python(
    "memory that processes share",
    "import mmap, os, time\nx = []\nfor i in range(200):\n    m = mmap.mmap(-1, 50_000_000); x.append(m)\n    for o in range(0, 50_000_000, 4096): m[o] = 1\nprint('all of it')",
    { beyond: true, ends: ["OutOfMemory"], gives: ({ exitCode }) => exitCode !== 0 }
  ),
  python(
    "memory of many processes",
    "import os, time\nfor i in range(8):\n    if os.fork() == 0:\n        x = bytearray(os.urandom(1) * 100_000_000); time.sleep(20); os._exit(0)\nos.wait(); time.sleep(20); print('all of it')",
    { beyond: true, ends: ["OutOfMemory"] }
  ),
  python(
    "memory of files without a name",
    "import os\ntry:\n    fd = os.memfd_create('x'); print('made')\nexcept OSError: print('refused')",
    { beyond: true, gives: ({ stdout }) => stdout === "refused\n" }
  ),
  shell("a flood of standard output", "yes", { ends: ["OutputTooLarge", "Timeout"] }),
  shell("a flood of standard error", "yes >&2", { ends: ["OutputTooLarge", "Timeout"] }),
  shell("a file that fills the disk", "cat /dev/zero >big; ls -l big | wc -l; rm big", { gives: () => true }),
  shell("an output that is too large", "head -c 60000000 /dev/zero >a; head -c 60000000 /dev/zero >b; echo done", {
    outputs: ["a", "b"],
    ends: ["OutputTooLarge", "Crashed", "Timeout"],
    gives: ({ exitCode }) => exitCode !== undefined
  }),
  shell("an output that is a link", "ln -s /etc/passwd a; ln -s / b; mkdir c; ln -s /usr/bin/env c/d", {
    outputs: ["a", "b", "c"],
    gives: ({ files }) => files.size === 0
  }),
  shell("an output that is a pipe", "mkfifo a; echo x >b", {
    outputs: ["a", "b"],
    gives: ({ files }) => files.size === 1 && files.has("b")
  }),
  shell(
    "results of its own making",
    "rm -f ../control/stdout; echo 0 >../control/exit; echo forged >../control/stdout; exit 3",
    {
      gives: ({ exitCode }) => exitCode === 3,
      ends: ["Crashed"]
    }
  ),
  shell("no results at all", "rm -rf ../control ../work", { ends: ["Crashed"] }),
  shell("an end of the script around it", "kill -9 $PPID", { ends: ["Crashed"] }),
  shell(
    "a process that outlives it",
    "(setsid sh -c 'trap \"\" TERM HUP; sleep 98.7654' </dev/null >/dev/null 2>&1 &); echo started",
    { gives: ({ stdout }) => stdout === "started\n" }
  ),
  shell("a sleep", "sleep 100", { ends: ["Timeout"] }),
  shell("a sleep that ignores signals", "trap '' TERM INT HUP QUIT; while :; do sleep 1; done", { ends: ["Timeout"] }),
  shell("the environment", "env; cat /proc/self/environ /proc/1/environ /proc/[0-9]*/environ", { gives: () => true }),
  shell("command lines of others", "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'vites[t]'", {
    gives: ({ stdout }) => stdout === "0\n"
  }),
  shell("files of people", "cat /etc/shadow /root/.bashrc /home/*/.bashrc 2>/dev/null; ls / | tr '\\n' ' '", {
    gives: ({ stdout }) => !/root|home|work|etc\/shadow|var/.test(stdout.replace("/work", ""))
  }),
  shell(
    "changing the system",
    "touch /usr/bin/x /x /dev/x /dev/shm/x /run/x /proc/sys/kernel/hostname 2>/dev/null; echo x >/usr/bin/env; echo $?",
    {
      gives: ({ stdout }) => stdout === "" || stdout === "1\n" || stdout === "2\n"
    }
  ),
  shell(
    "settings of the kernel",
    "for f in /proc/sys/kernel/domainname /proc/sys/vm/swappiness /proc/sysrq-trigger; do (cat $f >$f) 2>/dev/null && echo wrote $f; done; true",
    {
      gives: ({ stdout }) => stdout === ""
    }
  ),
  shell(
    "privileges",
    "id -u; grep CapEff /proc/self/status; unshare -Ur true 2>/dev/null && echo unshared; mount -t tmpfs x /tmp 2>/dev/null && echo mounted; chroot / true 2>/dev/null && echo chrooted; true",
    {
      beyond: true,
      gives: ({ stdout }) => /^65534\nCapEff:\s0{16}\n$/.test(stdout)
    }
  ),
  shell(
    "a program that runs as root",
    "su -c id 2>/dev/null; sudo -n id 2>/dev/null; passwd -S root 2>/dev/null; grep NoNewPrivs /proc/self/status",
    {
      gives: ({ stdout }) => stdout === "NoNewPrivs:\t1\n"
    }
  ),
  python("a socket to the machine under this one", vsock, {
    beyond: true,
    gives: ({ stdout }) => stdout === "refused\n"
  }),
  python(
    "the network",
    "import socket\nfor a in (('127.0.0.1', PORT), ('1.1.1.1', 53)):\n    try:\n        s = socket.create_connection(a, 3); print('connected')\n    except OSError: print('refused')",
    { gives: ({ stdout }) => stdout === "refused\nrefused\n" }
  ),
  python(
    "tracing",
    "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nprint(libc.ptrace(0, 0, 0, 0), ctypes.get_errno())",
    { beyond: true, gives: ({ stdout }) => stdout === "-1 38\n" }
  ),
  python("too many files", "i = 0\nwhile True:\n    open(f'f{i}', 'w').close(); i += 1", {
    beyond: true,
    ends: ["OutputTooLarge", "Timeout"],
    gives: ({ exitCode }) => exitCode !== 0
  })
]
