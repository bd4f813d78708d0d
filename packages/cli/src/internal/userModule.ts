/**
 * Loads the modules that users write for a command. JavaScript, and TypeScript where Node strips types (22.18 and newer),
 * is imported as it is; on older versions TypeScript goes through `tsx`, if that is installed beside the module or beside
 * this command. Whatever the module imports is found from where the module is.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, extname, join, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import * as TrainModule from "../TrainModule.js"
import { CliFailure } from "./CliFailure.js"

const stripsTypes = (): boolean => {
  const { features } = process
  return "typescript" in features && features.typescript !== false
}

/** The loader, where it is installed: its module for `import`, which `require.resolve` would not find. */
const findLoader = (file: string): string | undefined => {
  for (const from of [file, import.meta.url]) {
    try {
      const manifest = createRequire(from).resolve("tsx/package.json")
      const loader = join(dirname(manifest), "dist", "esm", "api", "index.mjs")
      if (existsSync(loader)) return loader
    } catch {
      // not there
    }
  }
  return undefined
}

const importFile = async (file: string, loader: string | undefined): Promise<unknown> => {
  const url = pathToFileURL(file).href
  if (loader === undefined) return import(url)
  const { tsImport } = await import(pathToFileURL(loader).href)
  const loaded: unknown = await tsImport(url, import.meta.url)
  // Without "type": "module" in its package.json it is read as CommonJS, whose exports are one default.
  const exported = Predicate.hasProperty(loaded, "default") ? loaded.default : undefined
  return Predicate.hasProperty(exported, "__esModule") ? exported : loaded
}

const adviceOn = (cause: unknown): string => {
  const code = Predicate.hasProperty(cause, "code") ? cause.code : undefined
  return code === "ERR_MODULE_NOT_FOUND"
    ? "Install what it imports beside it, e.g. npm install effect@3 @effect-tinker/cookbook"
    : "Correct the module; `npx tsc --noEmit` says more about types."
}

/**
 * The default export of a module.
 *
 * @internal
 */
export const defaultExport: (path: string) => Effect.Effect<unknown, CliFailure> = Effect.fnUntraced(function*(path) {
  const file = resolve(path)
  if (!existsSync(file)) {
    return yield* new CliFailure({
      what: `There is no file ${path}`,
      advice: "Name a TypeScript or JavaScript module."
    })
  }
  const isTypeScript = [".ts", ".mts"].includes(extname(file))
  const loader = isTypeScript && !stripsTypes() ? findLoader(file) : undefined
  if (isTypeScript && !stripsTypes() && loader === undefined) {
    return yield* new CliFailure({
      what: `Node ${process.version} does not read TypeScript, and tsx is not installed`,
      advice: "Run npm install tsx beside the module, use Node 22.18 or newer, or write JavaScript."
    })
  }
  const loaded = yield* Effect.tryPromise({
    try: () => importFile(file, loader),
    catch: (cause) =>
      new CliFailure({
        what: `${path} cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`,
        advice: adviceOn(cause),
        cause
      })
  })
  if (!Predicate.hasProperty(loaded, "default")) {
    return yield* new CliFailure({ what: `${path} has no default export`, advice: "Write export default …" })
  }
  return loaded.default
})

/** The environments that a module exports. @internal */
export const environments = Effect.fnUntraced(function*(path: string) {
  const loaded = TrainModule.environmentsOf(yield* defaultExport(path))
  return typeof loaded === "string"
    ? yield* new CliFailure({
      what: `The default export of ${path} is no environment: ${loaded}`,
      advice: "Export what Environment.problems gives, a list of Environment.problem, or { problems, test }."
    })
    : loaded
})

/** The agent that a module exports, as environments. @internal */
export const agent = Effect.fnUntraced(function*(path: string) {
  const loaded = TrainModule.agentOf(yield* defaultExport(path))
  return typeof loaded === "string"
    ? yield* new CliFailure({
      what: `The default export of ${path} is no agent: ${loaded}`,
      advice: "Export AiSdk.agent({ tasks, run, score }): see docs/agents.md."
    })
    : loaded
})
