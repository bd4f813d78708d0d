/**
 * `--drift`: what is newest on the package indexes against what is known here. Of the official SDK: the version whose wire
 * we speak, our table of endpoints, and the flags we read. Of the cookbook: its public names, recipes, models and renderers.
 * Of the AI SDK and Effect: the major version. Lists what to add by area and writes `docs/upstream.md`; fails where
 * there is something nobody has looked at. A version after the flag takes the place of the SDK's, to see what came since then.
 */
import { Renderers } from "@effect-tinker/tokenizer"
import { Command, FileSystem, Path } from "@effect/platform"
import { Console, Effect, Schema } from "effect"
import { TinkerConfig } from "effect-tinker"
import { Api, ClientConfig } from "effect-tinker/wire"
import * as Known from "../drift/known.js"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs, PythonMissing } from "../Suite.js"

const name = "drift"

const Surface = Schema.parseJson(Schema.Struct({
  version: Schema.String,
  types: Schema.Record({ key: Schema.String, value: Schema.Record({ key: Schema.String, value: Schema.String }) }),
  endpoints: Schema.Array(Schema.String),
  headers: Schema.Array(Schema.String),
  variables: Schema.Array(Schema.String)
}))

type Surface = typeof Surface.Type

const Cookbook = Schema.parseJson(Schema.Struct({
  version: Schema.String,
  names: Schema.Array(Schema.String),
  recipes: Schema.Array(Schema.String),
  models: Schema.Array(Schema.String),
  renderers: Schema.Array(Schema.String)
}))

type Cookbook = typeof Cookbook.Type

const added = (what: string, before: ReadonlyArray<string>, now: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...now.filter((one) => !before.includes(one)).map((one) => `new ${what}: ${one}`),
  ...before.filter((one) => !now.includes(one)).map((one) => `removed ${what}: ${one}`)
]

const changedFields = (before: Surface["types"], now: Surface["types"]): ReadonlyArray<string> =>
  Object.entries(now).flatMap(([type, fields]) => {
    const old = before[type]
    if (old === undefined) return []
    return [
      ...added(
        "field",
        Object.keys(old).map((field) => `${type}.${field}`),
        Object.keys(fields).map((field) => `${type}.${field}`)
      ),
      ...Object.entries(fields).flatMap(([field, now]) =>
        old[field] === undefined || old[field] === now
          ? []
          : [`changed field: ${type}.${field}: ${old[field]} -> ${now}`]
      )
    ]
  })

/** What came between two versions. */
export const between = (before: Surface, now: Surface): ReadonlyArray<string> => [
  ...added("endpoint", before.endpoints, now.endpoints),
  ...added("type", Object.keys(before.types), Object.keys(now.types)),
  ...changedFields(before.types, now.types),
  ...added("header", before.headers, now.headers),
  ...added("variable", before.variables, now.variables)
]

/** What came between two versions of the cookbook. */
export const betweenCookbooks = (before: Cookbook, now: Cookbook): ReadonlyArray<string> => [
  ...added("name", before.names, now.names),
  ...added("recipe", before.recipes, now.recipes),
  ...added("model", before.models, now.models),
  ...added("renderer", before.renderers, now.renderers)
]

/** Renderers of the cookbook that have no twin here, and models without a renderer here. */
export const unrendered = (now: Cookbook): ReadonlyArray<Known.Known> => [
  ...now.renderers.filter((name) => !Renderers.names.includes(name)).map((name) => ({
    area: "renderers",
    what: `\`${name}\``,
    since: `cookbook ${now.version} or earlier`,
    here: "no" as const
  })),
  ...now.models.filter((model) => Renderers.recommended(model).length === 0).map((model) => ({
    area: "models",
    what: model,
    since: `cookbook ${now.version} or earlier`,
    here: "no" as const,
    note: "no renderer of its own: the tokenizer's chat template is used"
  }))
]

/** Major versions that nobody has looked at. */
export const unseen = (libraries: ReadonlyArray<Known.Library & { readonly newest: string }>): ReadonlyArray<string> =>
  libraries.flatMap(({ name, newest, seen }) =>
    Number.parseInt(newest, 10) > seen ? [`new major version: ${name} ${newest}`] : []
  )

const row = ({ area, here, note, since, what }: Known.Known): string =>
  `| ${area} | ${what} | ${since} | ${note === undefined ? here : `${here}: ${note}`} |`

/** The guide with the state of everything upstream has. */
export const guide = (
  versions: { readonly sdk: string; readonly cookbook: string },
  rows: ReadonlyArray<Known.Known>,
  libraries: ReadonlyArray<Known.Library & { readonly newest: string }>
): string =>
  [
    "# Upstream",
    "",
    `The official SDK (${versions.sdk}) and its cookbook (${versions.cookbook}) beside the packages here. \`npm run parity -- --drift\``,
    "writes this table from the newest releases; a workflow runs it every week.",
    "",
    "| area | upstream has | since | here |",
    "| --- | --- | --- | --- |",
    ...rows.map(row),
    "",
    "| library | newest | here |",
    "| --- | --- | --- |",
    ...libraries.map(({ name, newest, ours }) => `| \`${name}\` | ${newest} | ${ours} |`),
    ""
  ].join("\n")

/** With every name in it alike; a prefix to which code adds the rest is not an endpoint. */
const template = (path: string): string => path.replaceAll(/\{[^}]+\}/g, "{}")

const isWhole = (path: string): boolean => !path.endsWith("/")

const flags = Object.keys(Schema.encodeSync(ClientConfig.ClientConfig)(new ClientConfig.ClientConfig()))

/** What the wheel has and our tables lack. */
export const unknownHere = (now: Surface): ReadonlyArray<string> => {
  const endpoints = new Set(Api.all.map(({ path }) => template(path)))
  return [
    ...now.endpoints.filter((path) => isWhole(path) && !endpoints.has(template(path)))
      .map((path) => `not in our table of endpoints: ${path}`),
    ...Object.keys(now.types["ClientConfigResponse"] ?? {}).filter((flag) => !flags.includes(flag))
      .map((flag) => `not among the flags we read: ${flag}`)
  ]
}

const missing = (reason: string) => new PythonMissing({ reason })

const surfaceOf = Effect.fnUntraced(
  function*<A>(interpreter: string, directory: string, wanted: string, schema: Schema.Schema<A, string>) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const into = path.join(directory, wanted.replace(/\W/g, "_"))
    yield* Python.output(
      Command.make(
        interpreter,
        ...["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", into, wanted]
      )
    )
    const [wheel] = (yield* fs.readDirectory(into)).filter((file) => file.endsWith(".whl"))
    if (wheel === undefined) return yield* missing(`the index has no wheel of ${wanted}`)
    const script = path.join(Python.root, "python", "drift.py")
    const said = yield* Python.output(Command.make(interpreter, script, path.join(into, wheel)))
    return yield* Effect.mapError(Schema.decode(schema)(said), (error) => missing(error.message))
  },
  Effect.catchTags({
    BadArgument: (error) => missing(error.message),
    SystemError: (error) => missing(error.message)
  })
)

/** The newest of a thing and the version that is known, read the same way. */
const twoOf = Effect.fnUntraced(function*<A extends { readonly version: string }>(
  interpreter: string,
  directory: string,
  name: string,
  known: string,
  schema: Schema.Schema<A, string>
) {
  const newest = yield* surfaceOf(interpreter, directory, name, schema)
  const before = newest.version === known
    ? newest
    : yield* surfaceOf(interpreter, directory, `${name}==${known}`, schema)
  return { newest, before }
})

const newestOf = (library: Known.Library) =>
  Effect.map(
    Python.output(Command.make("npm", "view", library.name, "version")),
    (newest) => ({ ...library, newest: newest.trim() })
  )

const run = (since: string) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const directory = yield* fs.makeTempDirectoryScoped({ prefix: "drift-" })
    const interpreter = yield* Python.findInterpreter(11)
    const sdk = yield* twoOf(interpreter, directory, "tinker", since, Surface)
    const cookbook = yield* twoOf(interpreter, directory, "tinker-cookbook", Known.cookbook, Cookbook)
    const libraries = yield* Effect.forEach(Known.libraries, newestOf)
    const found: Record<string, ReadonlyArray<string>> = {
      sdk: [...between(sdk.before, sdk.newest), ...unknownHere(sdk.newest)],
      cookbook: betweenCookbooks(cookbook.before, cookbook.newest),
      libraries: unseen(libraries)
    }
    const { newest } = sdk
    yield* Console.log(
      `the newest SDK is ${newest.version}, ${
        since === TinkerConfig.wireVersion ? "we speak" : "compared with"
      } ${since}: ` +
        `${newest.endpoints.length} endpoints, ${Object.keys(newest.types).length} types, ` +
        `${newest.headers.length} headers, ${newest.variables.length} variables`
    )
    const { models, names, recipes, renderers, version } = cookbook.newest
    yield* Console.log(
      `the newest cookbook is ${version}, ${Known.cookbook} is known: ${names.length} names, ${recipes.length} recipes, ` +
        `${models.length} models, ${renderers.length} renderers`
    )
    for (const { name, newest, ours } of libraries) yield* Console.log(`${name} ${newest}, ours is made for ${ours}`)
    const fresh = Object.entries(found).flatMap(([area, differences]) =>
      differences.map((what) => ({ area, what, since: "newest", here: "no" as const, note: "not looked at yet" }))
    )
    yield* fs.writeFileString(
      path.join(Python.root, "..", "..", "docs", "upstream.md"),
      guide(
        { sdk: newest.version, cookbook: version },
        [...Known.known, ...unrendered(cookbook.newest), ...fresh],
        libraries
      )
    )
    const differences = fresh.map(({ area, what }) => `${area}: ${what}`)
    if (differences.length > 0) return yield* new Differs({ suite: name, differences })
    yield* Console.log("nothing is new")
  }).pipe(
    Effect.scoped,
    Effect.catchTags({
      BadArgument: (error) => missing(error.message),
      SystemError: (error) => missing(error.message)
    })
  )

export const drift: Suite = {
  name,
  summary: "the newest official SDK, cookbook, AI SDK and Effect on the indexes against what is known here",
  run: (args) => run(args.find((arg) => /^\d+\.\d+\.\d+$/.test(arg)) ?? TinkerConfig.wireVersion)
}
