/**
 * Tools declared as TypeScript, as Kimi K2.5 and K2.6 read them.
 */
import type { ToolSpec } from "../../Message.js"
import { toJson } from "./format.js"

type JsonSchema = Readonly<Record<string, unknown>>

const isSchema = (u: unknown): u is JsonSchema => typeof u === "object" && u !== null && !Array.isArray(u)

const step = "  "

const comment = (description: string, indent: string): string =>
  description.split("\n").map((line) => line === "" ? "" : `${indent}// ${line}`).join("\n")

const constrained: Readonly<Record<string, ReadonlyArray<string>>> = {
  string: ["maxLength", "minLength", "pattern"],
  number: ["maximum", "minimum"],
  integer: ["maximum", "minimum"],
  array: ["maxItems", "minItems"]
}

/** The comments before a field or an item: what it is, and its limits. */
const notes = (schema: unknown, indent: string): string => {
  if (!isSchema(schema)) return ""
  const { description, type } = schema
  const isPlain = schema["anyOf"] === undefined && schema["enum"] === undefined && schema["$ref"] === undefined
  const limits = isPlain && typeof type === "string"
    ? (constrained[type] ?? []).flatMap((key) => schema[key] === undefined ? [] : [`${key}: ${String(schema[key])}`])
    : []
  return [
    ...(typeof description === "string" && description !== "" ? [comment(description, indent)] : []),
    ...(limits.length === 0 ? [] : [`${indent}// ${limits.join(", ")}`])
  ].map((line) => `${line}\n`).join("")
}

const unions: Readonly<Record<string, string>> = {
  string: "string",
  number: "number",
  integer: "number",
  boolean: "boolean",
  null: "null",
  object: "{}",
  array: "Array<any>"
}

const printed = (value: unknown): string =>
  typeof value === "string"
    ? `"${value}"`
    : value === true
    ? "True"
    : value === false
    ? "False"
    : value === null
    ? "None"
    : String(value)

const typeOf = (schema: unknown, indent: string): string => {
  if (!isSchema(schema)) return schema === false ? "null" : "any"
  const { anyOf, enum: values, items, type } = schema
  const ref = schema["$ref"]
  if (typeof ref === "string") return ref === "#" ? "parameters" : ref.split("/").at(-1) ?? "any"
  if (Array.isArray(anyOf)) return anyOf.map((member) => typeOf(member, indent)).join(" | ")
  if (Array.isArray(values)) return values.map(printed).join(" | ")
  if (Array.isArray(type)) return type.map((name) => unions[String(name)] ?? String(name)).join(" | ")
  if (type === "object") return objectOf(schema, indent)
  if (type === "array") {
    const item = isSchema(items) && Object.keys(items).length === 0 ? undefined : items
    const before = notes(item, indent + step)
    return before === ""
      ? `Array<${typeOf(item, indent)}>`
      : `Array<\n${before}${indent}${step}${typeOf(item, indent + step)}\n${indent}>`
  }
  return type === "integer" ? "number" : typeof type === "string" ? type : "any"
}

const field = (name: string, schema: unknown, isOptional: boolean, indent: string): string => {
  const fallback = isSchema(schema) ? schema["default"] : undefined
  const written = typeof fallback === "boolean" ? printed(fallback) : toJson(fallback)
  return [
    notes(schema, indent),
    fallback === undefined || fallback === null ? "" : `${indent}// Default: ${written}\n`,
    `${indent}${name}${isOptional ? "?" : ""}: ${typeOf(schema, indent)}`
  ].join("")
}

const fieldsOf = (schema: JsonSchema, indent: string, sorted: boolean): ReadonlyArray<string> => {
  const { properties, required } = schema
  const isOptional = (name: string) => !(Array.isArray(required) && required.includes(name))
  const list = isSchema(properties) ? Object.entries(properties) : []
  const byName = (members: typeof list) => members.sort(([left], [right]) => left < right ? -1 : left > right ? 1 : 0)
  const ordered = sorted
    ? [...byName(list.filter(([name]) => !isOptional(name))), ...byName(list.filter(([name]) => isOptional(name)))]
    : list
  return ordered.map(([name, value]) => field(name, value, isOptional(name), indent))
}

const objectOf = (schema: JsonSchema, indent: string): string => {
  const inner = indent + step
  const rest = schema["additionalProperties"]
  const members = [
    ...fieldsOf(schema, inner, true),
    ...(rest === undefined || rest === null
      ? []
      : [`${inner}[k: string]: ${rest === true ? "any" : rest === false ? "never" : typeOf(rest, inner)}`])
  ]
  return members.length === 0 ? "{}" : `{\n${members.join(",\n")}\n${indent}}`
}

const refersToItself = (schema: unknown): boolean =>
  Array.isArray(schema)
    ? schema.some(refersToItself)
    : isSchema(schema) && (schema["$ref"] === "#" || Object.values(schema).some(refersToItself))

const declare = (tool: ToolSpec): string => {
  const schema = tool.parameters
  const definitions = isSchema(schema["$defs"]) ? Object.entries(schema["$defs"]) : []
  const own = refersToItself(schema)
  const body = fieldsOf(schema, step, false).join(",\n")
  return [
    ...(own ? [`interface parameters {${body === "" ? "" : `\n${body}\n`}}`] : []),
    ...definitions.map(([name, definition]) => {
      const description = isSchema(definition) ? definition["description"] : undefined
      const before = typeof description === "string" && description !== "" ? `${comment(description, "")}\n` : ""
      return `${before}interface ${name} ${typeOf(definition, "")}`
    }),
    ...(tool.description === "" ? [] : [comment(tool.description, "")]),
    `type ${tool.name} = (_: ${own ? "parameters" : objectOf(schema, "")}) => any;`
  ].join("\n")
}

/** @internal */
export const typescriptTools = (tools: ReadonlyArray<ToolSpec>): string =>
  tools.length === 0
    ? ""
    : `# Tools\n\n## functions\nnamespace functions {\n${tools.map(declare).join("\n")}\n}\n`
