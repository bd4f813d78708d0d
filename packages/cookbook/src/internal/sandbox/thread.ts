/**
 * The thread that QuickJS runs on. It gets strings and gives strings.
 *
 * @since 0.2.0
 */
import { guest } from "./program.js"

/**
 * The source of the thread. Every program has an instance of the WebAssembly module of its own: memory, globals and pending
 * promises end with it. The clock and the randomness of a program are the same every time, so that its result is.
 *
 * @internal
 */
export const thread = `"use strict"
const { parentPort, workerData } = require("node:worker_threads")
const { memory, module, quickjs } = workerData
const loaded = import(quickjs)
const guest = ${JSON.stringify(guest)}

const run = async ({ allowed, calls, source, time }) => {
  const { QuickJS } = await loaded
  const end = performance.now() + time
  let answer
  let expired = false
  let readings = 0n
  try {
    const vm = await QuickJS.create({
      wasm: module,
      memoryLimit: memory,
      timezoneOffset: 0,
      // What goes on after the answer is of no interest.
      interruptHandler: () => answer !== undefined || (expired ||= performance.now() > end),
      wasi: (linear) => ({
        clock_time_get: (clock, precision, at) => {
          new DataView(linear.buffer).setBigUint64(at, ++readings * 1_000_000n, true)
          return 0
        },
        random_get: (at, length) => {
          new Uint8Array(linear.buffer, at, length).fill(7)
          return 0
        },
        fd_write: () => 8
      })
    })
    const tell = vm.newFunction("tell", (given) => {
      if (answer !== undefined || expired) return vm.undefined
      const { length } = vm.typeof(given) === "string" ? { length: given.getProp("length").toNumber() } : { length: -1 }
      answer = length < 0
        ? { reason: "Unserializable", description: "the answer is no text" }
        : length > allowed + 11_000
        ? { reason: "OutputTooLarge", description: length + " characters, of " + allowed + " bytes allowed" }
        : { text: given.toString() }
      return vm.undefined
    })
    vm.setProp(vm.global, "tell", tell)
    vm.evalCode(
      "{ const tell = globalThis.tell; delete globalThis.tell; (" + guest + ")(" + JSON.stringify(source) + "," +
        JSON.stringify(calls) + "," + allowed + ", tell) }; 0"
    )
    vm.executePendingJobs()
  } catch (error) {
    if (answer === undefined && !expired) {
      const description = String(error && error.message || error).slice(0, 1000)
      const full = /out of memory|out of bounds|memory access|call stack/i.test(description)
      answer = { reason: full ? "OutOfMemory" : "Crashed", description }
    }
  }
  if (answer !== undefined) return answer
  return { reason: "Timeout", description: expired ? "it took more than " + time + " ms" : "a promise never settles" }
}

parentPort.on("message", (request) =>
  run(request).then(
    (answer) => parentPort.postMessage(answer),
    (error) => parentPort.postMessage({ broken: String(error && error.message || error) })
  )
)
`
