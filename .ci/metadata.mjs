// Writes what every publishable package.json must say about itself, or with --check fails where one does not: where it
// comes from, who made it, how it is found, and how ES modules are found by older `moduleResolution`s.
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { publishable, root } from "./packages.mjs"

const home = "https://github.com/effect-tinker/effect-tinker"
const check = process.argv.includes("--check")
let found = 0
const report = (where, what) => {
  found++
  process.stderr.write(`${where}: ${what}\n`)
}

const compact = (value) =>
  Array.isArray(value)
    ? `[${value.map(compact).join(", ")}]`
    : typeof value === "object"
    ? `{ ${Object.entries(value).map(([key, inner]) => `${JSON.stringify(key)}: ${compact(inner)}`).join(", ")} }`
    : JSON.stringify(value)

const line = ([key, value]) => `  ${JSON.stringify(key)}: ${compact(value)},`

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b)

for (const { dir, manifest, name } of publishable) {
  const path = `${dir}/package.json`
  const where = `packages/${name}/package.json`
  const wanted = {
    homepage: `${home}/tree/main/packages/${name}#readme`,
    repository: { type: "git", url: `git+${home}.git`, directory: `packages/${name}` },
    bugs: { url: `${home}/issues` },
    license: "Apache-2.0",
    author: "effect-tinker contributors",
    publishConfig: { access: "public", provenance: true },
    // Resolvers that do not read `exports` find the declarations by these.
    main: manifest.exports?.["."]?.default,
    types: manifest.exports?.["."]?.types,
    // The second target is for `types` above, which is looked up by the same table.
    typesVersions: { "*": { "*": ["./dist/*", "./*"] } }
  }
  const stale = Object.entries(wanted).filter(([key, value]) => !same(manifest[key], value))
  if (check) { for (const [key] of stale) report(where, `${key} is missing or out of date: npm run codegen`) }
  else if (stale.length > 0) {
    // Line by line, so that the rest of the file keeps its layout.
    const stays = readFileSync(path, "utf8").split("\n").filter((line) =>
      !stale.some(([key]) => line.startsWith(`  "${key}": `))
    )
    const at = stays.findIndex((line) => line.startsWith("  \"description\": ")) + 1
    const text = [...stays.slice(0, at), ...stale.map(line), ...stays.slice(at)].join("\n")
    JSON.parse(text)
    writeFileSync(path, text)
  }
  // What only a person can write.
  if ((manifest.description ?? "").length < 20) report(where, "no description that says what it is")
  if ((manifest.keywords ?? []).length < 3) report(where, "fewer than three keywords")
  if (!(manifest.keywords ?? []).includes("effect")) report(where, "the keyword effect is missing")
  if (manifest.engines?.node !== JSON.parse(readFileSync(`${root}package.json`, "utf8")).engines.node) {
    report(where, "engines.node differs from the workspace's")
  }
  for (const file of ["LICENSE", "README.md"]) {
    if (!existsSync(`${dir}/${file}`)) report(`packages/${name}`, `no ${file}`)
  }
  if (!(manifest.files ?? []).includes("!dist/.tsbuildinfo")) {
    report(where, "files does not leave out dist/.tsbuildinfo")
  }
}
process.exit(found === 0 ? 0 : 1)
