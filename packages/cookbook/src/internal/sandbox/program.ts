/**
 * The JavaScript that calls a function with lists of arguments, for every engine there is.
 *
 * @since 0.2.0
 */
import type { ResolvedLimits } from "../../Sandbox.js"

/**
 * Evaluates to a function of the source, the calls as JSON, the bytes allowed and whom to tell. It tells once, one string:
 * the answer as JSON. All of it happens in the program's own world, so that the program may say what it likes, but only as
 * its own answer.
 *
 * @internal
 */
export const guest = `(source, calls, allowed, tell) => {
  const { parse, stringify } = JSON
  const evaluate = eval
  let told = false
  const say = (answer) => { if (!told) { told = true; tell(answer) } }
  const fail = (reason, error) => {
    let description = "no description"
    try { description = ("" + (error && error.message || error)).slice(0, 1000) } catch {}
    if (/out of memory|allocation failed/i.test(description)) reason = "OutOfMemory"
    say(stringify({ reason, description }))
  }
  const work = async () => {
    let phase = "Thrown"
    try {
      const run = evaluate("(" + source + "\\n)")
      const lists = parse(calls)
      let results = ""
      for (let i = 0; i < lists.length; i++) {
        phase = "Thrown"
        const value = await run(...lists[i])
        phase = "Unserializable"
        const text = stringify(value)
        results += (i === 0 ? "" : ",") + (text === undefined ? "null" : text)
        if (results.length > allowed) return fail("OutputTooLarge", "more than " + allowed + " bytes of results")
      }
      say('{"results":[' + results + "]}")
    } catch (error) {
      fail(phase, error)
    }
  }
  work()
  return () => fail("Timeout", "a promise never settles")
}`

const main = `"use strict"
const fs = require("node:fs")
const { source, calls, allowed } = JSON.parse(fs.readFileSync("program.json", "utf8"))
const { exit } = process
const write = fs.writeFileSync
process.on("unhandledRejection", () => {})
const give = (${guest})(source, calls, allowed, (answer) => {
  write("answer.json", answer)
  exit(0)
})
process.on("beforeExit", give)
`

/**
 * The files and the command that call a function in Node.js.
 *
 * @internal
 */
export const call = (source: string, calls: ReadonlyArray<ReadonlyArray<unknown>>, limits: ResolvedLimits) => ({
  files: {
    "main.cjs": main,
    "program.json": JSON.stringify({ source, calls: JSON.stringify(calls), allowed: limits.output })
  },
  // A quarter stays for what is no heap of JavaScript. The engine ends the process with a message where its heap is full.
  flags: [`--max-old-space-size=${Math.max(16, Math.floor(limits.memory * 0.75 / (1024 * 1024)))}`],
  main: "main.cjs",
  output: "answer.json"
})
