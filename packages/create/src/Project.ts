/**
 * A project that trains a model: the choices, and the files that a choice makes. A project is made of folders of
 * `templates/`, of which a later one replaces files of an earlier one, and of a `package.json` and a README.
 *
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Record from "effect/Record"
import * as Schema from "effect/Schema"

/**
 * Starting point of a project.
 *
 * @since 0.1.0
 * @category models
 */
export type Start = "chats" | "reward" | "agent" | "loop"

/**
 * The frameworks that an agent can be written with.
 *
 * @since 0.1.0
 * @category models
 */
export type Framework = "ai-sdk" | "openai-agents" | "langgraph" | "mastra" | "effect-ai"

/**
 * Programs of Effects, or plain async functions.
 *
 * @since 0.1.0
 * @category models
 */
export type Style = "effect" | "promise"

/**
 * Package managers that projects are written for.
 *
 * @since 0.1.0
 * @category models
 */
export type PackageManager = "npm" | "pnpm" | "yarn" | "bun"

/**
 * A project to be written.
 *
 * @since 0.1.0
 * @category models
 */
export interface Project {
  /** Name of the package. */
  readonly name: string
  readonly start: Start
  /** Framework of the agent, where the project begins with one. */
  readonly framework: Framework
  readonly style: Style
  readonly packageManager: PackageManager
  /** Version of the packages that the project depends on. */
  readonly version: string
}

/**
 * The choices with their meaning, in the order in which they are offered.
 *
 * @since 0.1.0
 * @category models
 */
export const starts: Readonly<Record<Start, string>> = {
  chats: "I have chats in a file",
  reward: "I have a reward: a program that scores answers",
  agent: "I have an agent",
  loop: "A training loop of my own"
}

/**
 * Names of the frameworks.
 *
 * @since 0.1.0
 * @category models
 */
export const frameworks: Readonly<Record<Framework, string>> = {
  "ai-sdk": "AI SDK",
  "openai-agents": "OpenAI Agents",
  langgraph: "LangGraph",
  mastra: "Mastra",
  "effect-ai": "Effect AI"
}

/**
 * Names of the styles.
 *
 * @since 0.1.0
 * @category models
 */
export const styles: Readonly<Record<Style, string>> = { effect: "Effect", promise: "Plain async functions" }

/**
 * The package managers.
 *
 * @since 0.1.0
 * @category models
 */
export const packageManagers: ReadonlyArray<PackageManager> = ["npm", "pnpm", "yarn", "bun"]

/**
 * A directory that has files already: nothing was written.
 *
 * @since 0.1.0
 * @category errors
 */
export class DirectoryNotEmpty extends Data.TaggedError("DirectoryNotEmpty")<{ readonly directory: string }> {
  override get message(): string {
    return `${this.directory} is not empty: name a new directory`
  }
}

/**
 * The style that a project is written in: agents of frameworks other than Effect AI are plain async functions.
 *
 * @since 0.1.0
 * @category combinators
 */
export const styleOf = ({ framework, start, style }: Pick<Project, "framework" | "start" | "style">): Style =>
  start !== "agent" ? style : framework === "effect-ai" ? "effect" : "promise"

/** Versions of the other packages, which these were tried with. */
const effect = { "@effect/platform": "^0.97.2", "@effect/platform-node": "^0.108.2", effect: "^3.22.4" }
const frameworkDependencies: Readonly<Record<Framework, Readonly<Record<string, string>>>> = {
  "ai-sdk": { "@ai-sdk/provider": "^4.0.0", ai: "^7.0.0", zod: "^4.0.0" },
  "openai-agents": { "@openai/agents": "^0.20.0", zod: "^4.0.0" },
  langgraph: {
    "@langchain/core": "^1.2.0",
    "@langchain/langgraph": "~1.4.13",
    "@langchain/openai": "^1.6.0",
    zod: "^4.0.0"
  },
  mastra: { "@mastra/core": "^1.71.0", zod: "^4.0.0" },
  "effect-ai": { "@effect/ai": "^0.37.0", "@effect/experimental": "^0.61.0", "@effect/rpc": "^0.76.2" }
}
const development = { "@types/node": "^20.19.0", tsx: "^4.19.0", typescript: "^5.9.0", vitest: "^3.2.0" }

const folders = (project: Project): ReadonlyArray<string> => {
  const style = styleOf(project)
  const own = project.start === "agent" ? `agent-${project.framework}` : `${project.start}-${style}`
  // An agent's trainer stands on Effect; all others in Promises come without it.
  const base = style === "promise" && project.start !== "agent" ? "base-plain" : `base-${style}`
  return ["base", base, project.start, own]
}

const sorted = (record: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(record).sort(([a], [b]) => a < b ? -1 : 1))

/**
 * The `package.json` of a project.
 *
 * @since 0.1.0
 * @category combinators
 */
export const manifest = (project: Project): object => {
  const version = `^${project.version}`
  const own = ["local", "tokenizer", ...project.start === "loop" ? [] : ["cookbook"]]
  if (project.start === "agent") own.push("agents")
  const dependencies = styleOf(project) === "promise" && project.start !== "agent"
    ? { "@effect-tinker/promise": version }
    : {
      ...Record.fromEntries(own.map((name) => [`@effect-tinker/${name}`, version])),
      "effect-tinker": version,
      ...effect
    }
  return {
    name: project.name,
    version: "0.0.0",
    private: true,
    type: "module",
    scripts: { train: "tsx src/train.ts", test: "vitest run", check: "tsc" },
    dependencies: sorted({
      ...dependencies,
      ...project.start === "agent" ? frameworkDependencies[project.framework] : {}
    }),
    devDependencies: development
  }
}

/** How a package manager runs a script of the project. */
const runs = (packageManager: PackageManager, script: string) =>
  packageManager === "npm" && script === "test" ? "npm test" : `${packageManager} run ${script}`

const about: Readonly<Record<Start, string>> = {
  chats: `\`src/train.ts\` fine-tunes a model on \`data/chats.jsonl\`, one conversation a line, and measures it on
\`data/held-out.jsonl\`. Put your own conversations there.`,
  reward:
    `\`src/task.ts\` has the problems, how they are asked, and what an answer is worth; \`src/train.ts\` trains a model to
earn more. Put your own problems and your own reward there.`,
  agent:
    `\`src/agent.ts\` is an agent as it runs in production, with a score for what it did; \`src/train.ts\` trains its
model on the exact tokens that it sampled. Put your own agent there, and your tasks in \`src/orders.ts\`.`,
  loop:
    `\`src/train.ts\` is a training loop of your own over the lessons in \`src/lessons.ts\`: every pass, every optimizer step
and every sample is a call.`
}

const readme = (project: Project) => {
  const manager = project.packageManager
  const resumes = project.start === "loop"
    ? ""
    : `
A run is recorded in \`runs/\`. Stopped by anything, it goes on where it was when you run it again;
\`npx @effect-tinker/cli studio runs\` shows it.
`
  return `# ${project.name}

${about[project.start]}

\`\`\`sh
${manager} install
${runs(manager, "train")}   # on this machine, without an account
${runs(manager, "test")}
${runs(manager, "check")}   # types
\`\`\`
${resumes}
The model is \`local/chat\`, a small one that comes with the packages. \`src/backend.ts\` names it: a real model for this machine
is one line away, and with \`TINKER_API_KEY\` set, the same program runs at the hosted service.
`
}

/**
 * The files of a project, by path.
 *
 * @since 0.1.0
 * @category combinators
 */
export const files = (project: Project, templates: string) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const found: Record<string, string> = {
      "package.json": `${JSON.stringify(manifest(project), null, 2)}\n`,
      "README.md": readme(project)
    }
    for (const folder of folders(project)) {
      const from = path.join(templates, folder)
      if (!(yield* fs.exists(from))) continue
      for (const name of yield* fs.readDirectory(from, { recursive: true })) {
        const file = path.join(from, name)
        if ((yield* fs.stat(file)).type !== "File") continue
        // npm leaves files of this name out of what it publishes
        found[name === "gitignore" ? ".gitignore" : name.split(path.sep).join("/")] = yield* fs.readFileString(file)
      }
    }
    return found
  })

/** Files that the directory of a new project may have. */
const harmless = new Set([".git", ".npmrc", ".DS_Store"])

/**
 * Writes a project into a directory that is new or empty; a repository without files is empty.
 *
 * @since 0.1.0
 * @category combinators
 */
export const write = (directory: string, contents: Readonly<Record<string, string>>) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const there = (yield* fs.exists(directory)) ? yield* fs.readDirectory(directory) : []
    if (there.some((name) => !harmless.has(name))) return yield* new DirectoryNotEmpty({ directory })
    yield* Effect.forEach(Object.entries(contents), ([name, text]) => {
      const file = path.join(directory, name)
      return Effect.zipRight(
        fs.makeDirectory(path.dirname(file), { recursive: true }),
        fs.writeFileString(file, text)
      )
    }, { discard: true })
  })

/**
 * A name that a package may have.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Name: Schema.filter<typeof Schema.String> = Schema.String.pipe(
  Schema.pattern(/^(?:@[a-z0-9-~][a-z0-9-._~]*\/)?[a-z0-9-~][a-z0-9-._~]*$/, {
    message: () => "the name of a package has lower-case letters, digits, and - . _ between them"
  })
)
