/**
 * `--skyrl`: a real SkyRL server, the client it pins, and ours, side by side. The same twenty steps give the same losses;
 * then checkpoints, samples, scores, lists, the archive, a call that is left, a restart in the middle, and going on from
 * the checkpoint. The release from the package index, or with `SKYRL_SOURCE` a checkout. Last, what a step costs both
 * clients, on that server and on one that is fast.
 */
import { Command, FetchHttpClient, FileSystem, Path } from "@effect/platform"
import { Console, Effect, Layer, Option, Schema, Stream } from "effect"
import { Tinker } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { fileURLToPath } from "node:url"
import * as Ours from "../skyrl/ours.js"
import * as Server from "../skyrl/server.js"
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"

const { differs, name } = Ours

const steps = 20

/** Of the value. */
const tolerance = 1e-5

const Trained = Schema.parseJson(Schema.Struct({
  losses: Schema.Array(Schema.Number),
  state: Schema.String,
  sampler: Schema.String,
  tokens: Schema.Array(Schema.Number),
  logprobs: Schema.Array(Schema.NullOr(Schema.Number)),
  resumed: Schema.Number,
  wall: Schema.Number,
  cpu: Schema.Number
}))

const close = (a: number | undefined, b: number | undefined): boolean =>
  a !== undefined && b !== undefined && Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(b))

const compared = (ours: Ours.Trained, theirs: typeof Trained.Type): ReadonlyArray<string> => {
  const differences: Array<string> = []
  for (let i = 0; i < steps; i++) {
    if (!close(ours.losses[i], theirs.losses[i])) {
      differences.push(`losses: step ${i + 1} is ${ours.losses[i]} here and ${theirs.losses[i]} there`)
    }
  }
  if (ours.tokens.join(" ") !== theirs.tokens.join(" ")) {
    differences.push(`samples: ${ours.tokens.join(" ")} here and ${theirs.tokens.join(" ")} there`)
  }
  if (!close(ours.resumed, theirs.resumed)) {
    differences.push(`resume: a loss of ${ours.resumed} here and ${theirs.resumed} there`)
  }
  // It leaves out the place of the first token, and its client passes that on.
  const scored = theirs.logprobs.length === Ours.prompt.length ? theirs.logprobs : [null, ...theirs.logprobs]
  const aligned = ours.logprobs.length === Ours.prompt.length && Number.isNaN(ours.logprobs[0]) &&
    ours.logprobs.slice(1).every((logprob, i) => close(logprob, scored[i + 1] ?? undefined))
  if (!aligned) differences.push(`prompt logprobs: ${ours.logprobs.join(" ")} here and ${scored.join(" ")} there`)
  return differences
}

const Times = Schema.Struct({ wall: Schema.Number, cpu: Schema.Number })

const ratio = (ours: number, theirs: number): string => (ours / theirs).toFixed(2)

const share = ({ cpu, wall }: typeof Times.Type): string => `${(100 * cpu / wall).toFixed(0)} %`

const report = (server: string, ours: typeof Times.Type, theirs: typeof Times.Type) =>
  Console.log(
    `${server}: ours / Python: wall ${ratio(ours.wall, theirs.wall)}, client CPU ${ratio(ours.cpu, theirs.cpu)}; ` +
      `the client's share of the wall time: ours ${share(ours)}, Python ${share(theirs)}`
  )

/** The embedded backend in a process of its own, until the scope closes. */
const embedded = Effect.gen(function*() {
  const child = yield* Command.start(
    Command.make(
      process.execPath,
      ...process.execArgv,
      fileURLToPath(new URL("../skyrl/embedded.ts", import.meta.url))
    ).pipe(Command.stderr("inherit"))
  )
  const said = yield* child.stdout.pipe(
    Stream.decodeText(),
    Stream.splitLines,
    Stream.filter((line) => line.startsWith("http")),
    Stream.runHead,
    Effect.timeoutOption("60 seconds"),
    Effect.map(Option.flatten)
  )
  const [baseUrl = "", apiKey = ""] = Option.getOrElse(said, () => "").split(" ")
  if (baseUrl === "") return yield* differs("the embedded backend did not start")
  return { baseUrl, apiKey }
})

/** The same loop on a server that answers at once, where what the client does shows. */
const fast = Effect.fnUntraced(function*(python: Server.Environment["python"]) {
  const { apiKey, baseUrl } = yield* embedded
  const [model, warm, measured] = ["local/tiny", 100, 300]
  const theirs = yield* python.run("skyrl_server.client", baseUrl, model, String(measured), apiKey, String(warm)).pipe(
    Effect.flatMap((said) => Schema.decode(Schema.parseJson(Times))(said.trim().split("\n").at(-1) ?? ""))
  )
  const ours = yield* Ours.throughput(model, warm, measured).pipe(
    Effect.scoped,
    Effect.provide(Tinker.layer({ baseUrl, apiKey }).pipe(Layer.provide(NodeTinker.layer())))
  )
  yield* report("the embedded backend", ours, theirs)
})

const run = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const environment = yield* Server.environment
  const directory = yield* fs.makeTempDirectoryScoped({ prefix: "skyrl-" }).pipe(
    Effect.mapError((error) => differs(error.message))
  )
  const server = yield* Server.start(environment, directory)
  const port = Number(new URL(server.baseUrl).port)

  const theirs = yield* environment.python.run(
    "skyrl_server.client",
    server.baseUrl,
    environment.model,
    String(steps)
  ).pipe(
    Effect.flatMap((said) =>
      Effect.mapError(Schema.decode(Trained)(said.trim().split("\n").at(-1) ?? ""), (error) => differs(error.message))
    )
  )
  yield* Console.log(
    `tinker ${environment.python.sdk}: ${steps} steps, ${theirs.losses[0]?.toFixed(4)} -> ` +
      theirs.losses.at(-1)?.toFixed(4)
  )

  const Client = Tinker.layer({ baseUrl: server.baseUrl, apiKey: "tml-parity" }).pipe(
    Layer.provide(NodeTinker.layer())
  )
  const differences = yield* Effect.gen(function*() {
    const { trained, training } = yield* Ours.train(environment.model, steps)
    yield* Console.log(
      `ours:          ${steps} steps, ${trained.losses[0]?.toFixed(4)} -> ${trained.losses.at(-1)?.toFixed(4)}`
    )
    yield* report(environment.version, trained, theirs)
    const behaviour = yield* Ours.behaves(training)
    const records = yield* Ours.records(trained, path.join(directory, "downloaded"))
    yield* Console.log(`records: ${records.summary}`)
    yield* server.stop
    yield* Server.start(environment, directory, port)
    const resumed = yield* Ours.resumes(training, trained)
    return [...compared(trained, theirs), ...behaviour, ...records.problems, ...resumed]
  }).pipe(
    Effect.scoped,
    Effect.provide(Client),
    Effect.catchAll((error) =>
      error._tag === "PythonMissing" || error._tag === "Differs" ? Effect.fail(error) : differs(`ours: ${error}`)
    )
  )
  if (differences.length > 0) return yield* new Differs({ suite: name, differences })
  yield* Effect.scoped(fast(environment.python)).pipe(
    Effect.catchAll((error) => error._tag === "Differs" ? Effect.fail(error) : differs(`throughput: ${error}`))
  )
  yield* Console.log("the same losses, samples, scores and resumption; restarted in the middle; ended")
}).pipe(Effect.scoped, Effect.provide(FetchHttpClient.layer))

export const skyrl: Suite = {
  name,
  summary: "a real SkyRL server: the client it pins and ours side by side",
  run: () => run
}
