/**
 * `--drift`: the newest wheel of the official SDK on the package index against what is known here: the version whose wire
 * we speak, our table of endpoints, and the flags we read. Lists what to add; fails where there is something. A version
 * after the flag takes the place of ours, to see what came since then.
 */
import { Command, FileSystem, Path } from "@effect/platform"
import { Console, Effect, Schema } from "effect"
import { TinkerConfig } from "effect-tinker"
import { Api, ClientConfig } from "effect-tinker/wire"
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
  function*(interpreter: string, directory: string, wanted: string) {
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
    return yield* Effect.mapError(Schema.decode(Surface)(said), (error) => missing(error.message))
  },
  Effect.catchTags({
    BadArgument: (error) => missing(error.message),
    SystemError: (error) => missing(error.message)
  })
)

const run = (since: string) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped({ prefix: "drift-" }).pipe(
      Effect.mapError((error) => missing(error.message))
    )
    const interpreter = yield* Python.findInterpreter(11)
    const newest = yield* surfaceOf(interpreter, directory, "tinker")
    const known = newest.version === since ? newest : yield* surfaceOf(interpreter, directory, `tinker==${since}`)
    const differences = [...between(known, newest), ...unknownHere(newest)]
    yield* Console.log(
      `the newest is ${newest.version}, ${
        since === TinkerConfig.wireVersion ? "we speak" : "compared with"
      } ${since}: ` +
        `${newest.endpoints.length} endpoints, ${Object.keys(newest.types).length} types, ` +
        `${newest.headers.length} headers, ${newest.variables.length} variables`
    )
    if (differences.length > 0) return yield* new Differs({ suite: name, differences })
    yield* Console.log("nothing is new")
  }).pipe(Effect.scoped)

export const drift: Suite = {
  name,
  summary: "the newest official SDK on the index against what is known here",
  run: (args) => run(args.find((arg) => /^\d+\.\d+\.\d+$/.test(arg)) ?? TinkerConfig.wireVersion)
}
