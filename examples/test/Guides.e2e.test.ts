import { assert, describe, it } from "@effect/vitest"
import { TinkerError } from "effect-tinker"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { basename, dirname, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import { bundle, names } from "../shared/run.js"

const root = fileURLToPath(new URL("../..", import.meta.url))

const read = (path: string) => ({ path, text: readFileSync(`${root}${path}`, "utf8") })

const guides = [
  "README.md",
  ...readdirSync(`${root}docs`).filter((name) => name.endsWith(".md")).map((n) => `docs/${n}`)
]
  .map(read)

const others = ["CONTRIBUTING.md", ...readdirSync(`${root}packages`).map((name) => `packages/${name}/README.md`)]
  .filter((path) => existsSync(`${root}${path}`))
  .map(read)

/** The fenced blocks of a language, in order. */
const blocks = (markdown: string, language: string): ReadonlyArray<string> =>
  Array.from(markdown.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm))
    .flatMap(([, info, body]) => info === language && body !== undefined ? [body.trimEnd()] : [])

const links = (markdown: string): ReadonlyArray<string> =>
  Array.from(markdown.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g))
    .flatMap(([, target]) => target === undefined || /^[a-z]+:/.test(target) ? [] : [target])

/** The lines without the indentation they have in common. */
const flush = (lines: ReadonlyArray<string>): string => {
  const indents = lines.filter((line) => line.trim() !== "").map((line) => line.length - line.trimStart().length)
  const common = Math.min(...indents)
  return lines.map((line) => line.slice(common)).join("\n").trim()
}

const isExcerpt = (block: string, source: string): boolean => {
  const wanted = flush(block.split("\n"))
  const lines = source.split("\n")
  const height = wanted.split("\n").length
  return lines.some((_, from) => flush(lines.slice(from, from + height)) === wanted)
}

/** What depends on the machine: rates, and the time they leave. */
const hurry = /, [\d.]+ tokens\/s|, [\dhms ]+ left/g

const folder = /\/\S*\/tinker-\w+/

const number = /\d+(?:\.\d+)?/g

/** A line with its ids, rates and numbers taken out, and the numbers. */
const measure = (line: string) => {
  const words = line.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID").replace(hurry, "").replace(folder, "FOLDER").trimEnd()
  return { words: words.replace(number, "#"), numbers: (words.match(number) ?? []).map(Number) }
}

const near = (a: number, b: number) => Math.abs(a - b) <= 0.02 + 0.1 * Math.max(a, b)

/** Whether a program printed what a guide shows. Training is repeatable; the margin is for other processors. */
const prints = (output: string, shown: string): boolean => {
  const [is, should] = [output, shown].map((text) => text.trim().split("\n").map(measure))
  return is?.length === should?.length && (is ?? []).every(({ numbers, words }, i) => {
    const line = should?.[i]
    return line?.words === words && line.numbers.every((value, n) => near(value, numbers[n] ?? NaN))
  })
}

describe.each(guides)("$path", ({ path, text }) => {
  it("shows code that is part of an example it links to", () => {
    const sources = links(text)
      // recipes are run by a test of their own
      .filter((target) => /(examples|recipes)\/.*\.ts$/.test(target))
      .map((target) => readFileSync(resolve(root, dirname(path), target), "utf8"))
    for (const block of blocks(text, "ts")) {
      assert.isTrue(sources.some((source) => isExcerpt(block, source)), `not in a linked example:\n${block}`)
    }
  })
})

const relative = /from "(\.\.?\/[^"]+)\.js"/g

it.each(guides)("$path has programs that import packages, and files it shows", ({ path, text }) => {
  const shown = links(text).map((target) => basename(target, ".ts"))
  for (const block of blocks(text, "ts")) {
    for (const [, file = ""] of block.matchAll(relative)) {
      assert.isTrue(shown.includes(basename(file)), `${path} imports ${file}, which a reader does not have`)
    }
  }
})

it.each(others)("$path shows code that is compiled", ({ text }) => {
  const sources = readdirSync(`${root}examples/readme`).map((name) => read(`examples/readme/${name}`).text)
  for (const block of blocks(text, "ts")) {
    assert.isTrue(sources.some((source) => isExcerpt(block, source)), `not in a file of examples/readme:\n${block}`)
  }
})

it("docs/from-python.md names every method of the Python clients that was recorded", () => {
  const { calls } = JSON.parse(read("packages/parity/vectors/recorded.json").text)
  const { text } = read("docs/from-python.md")
  const methods: ReadonlyArray<string> = calls.map(({ call }: { readonly call: string }) => call.match(/\w+/g)?.[1])
  assert.isAbove(methods.length, 30)
  assert.deepStrictEqual(methods.filter((method) => !text.includes(method)), [])
})

it.each(["docs/errors-and-cancellation.md", "packages/tinker/README.md"])("%s names every error", (path) => {
  const { text } = read(path)
  const tags = TinkerError.TinkerError.members.map(({ _tag }) => _tag)
  assert.isAbove(tags.length, 10)
  assert.deepStrictEqual(tags.filter((tag) => !text.includes(`\`${tag}\``)), [])
})

it("docs/architecture.md names modules that exist", () => {
  const table =
    /\| what \| where in `packages\/tinker\/src`[\s\S]*?\n\n/.exec(read("docs/architecture.md").text)?.[0] ?? ""
  const modules = Array.from(table.matchAll(/`((?:\w+\/)*\w+(?:\.ts|\/))`/g), ([, path]) => path)
  assert.isAbove(modules.length, 10)
  assert.deepStrictEqual(modules.filter((path) => !existsSync(`${root}packages/tinker/src/${path}`)), [])
})

const skill = read("skills/effect-tinker/SKILL.md")

it.each([...guides, ...others, skill])("$path has no dead links", ({ path, text }) => {
  for (const target of links(text)) {
    assert.isTrue(existsSync(resolve(root, dirname(path), target)), `${path} links to ${target}`)
  }
})

it("every example does what its guide says", { timeout: 600_000 }, async () => {
  const shown = new Map(
    guides.flatMap(({ text }) => blocks(text, "console")).flatMap((block) => {
      const [command = "", ...output] = block.split("\n")
      const name = /^\$ npm run example -- (\S+)$/.exec(command)?.[1]
      return name === undefined ? [] : [[name, output.join("\n")] as const]
    })
  )
  // The quickstart has a command and a screen of its own, and takes its time.
  const quick = names.filter((name) => name !== "quickstart")
  assert.deepStrictEqual(quick.filter((name) => !shown.has(name)), [], "no guide shows what these print")
  const examples = await bundle(quick, { sourceMaps: false })
  try {
    const queue = quick.values()
    const work = async () => {
      for (const name of queue) {
        const { code, output } = await examples.run(name, { env: { PATH: process.env["PATH"], NO_COLOR: "1" } })
        assert.strictEqual(code, 0, `${name}\n${output}`)
        assert.isTrue(prints(output, shown.get(name) ?? ""), `${name} prints\n${output}\nnot\n${shown.get(name)}`)
      }
    }
    await Promise.all([work(), work()])
  } finally {
    examples.dispose()
  }
})
