// Writes llms.txt, the guides and packages in one short file for language models (https://llmstxt.org), from the README,
// docs/ and the packages' READMEs; or with --check fails when it is out of date.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { publishable, root } from "./packages.mjs"

const read = (path) => readFileSync(`${root}${path}`, "utf8")

/** The title and the first sentence of a page. */
const about = (path) => {
  const text = read(path).replaceAll(/<!--[\s\S]*?-->|^```[\s\S]*?^```$/gm, "")
  const [, title = path] = /^# (.+)$/m.exec(text) ?? []
  const paragraph =
    text.slice(text.indexOf(title) + title.length).split(/\n\s*\n/).map((part) => part.trim()).find((part) =>
      /^[\w*`]/.test(part)
    ) ?? ""
  const plain = paragraph.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll(/\s+/g, " ")
  const sentence = /^.*?[.:](?= |$)/.exec(plain)?.[0] ?? plain
  return { title: title.replaceAll("`", ""), sentence: sentence.replace(/:$/, ".") }
}

const entry = (path) => {
  const { sentence, title } = about(path)
  return `- [${title}](./${path})${sentence === "" ? "" : `: ${sentence}`}`
}

const guides = readdirSync(`${root}docs`).filter((file) => file.endsWith(".md")).sort()
const first = ["getting-started.md", "effect-4.md", "hosted-service.md", "promises.md", "from-python.md"]
const ordered = [...first, ...guides.filter((file) => !first.includes(file))]
const examples = readdirSync(`${root}examples`).filter((file) => /^[a-z].*\.ts$/.test(file)).sort()

const text = [
  "# effect-tinker",
  "",
  "> Fine-tune language models from TypeScript: the Tinker API as Effect 3 services or as Promises, with an embedded backend " +
  "that trains small models on the CPU. Install with `npm install effect@3 @effect/platform@0.97 @effect/platform-node@0.108`; " +
  "Effect 4 does not fit: with it use `@effect-tinker/effect4`, and without Effect `@effect-tinker/promise`.",
  "",
  "Operations of a TrainingClient end when the server has accepted them and yield a TinkerFuture, which is itself an Effect of " +
  "the result. Modules are used qualified: `TrainingClient.makeLora`, `SamplingClient.make`, `Datum.fromTokens`.",
  "",
  "## Guides",
  "",
  ...ordered.map((file) => entry(`docs/${file}`)),
  "",
  "## Packages",
  "",
  ...publishable.map(({ manifest, name }) =>
    `- [${manifest.name}](./packages/${name}/README.md): ${manifest.description}`
  ),
  "",
  "## Examples",
  "",
  ...examples.map((file) => `- [${file.replace(/\.ts$/, "")}](./examples/${file})`),
  "",
  "## Optional",
  "",
  "- [Contributing](./CONTRIBUTING.md)",
  "- [Change log](./CHANGELOG.md)",
  ""
].join("\n")

const path = `${root}llms.txt`
if (process.argv.includes("--check")) {
  if (!existsSync(path) || readFileSync(path, "utf8") !== text) {
    process.stderr.write("llms.txt is out of date: npm run codegen\n")
    process.exit(1)
  }
} else writeFileSync(path, text)
