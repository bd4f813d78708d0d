// Installs what only some tests, benchmarks or the documentation need: each such directory has a package.json and a lock
// file of its own and is no workspace, so that `npm ci` brings what everyone needs and nothing else. It happens at the
// first use, and again when the lock file has changed. By hand: node .ci/install.mjs DIRECTORY
import { spawn } from "node:child_process"
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { pathToFileURL } from "node:url"
import { root } from "./packages.mjs"

/** How long npm may take, so that a lock that is much older belongs to nobody. */
const patience = 600_000

/** What npm says where there is no network, or no registry behind it. */
const unreachable =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|ERR_SOCKET_TIMEOUT)\b/

const textOf = (path) => {
  try {
    return readFileSync(path, "utf8")
  } catch {
    return undefined
  }
}

/** Whether the process that wrote a lock was ended while it installed. */
const isAbandoned = (lock) => {
  const pid = Number.parseInt(textOf(lock) ?? "")
  // Being written, or just gone.
  if (Number.isNaN(pid)) return false
  try {
    process.kill(pid, 0)
    return Date.now() - statSync(lock).mtimeMs > 2 * patience
  } catch (error) {
    return error.code === "ESRCH"
  }
}

/** Tests run in several processes: one of them installs, and the others wait for it. */
const alone = async (name, act) => {
  const locks = join(root, "node_modules/.cache/installing")
  const lock = join(locks, name.replaceAll("/", "+"))
  mkdirSync(locks, { recursive: true })
  for (;;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: "wx" })
      break
    } catch (error) {
      if (error.code !== "EEXIST") throw error
    }
    if (isAbandoned(lock)) rmSync(lock, { force: true })
    else await setTimeout(100)
  }
  try {
    return await act()
  } finally {
    rmSync(lock, { force: true })
  }
}

const npm = (directory) =>
  new Promise((resolve, reject) => {
    // Peers included: npm hands the settings of the whole project on to what runs under it.
    const peers = "--no-legacy-peer-deps"
    const args = ["ci", peers, "--ignore-scripts", "--prefer-offline", "--fetch-retries=1", "--no-audit", "--no-fund"]
    const child = spawn("npm", [...args, "--loglevel=error"], {
      cwd: directory,
      stdio: ["ignore", "pipe", "pipe"],
      timeout: patience
    })
    const chunks = []
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => chunks.push(chunk))
    child.once("error", reject)
    child.once("close", (status) => resolve({ status, output: Buffer.concat(chunks).toString("utf8").trim() }))
  })

/**
 * Installs a directory, given from the root of the project: how to load what is in it, or why it is missing where the
 * registry cannot be reached. Any other failure is thrown.
 */
export const install = async (name) => {
  const directory = join(root, name)
  const wanted = readFileSync(join(directory, "package-lock.json"), "utf8")
  const stamp = join(directory, "node_modules/.installed")
  const installed = () => textOf(stamp) === wanted
  const require = createRequire(join(directory, "package.json"))
  if (installed()) return { require }
  return alone(name, async () => {
    // Another process was faster.
    if (installed()) return { require }
    process.stderr.write(`installing ${name}, once\n`)
    const { output, status } = await npm(directory)
    if (status === 0) {
      writeFileSync(stamp, wanted)
      return { require }
    }
    const [code] = unreachable.exec(output) ?? []
    if (code === undefined) throw new Error(`npm ci in ${name} ended with ${status ?? "a signal"}: ${output}`)
    const missing = `${name} could not be installed: the package registry cannot be reached (${code})`
    process.stderr.write(`${missing}\n`)
    return { missing }
  })
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  for (const name of process.argv.slice(2)) if ((await install(name)).missing !== undefined) process.exitCode = 1
}
