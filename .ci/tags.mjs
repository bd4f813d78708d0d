// Fails when two packages give the same `_tag` to errors of their own: where both may occur, `Effect.catchTag` could not tell
// them apart.
import { readdirSync, readFileSync } from "node:fs"
import { packages } from "./packages.mjs"

const declaration = /\bextends\s+(?:Schema|Data)\.TaggedError\b/g
const named = /\bextends\s+(?:Schema|Data)\.TaggedError(?:<[^>]*>)?\(\s*(?:(?:id\()?"[^"]*"\)?\s*,?\s*\)\(\s*)?"(\w+)"/g

const owners = new Map()
let failures = 0
const fail = (message) => {
  failures++
  process.stderr.write(`${message}\n`)
}

for (const { dir, name } of packages) {
  for (const file of readdirSync(`${dir}/src`, { recursive: true }).filter((file) => /\.tsx?$/.test(file))) {
    const text = readFileSync(`${dir}/src/${file}`, "utf8")
    const tags = Array.from(text.matchAll(named), ([, tag]) => tag)
    // A declaration this script cannot read would pass unseen.
    if (tags.length !== Array.from(text.matchAll(declaration)).length) {
      fail(`packages/${name}/src/${file}: a tagged error whose tag is not a literal`)
    }
    for (const tag of tags) {
      const others = owners.get(tag) ?? new Map()
      owners.set(tag, others.set(name, file))
    }
  }
}

for (const [tag, places] of owners) {
  if (places.size === 1) continue
  fail(
    `${tag} is an error of several packages: ${Array.from(places, ([name, file]) => `${name}/src/${file}`).join(", ")}`
  )
}
if (owners.size === 0) fail("no tagged errors were found")
process.exit(failures === 0 ? 0 : 1)
