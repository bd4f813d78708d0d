/**
 * Starts the saving process, kills it in the middle, and loads what it had acknowledged.
 */
import * as TinkerLocal from "@effect-tinker/local/TinkerLocal"
import { Command, FileSystem, HttpClient, HttpClientRequest, Path } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Data, Duration, Effect, Random, Ref, Stream } from "effect"
import { bundle } from "../Bundle.js"

export class KillFailed extends Data.TaggedError("KillFailed")<{ readonly reason: string }> {}

export interface Report {
  readonly rounds: number
  readonly acknowledged: number
  /** Kills that hit in the middle of a save. */
  readonly unfinished: number
  /** What was acknowledged and is not there, or not as it was. */
  readonly lost: ReadonlyArray<string>
}

interface Acknowledged {
  readonly path: string
  readonly n: number
}

const failed = (cause: unknown) => new KillFailed({ reason: String(cause) })

/** What the process said before it was killed, some time after its first save. */
const killDuringSaves = (program: string, root: string, round: number) =>
  Effect.scoped(Effect.gen(function*() {
    const patience = yield* Random.nextIntBetween(0, 250)
    const child = yield* Command.start(Command.make(process.execPath, program, root, `round${round}`))
    const lines = yield* Ref.make<ReadonlyArray<string>>([])
    const first = yield* Effect.makeLatch()
    const reading = yield* child.stdout.pipe(
      Stream.decodeText(),
      Stream.splitLines,
      Stream.runForEach((line) => Effect.zipRight(Ref.update(lines, (all) => [...all, line]), first.open)),
      Effect.fork
    )
    const ended = Effect.zipRight(
      Stream.runCollect(Stream.decodeText(child.stderr)),
      Effect.zipRight(child.exitCode, Effect.void)
    )
    yield* Effect.raceFirst(first.await, ended).pipe(
      Effect.timeoutFail({ duration: "60 seconds", onTimeout: () => failed("the process saved nothing") })
    )
    yield* Effect.sleep(Duration.millis(patience))
    yield* Effect.ignore(child.kill("SIGKILL"))
    yield* Effect.ignore(reading.await)
    // a line cut off by the kill was not said
    return (yield* Ref.get(lines)).flatMap((line): ReadonlyArray<Acknowledged> => {
      const match = /^(tinker:\/\/\S+) (\d+)$/.exec(line)
      return match === null ? [] : [{ path: match[1] ?? "", n: Number(match[2]) }]
    })
  }))

const request = (method: "GET" | "POST" | "DELETE", path: string, body?: unknown) =>
  Effect.gen(function*() {
    const client = yield* HttpClient.HttpClient
    const response = yield* client.execute(
      HttpClientRequest.make(method)(`${TinkerLocal.baseUrl}/api/v1${path}`).pipe(
        HttpClientRequest.setHeader("x-api-key", "tml-killed"),
        body === undefined ? (same) => same : HttpClientRequest.bodyUnsafeJson(body)
      )
    )
    return response.status === 204 ? {} : Object(yield* response.json)
  })

/** Loads each checkpoint into a model of its own, and makes room for the next round. */
const verify = (saves: ReadonlyArray<Acknowledged>) =>
  Effect.gen(function*() {
    const lost: Array<string> = []
    const { session_id: sessionId } = yield* request("POST", "/create_session", { tags: [], sdk_version: "0" })
    const last = new Map(saves.map(({ n, path }) => [path, n]))
    const run = saves[0]?.path.slice("tinker://".length).split("/")[0] ?? ""
    const { checkpoints } = yield* request("GET", `/training_runs/${run}/checkpoints`)
    let seq = 0
    for (const [path, n] of last) {
      const listed = checkpoints?.find((checkpoint: { readonly tinker_path: string }) =>
        checkpoint.tinker_path === path
      )
      // a later save may have replaced it before the kill, but never an earlier one
      if (!(Number(listed?.user_metadata?.n) >= n)) lost.push(`${path}: save ${n} is not listed`)
      const future = yield* request("POST", "/load_weights", {
        session_id: sessionId,
        model_seq_id: seq++,
        path,
        optimizer: true
      })
      const loaded = yield* request("POST", "/retrieve_future", { request_id: future.request_id ?? "none" })
      if (loaded.path !== path) lost.push(`${path}: does not load: ${JSON.stringify({ future, loaded })}`)
    }
    for (const checkpoint of checkpoints ?? []) {
      yield* request("DELETE", `/training_runs/${run}/checkpoints/${checkpoint.checkpoint_id}`)
    }
    yield* request("POST", `/sessions/${sessionId}/finish`, { reason: { type: "success" }, detail: null })
    return lost
  })

export const killRounds = (rounds: number): Effect.Effect<Report, KillFailed, NodeContext.NodeContext> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-killed-" })
    const program = yield* bundle(new URL("./child.ts", import.meta.url), yield* fs.makeTempDirectoryScoped())
    const lost: Array<string> = []
    let acknowledged = 0
    let unfinished = 0
    for (let round = 0; round < rounds; round++) {
      const saves = yield* killDuringSaves(program, root, round)
      if (saves.length === 0) return yield* failed(`round ${round} saved nothing`)
      acknowledged += saves.length
      const left = yield* fs.readDirectory(root, { recursive: true })
      if (left.some((name) => /^\.(new|old)-/.test(path.basename(name)))) unfinished++
      lost.push(...yield* verify(saves).pipe(Effect.provide(TinkerLocal.layerDirectory(root))))
    }
    return { rounds, acknowledged, unfinished, lost }
  }).pipe(Effect.scoped, Effect.mapError((error) => error instanceof KillFailed ? error : failed(error)))
