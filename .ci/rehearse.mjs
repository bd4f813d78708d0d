// npm run rehearse: a release, on this machine alone. The working tree is copied, `release:version` gives the copy its new
// versions, it is built and published to a registry on the loopback interface. Then, in empty directories and with each
// package manager, what a newcomer types: install, the first program, `tinker train sft`, and the projects that
// `create-effect-tinker` writes. `--smoke` does it with npm alone and one project of each kind, at the versions there are;
// `--only NAME` runs the scenarios whose names contain it, `--keep` leaves the directory,
// `--unversioned` publishes the versions as they are. The exit code is 1 when something did not work.
import { spawnSync } from "node:child_process"
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { publishable, root } from "./packages.mjs"
import { copy, publish, run, settings, start } from "./registry/registry.mjs"

const option = (name) => process.argv.includes(name)
const smoke = option("--smoke")
const only = option("--only") ? process.argv[process.argv.indexOf("--only") + 1] : ""

/** Package managers and runtimes that newcomers have, as npm packages. */
const tools = { pnpm: "pnpm@10.20.0", yarn: "yarn@1.22.22", bun: "bun@1.4.4", deno: "deno@2.9.6" }

const starts = ["chats", "reward", "loop"].flatMap((start) =>
  ["effect", "promise"].map((style) => [`${start}, ${style}`, ["--start", start, "--style", style]])
).concat(
  ["ai-sdk", "openai-agents", "langgraph", "mastra", "effect-ai"].map((name) => [`agent, ${name}`, ["--agent", name]])
)

/** Newest versions that not every mirror has; the tests of the frameworks replace them too. */
const overrides = {
  "agent, langgraph": { "@langchain/langgraph-checkpoint": "1.1.5", "@langchain/protocol": "0.0.18" }
}

/** One of each kind, both styles, the agent of the framework that most have. */
const smokes = new Set(["chats, promise", "reward, effect", "loop, promise", "agent, ai-sdk"])

const rows = []
const step = async (name, act) => {
  const from = performance.now()
  let outcome
  try {
    outcome = await act() ?? ""
  } catch (error) {
    process.exitCode = 1
    outcome = `FAILED: ${error.message}`
  }
  const seconds = ((performance.now() - from) / 1000).toFixed(0)
  rows.push([name, seconds, outcome.split("\n")[0]])
  process.stdout.write(`${name.padEnd(44)} ${seconds.padStart(4)} s  ${outcome}\n`)
  return !outcome.startsWith("FAILED")
}

const expected = "Who are you? → A pirate."
const holds = (text, wanted) => {
  if (!text.includes(wanted)) throw new Error(`the output has no ${JSON.stringify(wanted)}:\n${text.slice(-2000)}`)
}

/** Weight of a directory, and the number of packages in it. */
const weight = (directory) => {
  let bytes = 0
  let count = 0
  const seen = new Set()
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const { ino, size } = statSync(join(entry.parentPath ?? entry.path, entry.name))
    if (seen.has(ino)) continue
    seen.add(ino)
    bytes += size
    if (entry.name === "package.json" && /node_modules\/(@[^/]+\/)?[^/]+$/.test(entry.parentPath ?? entry.path)) count++
  }
  return `${count} packages, ${(bytes / 1e6).toFixed(0)} MB`
}

const folder = mkdtempSync(join(tmpdir(), "effect-tinker-rehearsal-"))
const registry = await start(join(folder, "registry"))
if (registry.missing !== undefined) {
  process.stderr.write(`${registry.missing}\n`)
  process.exit(1)
}
const { stop, url } = registry

/** An empty directory whose package managers use the registry. */
const empty = (name) => {
  const directory = join(folder, "projects", name.replaceAll(/\W+/g, "-"))
  mkdirSync(directory, { recursive: true })
  writeFileSync(join(directory, ".npmrc"), settings(url))
  return directory
}

/** The environment of a newcomer: the registry, and no cache of packages that were published before. */
const home = join(folder, "home")
mkdirSync(home)
writeFileSync(join(home, ".npmrc"), settings(url))
const env = {
  NPM_CONFIG_USERCONFIG: join(home, ".npmrc"),
  NPM_CONFIG_REGISTRY: url,
  npm_config_registry: url,
  BUN_INSTALL_CACHE_DIR: join(home, "bun"),
  DENO_DIR: join(home, "deno"),
  YARN_CACHE_FOLDER: join(home, "yarn"),
  npm_config_store_dir: join(home, "pnpm"),
  PATH: [join(folder, "tools/node_modules/.bin"), process.env["PATH"]].join(delimiter)
}
const type = (directory, command, ...args) => run(directory, command, args, { env })
/** A cache of its own: `npm create` finds what it keeps again by its version, which earlier rehearsals had too. */
const fresh = { ...env, npm_config_cache: join(home, "npm") }

const wanted = ["effect-tinker", "@effect-tinker/local", "@effect-tinker/tokenizer", "@effect-tinker/cli"]
const first = (directory, project) => {
  writeFileSync(join(directory, "package.json"), JSON.stringify({ private: true, type: "module", ...project }))
  copyFileSync(join(root, "examples/first-program.ts"), join(directory, "first-program.mjs"))
  copyFileSync(join(root, "packages/create/templates/chats/data/chats.jsonl"), join(directory, "chats.jsonl"))
}
const sft = ["train", "sft", "chats.jsonl", "--model", "local/chat", "--base-url", "local", "--epochs", "1"]

/** Of these, the newest version's packages for other platforms are not on every mirror; the lock file here has another. */
const native = {
  yarn: { resolutions: { "msgpackr-extract": "3.0.4" } },
  deno: { overrides: { "msgpackr-extract": "3.0.4" } }
}

/** Packages that a program of Effects imports itself; npm and bun install peers without being asked, and find them. */
const peers = ["effect@3", "@effect/platform@0.97", "@effect/platform-node@0.108"]

/** The same with each: install, the first program, the command. */
const managers = {
  npm: {
    install: ["npm", "install", ...wanted],
    program: ["node", "first-program.mjs"],
    tinker: ["npx", "tinker"]
  },
  pnpm: {
    install: ["pnpm", "add", ...wanted, ...peers],
    program: ["node", "first-program.mjs"],
    tinker: ["pnpm", "tinker"]
  },
  yarn: {
    install: ["yarn", "add", "--silent", ...wanted, ...peers],
    program: ["node", "first-program.mjs"],
    tinker: ["yarn", "--silent", "tinker"]
  },
  bun: {
    install: ["bun", "add", ...wanted],
    program: ["bun", "first-program.mjs"],
    tinker: ["bun", "run", "tinker"]
  },
  deno: {
    install: [
      "deno",
      "install",
      "--node-modules-dir=auto",
      "--minimum-dependency-age=0",
      ...[...wanted, ...peers].map((name) => `npm:${name}`)
    ],
    program: ["deno", "run", "-A", "first-program.mjs"],
    tinker: ["deno", "run", "-A", "npm:@effect-tinker/cli"]
  }
}

/** Packages that bring no Effect 3. */
const promise = "packages/promise/test/support/program.mjs"
const withoutEffect3 = [
  { name: "npm: promise", install: ["npm", "install", "@effect-tinker/promise"], run: ["node"], program: promise },
  {
    name: "npm: effect4",
    install: ["npm", "install", "@effect-tinker/effect4", "effect"],
    run: ["node"],
    program: "packages/effect4/examples/train.mjs"
  },
  { name: "bun: promise", install: ["bun", "add", "@effect-tinker/promise"], run: ["bun"], program: promise },
  {
    name: "deno: promise",
    install: [
      ...["deno", "install", "--node-modules-dir=auto", "--minimum-dependency-age=0"],
      "npm:@effect-tinker/promise"
    ],
    run: ["deno", "run", "-A"],
    program: promise
  }
]

try {
  process.stdout.write(`${folder}\n`)
  const tree = join(folder, "tree")
  let ready = await step("build, copy", async () => {
    const built = spawnSync("npm", ["run", "--silent", "build"], { cwd: root, stdio: ["ignore", "ignore", "inherit"] })
    if (built.status !== 0) throw new Error("npm run build")
    await copy(tree)
    // Change logs name the commits that changesets came with, and releases tag them.
    await run(tree, "git", ["init", "--quiet", "--initial-branch=main"])
    for (const [name, value] of [["name", "rehearsal"], ["email", "rehearsal@localhost"]]) {
      await run(tree, "git", ["config", `user.${name}`, value])
    }
    await run(tree, "git", ["add", "--all"])
    await run(tree, "git", ["commit", "--quiet", "-m", "as it is"])
  })
  const versionOf = () => JSON.parse(readFileSync(join(tree, "packages/tinker/package.json"), "utf8")).version
  if (ready && !smoke && !option("--unversioned")) {
    ready = await step("npm run release:version", async () => {
      await run(tree, "npm", ["run", "release:version"])
      const versions = new Set(
        publishable.map(({ name }) =>
          JSON.parse(readFileSync(join(tree, "packages", name, "package.json"), "utf8")).version
        )
      )
      if (versions.size !== 1) throw new Error(`one version for all, but there are ${[...versions].join(", ")}`)
      await run(tree, "npm", ["run", "build"])
      return versionOf()
    })
  }
  ready = ready && await step("npm run release:publish", async () => {
    await publish(tree, url)
    for (const { manifest } of publishable) {
      const { dist, publishConfig, version } = JSON.parse(
        await run(folder, "npm", [
          "view",
          `${manifest.name}@${versionOf()}`,
          "version",
          "dist",
          "publishConfig",
          "--json"
        ], { env })
      )
      // Without them there is no provenance: where it comes from, and the wish for it.
      const { repository } = manifest
      if (publishConfig?.provenance !== true || repository?.url === undefined || dist?.integrity === undefined) {
        throw new Error(`${manifest.name}@${version} asks for no provenance`)
      }
    }
    if (!smoke) await publish(tree, url) // once more: nothing is left to be published
    return `${publishable.length} packages`
  })
  if (ready) {
    if (!smoke) {
      await step("package managers", async () => {
        mkdirSync(join(folder, "tools"))
        await run(join(folder, "tools"), "npm", ["install", "--no-save", "--prefix", ".", ...Object.values(tools)])
      })
    }
    for (const [name, { install, program, tinker }] of Object.entries(managers)) {
      if (!name.includes(only) || (smoke && name !== "npm")) continue
      const directory = empty(name)
      first(directory, native[name] ?? {})
      const installed = await step(`${name}: ${install.slice(0, 2).join(" ")}`, async () => {
        await type(directory, ...install)
        return weight(join(directory, "node_modules"))
      })
      if (!installed) continue
      await step(`${name}: the first program`, async () => holds(await type(directory, ...program), expected))
      await step(`${name}: tinker train sft`, async () => {
        await type(directory, ...tinker, ...sft)
        statSync(join(directory, "runs"))
      })
    }
    for (const { install, name, program, run: command } of withoutEffect3) {
      if (!name.includes(only) || (smoke && !name.startsWith("npm"))) continue
      const directory = empty(name)
      writeFileSync(join(directory, "package.json"), JSON.stringify({ private: true, type: "module" }))
      copyFileSync(join(root, program), join(directory, "program.mjs"))
      const installed = await step(name, async () => {
        await type(directory, ...install)
        return weight(join(directory, "node_modules"))
      })
      if (installed) {
        await step(
          `${name}: a program`,
          async () => holds(await type(directory, ...command, "program.mjs"), "A pirate.")
        )
      }
    }
    for (const [i, [name, args]] of starts.entries()) {
      const manager = smoke ? "npm" : ["npm", "pnpm", "bun"][i % 3]
      if (!`create ${name}`.includes(only) || (smoke && !smokes.has(name))) continue
      const directory = empty(`create ${name}`)
      const project = join(directory, "my-model")
      const created = await step(`create ${name}, ${manager}`, async () => {
        const create = ["create", "--yes", `effect-tinker@${versionOf()}`, "my-model", "--"]
        await run(directory, "npm", [...create, ...args, "--pm", manager, "--no-install", "--yes"], { env: fresh })
        copyFileSync(join(directory, ".npmrc"), join(project, ".npmrc"))
        if (overrides[name] !== undefined) {
          const path = join(project, "package.json")
          const manifest = JSON.parse(readFileSync(path, "utf8"))
          writeFileSync(path, JSON.stringify({ ...manifest, overrides: overrides[name] }, null, 2))
        }
        await type(project, manager, "install")
        await type(project, manager, "run", "check")
        await type(project, manager, "run", "test")
        return weight(join(project, "node_modules"))
      })
      if (!created) continue
      await step(`create ${name}, ${manager}: train`, async () => {
        const lines = (await type(project, manager, "run", "train")).trim().split("\n")
        if (!/^step \d/m.test(lines.join("\n"))) throw new Error(lines.join("\n"))
        return lines.slice(-2).join("; ")
      })
    }
    if (!smoke && "stranger".includes(only)) {
      await step("stranger: empty directory to exported model", async () => {
        const directory = empty("stranger")
        for (const file of ["chats.jsonl", "held-out.jsonl"]) {
          copyFileSync(join(root, "packages/create/templates/chats/data", file), join(directory, file))
        }
        await type(directory, "npm", "install", "@effect-tinker/cli")
        const trained = await type(directory, "npx", "tinker", ...sft.slice(0, -1), "8", "--learning-rate", "1e-3")
        const [path = ""] = /tinker:\/\/\S+/.exec(trained) ?? []
        const measured = await type(
          directory,
          ...["npx", "tinker", "eval", "runs/sft-chats-chat", "--on", "held-out.jsonl"],
          ...["--compare", "local/chat", "--base-url", "local"]
        )
        await type(
          directory,
          ...["npx", "tinker", "export", "weights", path, "--for", "transformers", "--base-url", "local"],
          ...["-o", "model"]
        )
        statSync(join(directory, "model/model.safetensors"))
        return `four commands; ${/^nll.*$/m.exec(measured)?.[0].replaceAll(/\s+/g, " ")}`
      })
    }
  }
} finally {
  await stop()
  if (option("--keep")) process.stdout.write(`${folder}\n`)
  else rmSync(folder, { recursive: true, force: true })
}
