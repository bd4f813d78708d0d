/**
 * llama.cpp in its own process: greedy continuations of prompts, and tokens of texts. Arguments: a directory with
 * node-llama-cpp, a file of work (`[{ "model": GGUF, "lora"?: GGUF, "prompts": [[token, …]], "tokens": count }]` or
 * `[{ "model": GGUF, "texts": [text, …] }]`), and a file for the answers.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { createRequire as requireFrom } from "node:module"
import { join } from "node:path"
import { pathToFileURL } from "node:url"

/** The part of node-llama-cpp that is used; it is installed by the suite, so its types are not here. */
interface NodeLlamaCpp {
  readonly getLlama: (options: object) => Promise<{
    readonly loadModel: (options: object) => Promise<{
      readonly createContext: (options: object) => Promise<{
        readonly getSequence: () => {
          readonly clearHistory: () => Promise<void>
          readonly evaluate: (prompt: ReadonlyArray<number>, options: object) => AsyncIterable<number>
        }
        readonly dispose: () => Promise<void>
      }>
      readonly tokenize: (text: string, specialTokens: boolean) => ReadonlyArray<number>
      readonly dispose: () => Promise<void>
    }>
  }>
}

interface Vocabulary {
  readonly model: string
  readonly texts: ReadonlyArray<string>
}

interface Work {
  readonly model: string
  readonly lora?: string
  readonly prompts: ReadonlyArray<ReadonlyArray<number>>
  readonly tokens: number
}

const [modules = "", input = "", output = ""] = process.argv.slice(2)
const entry = requireFrom(join(modules, "_.js")).resolve("node-llama-cpp")
const { getLlama }: NodeLlamaCpp = await import(pathToFileURL(entry).href)
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error", progressLogs: false })
const work: ReadonlyArray<Work | Vocabulary> = JSON.parse(readFileSync(input, "utf8"))
const answers: Array<ReadonlyArray<ReadonlyArray<number>>> = []
for (const one of work) {
  if ("texts" in one) {
    const model = await llama.loadModel({ modelPath: one.model, vocabOnly: true })
    answers.push(one.texts.map((text) => model.tokenize(text, true).map(Number)))
    await model.dispose()
    continue
  }
  const { lora, model: modelPath, prompts, tokens } = one
  const model = await llama.loadModel({ modelPath })
  const longest = Math.max(...prompts.map(({ length }) => length)) + tokens
  // One thread: which thread adds what to a sum would decide ties.
  const context = await model.createContext({
    contextSize: Math.max(128, longest + 8),
    threads: 1,
    // Its cache is in half precision by default, and so is what flash attention computes with; transformers' is not.
    experimentalKvCacheKeyType: "F32",
    experimentalKvCacheValueType: "F32",
    flashAttention: false,
    ...(lora === undefined ? {} : { lora })
  })
  const sequence = context.getSequence()
  const own: Array<ReadonlyArray<number>> = []
  for (const prompt of prompts) {
    await sequence.clearHistory()
    const drawn: Array<number> = []
    for await (const token of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
      drawn.push(Number(token))
      if (drawn.length >= tokens) break
    }
    own.push(drawn)
  }
  answers.push(own)
  await context.dispose()
  await model.dispose()
}
writeFileSync(output, JSON.stringify(answers))
process.exit(0)
