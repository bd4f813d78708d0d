// npm run mutate: breaks the sources on purpose, one place at a time, and runs the tests that must notice. It works on a
// copy, so the tree stays as it is.
//
// `--package NAME --seed N --count K` makes the mutants itself (mutants.mjs) and draws K of each package; the tests are
// those of the package that reach the file and spawn nothing. equivalent-mutants.json names those that change nothing.
// `--file TEXT` keeps the files whose path has it. `--list` only prints what is drawn.
//
// Without a package the mutations are data: mutations.json names the file, the text, its replacement, and the test files.
// `--area NAME` and `--only TEXT`, each as often as wanted, choose some; `--chaos` tries those that a chaos run must notice.
// `--check` tries none: it says which no longer fit the sources, and is part of `npm run check`.
// The rest is not part of CI: docs/mutations.md has the score and explains what survives.
import { spawn } from "node:child_process"
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { parseArgs } from "node:util"
import { draw, keyOf, mutantsOf, sourcesOf, testsBySource } from "./mutants.mjs"
import { packages, root } from "./packages.mjs"

const { values } = parseArgs({
  options: {
    area: { type: "string", multiple: true },
    only: { type: "string", multiple: true },
    chaos: { type: "boolean", default: false },
    check: { type: "boolean", default: false },
    ops: { type: "string", default: "5000" },
    seed: { type: "string", default: "1" },
    package: { type: "string", multiple: true },
    count: { type: "string", default: "20" },
    file: { type: "string", multiple: true },
    list: { type: "boolean", default: false }
  }
})
const mutations = JSON.parse(readFileSync(new URL("mutations.json", import.meta.url), "utf8")).filter((mutation) =>
  (values.area === undefined || values.area.includes(mutation.area)) &&
  (values.only === undefined || values.only.some((text) => mutation.what.includes(text))) &&
  (!values.chaos || mutation.chaos === true)
)
const outputs = new Set(["dist", "build", "node_modules", "coverage"])

/** The workspace again: sources copied, what is installed linked. */
const makeStage = () => {
  const stage = mkdtempSync(join(tmpdir(), "effect-tinker-mutate-"))
  for (const name of readdirSync(root)) {
    if (name === "node_modules" || name === ".git") continue
    cpSync(join(root, name), join(stage, name), { recursive: true, filter: (path) => !outputs.has(basename(path)) })
  }
  const link = (from, to) => symlinkSync(from, to, "dir")
  const ours = new Map(packages.map(({ manifest, name }) => [manifest.name, join(stage, "packages", name)]))
  process.once("exit", () => rmSync(stage, { recursive: true, force: true }))
  mkdirSync(join(stage, "node_modules/@effect-tinker"), { recursive: true })
  for (const name of readdirSync(join(root, "node_modules"))) {
    if (name === "@effect-tinker" || ours.has(name) || name === ".cache" || name.startsWith(".v")) continue
    link(join(root, "node_modules", name), join(stage, "node_modules", name))
  }
  for (const [name, target] of ours) link(target, join(stage, "node_modules", name))
  return stage
}

/** How long the tests may take. A mutant that never ends is one that was noticed; a busy machine is not a mutant. */
let patience = 3_600_000

/**
 * Runs Node to its end, and yields what it wrote with its exit code: null if it was ended here. A worker of the tests that
 * loops for ever does not notice that they were ended, so all of their processes are.
 */
const run = (cwd, args) =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { cwd, detached: true, stdio: ["ignore", "pipe", "ignore"] })
    const end = () => {
      try {
        process.kill(-child.pid, "SIGKILL")
      } catch {
        // it has just ended by itself
      }
    }
    const interrupted = () => {
      end()
      process.exit(130)
    }
    process.once("SIGINT", interrupted).once("SIGTERM", interrupted)
    const timer = setTimeout(end, patience)
    const chunks = []
    child.stdout.on("data", (chunk) => chunks.push(chunk))
    child.once("error", reject)
    child.once("close", (status) => {
      clearTimeout(timer)
      process.off("SIGINT", interrupted).off("SIGTERM", interrupted)
      resolve({ status, stdout: Buffer.concat(chunks).toString("utf8") })
    })
  })

/** The same for one test, and the longest that one took: what hangs need not take all the time that CI would give it. */
let testTimeout = 120_000
let longest = 0

const testsOf = (stage) => async (files) => {
  const { status, stdout } = await run(stage, [
    join(root, "node_modules/vitest/vitest.mjs"),
    "run",
    "--bail=1",
    "--reporter=json",
    `--testTimeout=${testTimeout}`,
    ...files
  ])
  if (status === null) return "the tests do not end"
  try {
    const report = JSON.parse(stdout.slice(stdout.indexOf("{\"numTotal")))
    const tests = report.testResults.flatMap((file) => file.assertionResults)
    longest = Math.max(longest, ...tests.map(({ duration }) => duration ?? 0))
    if (status === 0) return undefined
    const failed = tests.find(({ status }) => status === "failed")
    return failed?.fullName.trim() ?? "a test file does not load"
  } catch {
    return "the tests do not run"
  }
}

const chaosOf = (stage) => async () => {
  const { status, stdout } = await run(stage, [
    "--conditions=@effect-tinker/source",
    "--import",
    "tsx",
    join(stage, "packages/parity/src/chaos.ts"),
    "--ops",
    values.ops,
    "--seed",
    values.seed
  ])
  if (status === 0) return undefined
  if (status === null) return "the run does not end"
  const broken = stdout.split("\n").filter((line) => line.startsWith("broken: ")).map((line) => line.slice(8))
  return broken.length === 0 ? `the run ended with ${status}` : `${broken[0]} (${broken.length} in all)`
}

/** Draws mutants of each package, and prints how many of them the tests notice. */
const scorePackages = async (names) => {
  const equivalent = new Map(
    JSON.parse(readFileSync(new URL("equivalent-mutants.json", import.meta.url), "utf8"))
      .map((mutant) => [keyOf(mutant), mutant.reason])
  )
  const chosen = names.map((name) => {
    const { dir } = packages.find((one) => one.name === name) ?? {}
    if (dir === undefined) {
      process.stderr.write(`there is no package "${name}"; there are ${packages.map((one) => one.name).join(", ")}\n`)
      process.exit(2)
    }
    const files = sourcesOf(name).filter((path) => values.file?.some((text) => path.includes(text)) ?? true)
    return {
      name,
      testsOf: testsBySource(name),
      mutants: draw(files.flatMap(mutantsOf), { count: Number(values.count), seed: values.seed })
    }
  })
  const place = ({ change, file, line }) => `${file}:${line}  ${change}`
  if (values.list) {
    for (const { mutants } of chosen) for (const mutant of mutants) process.stdout.write(`${place(mutant)}\n`)
    return 0
  }
  const stage = makeStage()
  const scores = []
  const left = []
  try {
    const noticed = testsOf(stage)
    for (const { mutants, name, testsOf } of chosen) {
      const real = mutants.filter((mutant) => !equivalent.has(keyOf(mutant)))
      const all = [...new Set(real.flatMap(({ file }) => testsOf(file).flat()))]
      patience = 3_600_000
      testTimeout = 120_000
      longest = 0
      const began = performance.now()
      const before = all.length === 0 ? undefined : await noticed(all)
      if (before !== undefined) {
        process.stderr.write(`${name}, without a mutation: ${before}\n`)
        return 1
      }
      patience = 60_000 + Math.ceil(2 * (performance.now() - began))
      testTimeout = 5_000 + Math.ceil(6 * longest)
      const score = { name, drawn: mutants.length, caught: 0, equivalent: 0, untested: 0 }
      for (const [i, mutant] of mutants.entries()) {
        const reason = equivalent.get(keyOf(mutant))
        let verdict = "SURVIVED"
        let by
        if (reason !== undefined) {
          score.equivalent++
          verdict = "the same"
          by = reason
        } else {
          const stages = testsOf(mutant.file)
          if (stages.length === 0) score.untested++
          const path = join(stage, mutant.file)
          const source = readFileSync(path, "utf8")
          for (const files of stages) {
            writeFileSync(path, source.slice(0, mutant.from) + mutant.replacement + source.slice(mutant.to))
            by = await noticed(files)
            writeFileSync(path, source)
            if (by !== undefined) break
          }
          if (by === undefined) left.push(mutant)
          else {
            score.caught++
            verdict = "caught  "
          }
          if (stages.length === 0) by = "no test of the package reaches the file without a process"
        }
        const number = `${String(i + 1).padStart(3)}/${mutants.length}`
        process.stdout.write(
          `${number} ${verdict} ${place(mutant)}${by === undefined ? "" : `\n            by ${by}`}\n`
        )
      }
      scores.push(score)
    }
  } finally {
    rmSync(stage, { recursive: true, force: true })
  }
  process.stdout.write("\n")
  for (const { caught, drawn, equivalent, name, untested } of scores) {
    const counted = drawn - equivalent
    process.stdout.write(
      `${name}, seed ${values.seed}: ${caught} of ${counted} caught, score ${Math.round(100 * caught / counted)} %` +
        `${equivalent > 0 ? `, ${equivalent} equivalent` : ""}${untested > 0 ? `, ${untested} without a test` : ""}\n`
    )
  }
  for (const mutant of left) process.stdout.write(`survived: ${place(mutant)}\n`)
  return left.length === 0 ? 0 : 1
}

/** Entries of both lists that no longer fit: a text that is not in its file just once, a test that is not there. */
const stale = () => {
  const texts = new Map()
  const textOf = (file) => {
    const path = join(root, file)
    if (!texts.has(file)) texts.set(file, existsSync(path) ? readFileSync(path, "utf8") : "")
    return texts.get(file)
  }
  const found = mutations.flatMap(({ file, search, tests, what }) => {
    const places = textOf(file).split(search).length - 1
    return [
      ...places === 1 ? [] : [`mutations.json: ${file} has ${places} places for "${what}"`],
      ...tests.filter((test) => textOf(test) === "").map((test) => `mutations.json: "${what}" names no test: ${test}`)
    ]
  })
  const names = mutations.map(({ area, what }) => `${area}: ${what}`)
  const twice = names.filter((name, i) => names.indexOf(name) !== i).map((name) => `mutations.json has "${name}" twice`)
  const equivalent = JSON.parse(readFileSync(new URL("equivalent-mutants.json", import.meta.url), "utf8"))
  const unknown = equivalent.filter((mutant) =>
    textOf(mutant.file) === "" || !mutantsOf(mutant.file).some((one) => keyOf(one) === keyOf(mutant))
  ).map((mutant) => `equivalent-mutants.json: ${mutant.file} has no place for "${mutant.change}"`)
  return [...found, ...twice, ...unknown]
}

if (values.check) {
  const found = stale()
  for (const line of found) process.stderr.write(`${line}\n`)
  process.exit(found.length === 0 ? 0 : 1)
}

if (values.package !== undefined) process.exit(await scorePackages(values.package))

if (mutations.length === 0) {
  process.stderr.write("no mutation is chosen\n")
  process.exit(2)
}
const stage = makeStage()
let caught = 0
const survivors = []
try {
  const noticed = values.chaos ? chaosOf(stage) : testsOf(stage)
  const began = performance.now()
  const before = await noticed([...new Set(mutations.flatMap(({ tests }) => tests))])
  patience = 60_000 + Math.ceil(4 * (performance.now() - began))
  testTimeout = 20_000 + Math.ceil(5 * longest)
  if (before !== undefined) {
    process.stderr.write(`without a mutation: ${before}\n`)
    process.exit(1)
  }
  for (const [i, { area, file, replace, search, survives, tests, what }] of mutations.entries()) {
    const path = join(stage, file)
    const source = readFileSync(path, "utf8")
    const parts = source.split(search)
    if (parts.length !== 2) {
      process.stderr.write(`${file} has ${parts.length - 1} places for "${what}"\n`)
      process.exit(1)
    }
    writeFileSync(path, parts.join(replace))
    const by = await noticed(tests)
    writeFileSync(path, source)
    if (by === undefined) survivors.push({ area, what, survives })
    else caught++
    const verdict = by === undefined ? "SURVIVED" : "caught  "
    process.stdout.write(
      `${String(i + 1).padStart(3)}/${mutations.length} ${verdict} ${area}: ${what}${
        by === undefined ? "" : `\n            by ${by}`
      }\n`
    )
  }
} finally {
  rmSync(stage, { recursive: true, force: true })
}
process.stdout.write(
  `\n${caught} of ${mutations.length} caught, score ${Math.round(100 * caught / mutations.length)} %\n`
)
for (const { area, survives, what } of survivors) {
  process.stdout.write(`survived: ${area}: ${what}${survives === undefined ? "" : ` (known: ${survives})`}\n`)
}
process.exit(survivors.some(({ survives }) => survives === undefined) ? 1 : 0)
