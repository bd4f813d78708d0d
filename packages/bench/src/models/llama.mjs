// A GGUF file in llama.cpp: llama.mjs MODULES FILE THREADS. A line `load`, `sample N` or `rss` in, a line with milliseconds by
// the clock or bytes out; sampled are 32 tokens each of N sequences in one batch.
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { createInterface } from "node:readline"
import { pathToFileURL } from "node:url"

const [modules, file, threads] = process.argv.slice(2)
const resolved = createRequire(`${modules}/package.json`).resolve("node-llama-cpp")
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(resolved).href)

const prompt = [100]
const sampled = 32

let model
const load = async () => {
  const llama = await getLlama({
    gpu: false,
    build: "never",
    maxThreads: Number(threads),
    logLevel: LlamaLogLevel.disabled
  })
  model = await llama.loadModel({ modelPath: file, useMmap: true })
}

const sample = async (sequences) => {
  const context = await model.createContext({
    contextSize: prompt.length + sampled + 1,
    sequences,
    batchSize: 512,
    threads: Number(threads)
  })
  try {
    const start = performance.now()
    await Promise.all(Array.from({ length: sequences }, async () => {
      const sequence = context.getSequence()
      let left = sampled
      for await (const _ of sequence.evaluate(prompt, { temperature: 1, yieldEogToken: true })) if (--left === 0) break
    }))
    return performance.now() - start
  } finally {
    await context.dispose()
  }
}

const bytes = (field) =>
  Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync("/proc/self/status", "utf8"))[1]) * 1024

for await (const line of createInterface(process.stdin)) {
  const [command, argument] = line.split(" ")
  if (command === "rss") process.stdout.write(`${bytes("VmRSS")}\n`)
  else if (command === "load") {
    const start = performance.now()
    await load()
    process.stdout.write(`${performance.now() - start}\n`)
  } else process.stdout.write(`${await sample(Number(argument))}\n`)
}
