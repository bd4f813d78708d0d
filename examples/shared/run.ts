/**
 * Runs examples from source: `npm run example -- NAME` with its arguments, `-- --all` with a table at the end, or a program by
 * its path.
 */
import type { Plugin } from "esbuild"
import { build } from "esbuild"
import type { SpawnOptions } from "node:child_process"
import { spawn } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { basename, resolve } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))
const cache = `${root}node_modules/.cache`

export const names = readdirSync(`${root}examples`)
  .filter((file) => file.endsWith(".ts"))
  .map((file) => file.slice(0, -3))
  .sort()

/** What an example says of itself: the first sentence of its header. */
const about = (name: string): string => {
  const header = /^\/\*\*([\s\S]*?)\*\//.exec(readFileSync(`${root}examples/${name}.ts`, "utf8"))?.[1] ?? ""
  return /^[\s\S]*?[.:](?=\s|$)/.exec(header.replace(/\s*\n \* ?/g, " ").trim())?.[0].replace(/[.:]$/, "") ?? ""
}

const list = (): string => {
  const width = Math.max(...names.map(({ length }) => length))
  return names.map((name) => `  ${name.padEnd(width)}  ${about(name)}\n`).join("")
}

const worker = "internal/engine/NodeEngineWorker"

/** The files of `local/chat` and the native kernels are beside the modules that look for them, not beside the bundle. */
const besideSource: Plugin = {
  name: "beside-source",
  setup: ({ onLoad }) =>
    onLoad({ filter: /packages\/local\/src\/(LocalCheckpoint|NodeEngine)\.ts$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replace(
        /(new URL\(["`]\.\.\/[^)]*)import\.meta\.url/,
        (_, before) => before + JSON.stringify(pathToFileURL(path).href)
      ),
      loader: "ts"
    }))
}

/**
 * Bundles programs, so that each starts in a fraction of a second. `run` starts one; `dispose` removes the bundle. With
 * source maps, which take a while to load, stack traces name the lines of the programs.
 */
export const bundle = async (programs: ReadonlyArray<string>, options: { readonly sourceMaps: boolean }) => {
  mkdirSync(cache, { recursive: true })
  const outdir = mkdtempSync(`${cache}/examples-`)
  await build({
    entryPoints: Object.fromEntries([
      ...programs.map((name) => [
        basename(name, ".ts"),
        names.includes(name) ? `${root}examples/${name}.ts` : resolve(root, name)
      ]),
      // The program of the engine's threads, where the bundle looks for it.
      [worker, `${root}packages/local/src/${worker}.ts`]
    ]),
    outdir,
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node20",
    sourcemap: options.sourceMaps,
    minify: !options.sourceMaps,
    conditions: ["@effect-tinker/source"],
    plugins: [besideSource],
    // A binary, found in node_modules.
    external: ["@libsql/client", "pg-native"],
    // What is still CommonJS asks for Node's own modules at run time.
    banner: {
      js: "import { createRequire as nodeRequire } from \"node:module\"; const require = nodeRequire(import.meta.url);"
    },
    // That an import for its effect alone is left out is meant: it explains a wrong Effect, which is not installed here.
    logOverride: { "ignored-bare-import": "silent" },
    logLevel: "warning"
  })
  const flags = options.sourceMaps ? ["--enable-source-maps"] : []
  const run = (name: string, options: SpawnOptions, args: ReadonlyArray<string> = []) =>
    new Promise<{ readonly code: number; readonly output: string }>((done) => {
      const program = `${outdir}/${basename(name, ".ts")}.js`
      const child = spawn(process.execPath, [...flags, program, ...args], options)
      const written: Array<Buffer> = []
      for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => written.push(chunk))
      child.on(
        "close",
        (code, signal) =>
          done({ code: signal === "SIGINT" ? 130 : code ?? 1, output: Buffer.concat(written).toString() })
      )
    })
  return { run, dispose: () => rmSync(outdir, { recursive: true, force: true }) }
}

const main = async (name: string | undefined, args: ReadonlyArray<string>): Promise<number> => {
  const isPath = name?.endsWith(".ts") === true && existsSync(resolve(root, name))
  if (name === undefined || !isPath && name !== "--all" && !names.includes(name)) {
    const problem = name === undefined ? "" : `there is no example ${name}\n\n`
    process.stderr.write(
      `${problem}npm run example -- NAME and its arguments, a path to a program of yours, or --all\n\n${list()}`
    )
    return 2
  }
  const programs = name === "--all" ? names : [name]
  const examples = await bundle(programs, { sourceMaps: true }).catch(() => undefined)
  if (examples === undefined) return 1 // esbuild has said what is wrong, and where
  const results: Array<{ readonly program: string; readonly code: number; readonly seconds: number }> = []
  try {
    for (const program of programs) {
      if (name === "--all") process.stdout.write(`\n== ${program}\n`)
      const start = performance.now()
      const { code } = await examples.run(program, { stdio: "inherit" }, args)
      results.push({ program, code, seconds: (performance.now() - start) / 1000 })
      if (code === 130) break
    }
  } finally {
    examples.dispose()
  }
  if (name === "--all") {
    const width = Math.max(...results.map(({ program }) => program.length))
    process.stdout.write(`\n${"example".padEnd(width)}  seconds\n`)
    for (const { code, program, seconds } of results) {
      process.stdout.write(
        `${program.padEnd(width)}  ${seconds.toFixed(1).padStart(7)}  ${code === 0 ? "ok" : `failed (${code})`}\n`
      )
    }
  }
  const failed = results.find(({ code }) => code !== 0)?.code ?? 0
  return name === "--all" && failed !== 0 ? 1 : failed
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  // The child hears of an interrupt too; this waits for it, to remove the bundle.
  process.on("SIGINT", () => {})
  const [name, ...args] = process.argv.slice(2)
  process.exit(await main(name, args))
}
