/**
 * What each renderer is held against, as a table for the docs: made of the families that the suite compares, so that it
 * cannot say more than is done.
 */
import type { Family } from "./families.js"

const columns = ["name", "prompt", "train", "tools", "reasoning", "images", "continue"]

const row = (family: Family): ReadonlyArray<string> => {
  const template = family.template === true ? ["T"] : []
  const cookbook = family.cookbook === false ? [] : ["C"]
  const renderers = family.renderers === undefined ? [] : ["R"]
  const cell = (oracles: ReadonlyArray<string>) => oracles.length === 0 ? "P" : oracles.join(" ")
  const all = cell([...template, ...cookbook, ...renderers])
  return [
    `\`${family.name}\``,
    all,
    cell([...template, ...cookbook]),
    family.tools ? all : "–",
    family.reasons ? all : "–",
    family.images === undefined ? "–" : cell(cookbook),
    cell(renderers)
  ]
}

export const table = (families: ReadonlyArray<Family>): string =>
  [
    `| ${columns.join(" | ")} |`,
    `| ${columns.map(() => "---").join(" | ")} |`,
    ...families.map((family) => `| ${row(family).join(" | ")} |`)
  ].join("\n")
