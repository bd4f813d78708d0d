/**
 * The skill for coding agents: every snippet compiles as part of a program that has the imports which the skill names, and
 * the values which its other snippets make.
 */
import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import ts from "typescript"

const examples = fileURLToPath(new URL("..", import.meta.url))
const skill = readFileSync(`${examples}../skills/effect-tinker/SKILL.md`, "utf8")

const snippets = Array.from(
  skill.matchAll(/^( *)```ts\n([\s\S]*?)^\1```$/gm),
  ([, , code = ""]) => code.split("\n").map((line) => line.trim() === "" ? "" : line).join("\n")
)

const imports = (code: string) => code.split("\n").filter((line) => line.startsWith("import "))
const body = (code: string) => code.split("\n").filter((line) => !line.startsWith("import ")).join("\n")

/** What snippets take from the text around them. */
const given = `
declare const training: TrainingClient.Service
declare const sampler: SamplingClient.Service
declare const renderer: Renderer.Renderer
declare const batch: ReadonlyArray<Datum.Datum>
declare const tokens: Int32Array
declare const questions: ReadonlyArray<string>
declare const conversations: ReadonlyArray<ReadonlyArray<Message.Message>>
const heldOut = Environment.problems([{ a: 1, b: 2 }], { question: () => "", reward: () => true })
const steps = Supervised.train({
  model: { baseModel: "local/chat", rank: 16 }, data: Example.chats("chats.jsonl"), renderer, learningRate: 1e-3, batchSize: 8
})
const program = Console.log("a program")
`

const prelude = snippets.find((code) => code.startsWith("import ") && !code.includes("@effect-tinker/promise")) ?? ""

/** A snippet as a module: in a generator of Effect, or for plain async code in an async function. */
const moduleOf = (code: string): string => {
  if (code === prelude) return `${code}\nexport {}\n`
  if (imports(code).length > 0) {
    return `${imports(code).join("\n")}\ndeclare const batch: Parameters<
      Awaited<ReturnType<Awaited<ReturnType<typeof connectLocal>>["createLoraTrainingClient"]>>["trainStep"]
    >[0]\nexport const snippet = async () => {\n${body(code)}\n}\n`
  }
  return `${prelude}import type { Renderer } from "@effect-tinker/tokenizer"\n${given}
export const snippet = Effect.gen(function*() {\n${code}\n})\n`
}

it("every snippet of the skill compiles", { timeout: 300_000 }, () => {
  assert.isAbove(snippets.length, 9)
  const { config } = ts.readConfigFile(`${examples}tsconfig.json`, ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, examples)
  const files = new Map(snippets.map((code, i) => [`${examples}skill-${i}.ts`, moduleOf(code)]))
  // What a snippet shows and leaves unused is no mistake in it.
  const host = ts.createCompilerHost({ ...options, noUnusedLocals: false })
  const program = ts.createProgram({
    rootNames: [...files.keys()],
    options: { ...options, noUnusedLocals: false, noUnusedParameters: false, composite: false, incremental: false },
    host: {
      ...host,
      fileExists: (name) => files.has(name) || host.fileExists(name),
      readFile: (name) => files.get(name) ?? host.readFile(name),
      getSourceFile: (name, ...rest) => {
        const text = files.get(name)
        return text === undefined
          ? host.getSourceFile(name, ...rest)
          : ts.createSourceFile(name, text, rest[0], true)
      }
    }
  })
  for (const name of files.keys()) {
    const file = program.getSourceFile(name)
    const found = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]
    assert.deepStrictEqual(
      found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n")),
      [],
      files.get(name)
    )
  }
})
