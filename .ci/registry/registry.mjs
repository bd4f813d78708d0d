// A release, published to a registry on the loopback interface: for `npm run rehearse` and the slow tests.
import { spawn } from "node:child_process"
import { cpSync, existsSync, mkdirSync, readdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import { install } from "../install.mjs"
import { packages, publishable, root } from "../packages.mjs"

/** How long one command may take. */
const patience = 600_000

/**
 * Runs a program: what it printed. It fails with the end of what it said. The settings that npm hands on to what runs
 * under it are those of this project, which a stranger does not have.
 */
export const run = (cwd, command, args, { env = {}, timeout = patience } = {}) =>
  new Promise((resolve, reject) => {
    const stranger = Object.fromEntries(
      Object.entries(process.env).filter(([name]) =>
        !/^npm_(config_(?!registry|cache)|package_|lifecycle_)/i.test(name)
      )
    )
    const child = spawn(command, args, {
      cwd,
      env: { ...stranger, ...env },
      stdio: ["ignore", "pipe", "pipe"],
      timeout
    })
    const out = []
    const all = []
    child.stdout.on("data", (chunk) => {
      out.push(chunk)
      all.push(chunk)
    })
    child.stderr.on("data", (chunk) => all.push(chunk))
    child.once("error", reject)
    child.once("close", (status, signal) => {
      if (status === 0) return resolve(Buffer.concat(out).toString("utf8"))
      const said = Buffer.concat(all).toString("utf8").trim().split("\n").slice(-30).join("\n")
      reject(new Error(`${command} ${args.join(" ")} in ${cwd} ended with ${status ?? signal}:\n${said}`))
    })
  })

/** Starts a registry that keeps what it has in a directory; `{ url, stop }`, or why it cannot be started. */
export const start = async (directory) => {
  const { missing } = await install(".ci/registry")
  if (missing !== undefined) return { missing }
  mkdirSync(directory, { recursive: true })
  const upstream = (await run(root, "npm", ["config", "get", "registry"])).trim()
  const server = new URL("serve.mjs", import.meta.url).pathname
  const child = spawn(process.execPath, [server, directory, upstream], { stdio: ["pipe", "pipe", "inherit"] })
  const ended = new Promise((resolve) => child.once("close", resolve))
  const url = await new Promise((resolve, reject) => {
    child.once("error", reject)
    child.once("close", (status) => reject(new Error(`the registry ended with ${status}`)))
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (line.startsWith("http:")) resolve(line)
    })
  })
  return {
    url,
    stop: () => {
      child.stdin.end()
      return ended
    }
  }
}

/** Settings of a project, or of a person, that make every package manager use a registry; with a token for publishing. */
export const settings = (url) =>
  `registry=${url}\n${url.replace(/^http:/, "")}:_authToken=rehearsal\nfund=false\naudit=false\nupdate-notifier=false\n`

const link = (from, to) => {
  mkdirSync(dirname(to), { recursive: true })
  symlinkSync(realpathSync(from), to)
}

/**
 * A copy of the working tree, with what has been built, that a release may change. What is installed is shared with it,
 * except that packages of the workspace are its own.
 */
export const copy = async (directory) => {
  const files = (await run(root, "git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"])).split("\0")
  const built = publishable.flatMap(({ name }) =>
    ["dist", "assets", "native", "models"].map((f) => `packages/${name}/${f}`)
  )
  for (const file of [...files.filter((file) => file !== ""), ...built]) {
    if (!existsSync(join(root, file))) continue
    // the build is up to date by the times of its files
    cpSync(join(root, file), join(directory, file), { recursive: true, preserveTimestamps: true })
  }
  const own = new Map(packages.map(({ manifest, name }) => [manifest.name, join(directory, "packages", name)]))
  const modules = (from, to) => {
    for (const name of existsSync(from) ? readdirSync(from) : []) {
      const scoped = name.startsWith("@")
      for (const inner of scoped ? readdirSync(join(from, name)) : [name]) {
        const full = scoped ? `${name}/${inner}` : inner
        if (full === "effect-tinker-scratchpad" || full === ".package-lock.json") continue
        if (existsSync(join(from, full))) link(own.get(full) ?? join(from, full), join(to, full))
      }
    }
  }
  modules(join(root, "node_modules"), join(directory, "node_modules"))
  for (const { name } of packages) {
    modules(join(root, "packages", name, "node_modules"), join(directory, "packages", name, "node_modules"))
  }
  for (const tool of ["compiler", "site"]) {
    const from = join(root, ".ci", tool, "node_modules")
    if (existsSync(from)) link(from, join(directory, ".ci", tool, "node_modules"))
  }
}

/** Publishes a copy as a release does. Without provenance, which only a continuous integration can vouch for. */
export const publish = async (directory, url) => {
  writeFileSync(join(directory, ".npmrc.rehearsal"), settings(url))
  return run(directory, process.execPath, [".ci/native/publish.mjs", "--provenance=false"], {
    env: { NPM_CONFIG_USERCONFIG: join(directory, ".npmrc.rehearsal"), NPM_CONFIG_REGISTRY: url }
  })
}
