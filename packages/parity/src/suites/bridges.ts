/**
 * `--bridges`: OpenEnv servers as environments, beside its own client; and rLLM's gateway client, unmodified,
 * against the recording gateway.
 */
import { Gateway, OpenEnv, Recorder } from "@effect-tinker/agents"
import { Policy, Rollout } from "@effect-tinker/cookbook"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Message, Renderers, Tokenizers } from "@effect-tinker/tokenizer"
import { Command, FileSystem } from "@effect/platform"
import { NodeSocket } from "@effect/platform-node"
import { Array, Console, Effect, Either, Option, Redacted, Schema, Stream } from "effect"
import { isDeepStrictEqual } from "node:util"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"
import { localGateway } from "./agents.js"

const name = "bridges"

// =============================================================================
// OpenEnv
// =============================================================================

const game = {
  action: OpenEnv.Json,
  observation: Schema.Struct({ hint: Schema.String })
}

type Move = { readonly reset: OpenEnv.Json } | { readonly step: OpenEnv.Json }

const guess = (guess: unknown): Move => ({ step: { guess } })

const episodes: ReadonlyArray<ReadonlyArray<Move>> = [
  [{ reset: { seed: 5, episode_id: "one" } }, guess(3), guess(9), guess(5)],
  [{ reset: {} }, guess(0), { reset: { seed: 2 } }, guess(0)],
  // refused, and played on
  [{ reset: { seed: 7 } }, guess("many"), { step: {} }, { step: { guess: 1, more: 2 } }, guess(13), guess(7)]
]

const Seen = Schema.parseJson(
  Schema.Array(Schema.Struct({ steps: Schema.Array(Schema.Unknown), state: Schema.Unknown }))
)

/** An OpenEnv server, until the scope closes. */
const startServer = Effect.fnUntraced(function*(interpreter: string) {
  const child = yield* Command.start(
    Command.make(interpreter, "-m", "openenv_server", "serve").pipe(
      Command.workingDirectory(`${Python.root}/python`),
      Command.env({ PYTHONDONTWRITEBYTECODE: "1" }),
      Command.stderr("inherit")
    )
  )
  const port = yield* child.stdout.pipe(
    Stream.decodeText(),
    Stream.splitLines,
    Stream.runHead,
    Effect.timeoutOption("3 minutes"),
    Effect.map(Option.flatten)
  )
  return yield* Option.match(port, {
    onNone: () => new Differs({ suite: name, differences: ["the OpenEnv server did not start"] }),
    onSome: (port) => Effect.succeed(`http://127.0.0.1:${port}`)
  })
})

/** The port is bound before the server accepts connections. */
const connect = (url: string) =>
  // everything that is observed, what environments add to it too
  Effect.retry(OpenEnv.connect({ url, action: OpenEnv.Json, observation: OpenEnv.Json }), {
    times: 5,
    while: ({ reason }) => reason === "Unreachable"
  })

const playEpisode = (url: string, moves: ReadonlyArray<Move>) =>
  Effect.scoped(Effect.gen(function*() {
    const session = yield* connect(url)
    const steps = yield* Effect.forEach(moves, (move) =>
      Effect.either("reset" in move ? session.reset(move.reset) : session.step(move.step)).pipe(
        Effect.map(Either.match({
          onLeft: ({ code, reason }): unknown =>
            code ?? reason,
          onRight: ({ done, observation, reward }): unknown => [observation, reward, done]
        }))
      ))
    return { steps, state: yield* session.state }
  }))

const compareOpenEnv = Effect.fnUntraced(function*(
  python: Python.Python & { readonly interpreter: string },
  directory: string
) {
  const fs = yield* FileSystem.FileSystem
  const url = yield* startServer(python.interpreter)
  const job = `${directory}/episodes.json`
  yield* fs.writeFileString(job, JSON.stringify(episodes))
  const ours = yield* Effect.forEach(episodes, (moves) => playEpisode(url, moves))
  const theirs = yield* Schema.decode(Seen)(yield* python.run("openenv_server", "play", url, job))
  const differences = Array.zip(ours, theirs).flatMap(([own, other], i) =>
    isDeepStrictEqual(own, other)
      ? []
      : [`episode ${i}: ${JSON.stringify(own)}, their client saw ${JSON.stringify(other)}`]
  )

  // More episodes than the server has sessions: they wait for each other.
  const tokenizer = yield* (yield* Tokenizers.Tokenizers).forModel("local/chat")
  const renderer = yield* Renderers.forModel("local/chat", tokenizer)
  const say = (text: string) => tokenizer.encode(`${text}<|im_end|>`, { addSpecialTokens: false, parseSpecial: "all" })
  const problem = OpenEnv.group({
    url,
    ...game,
    reset: { seed: 4 },
    start: ({ hint }) => [Message.user(hint)],
    act: (message) => Option.some({ guess: Number(Message.text(message)) }),
    observe: ({ observation }) => observation.hint
  })
  const trajectories = yield* Effect.forEach(Array.range(1, 6), () =>
    Effect.scoped(Effect.flatMap(
      problem.make({ renderer }),
      (environment) => Rollout.run(Policy.fromScript([say("1"), say("9"), say("4")]), environment)
    )), { concurrency: "unbounded" })
  for (const { stop, turns } of trajectories) {
    const rewards = turns.map(({ reward }) => reward)
    if (stop !== "completed" || !isDeepStrictEqual(rewards, [-0.125, -0.125, 1])) {
      differences.push(`an episode ended with ${stop} and rewards ${rewards.join(", ")}`)
    }
  }
  return { differences, episodes: episodes.length, messages: episodes.flat().length, rollouts: trajectories.length }
})

// =============================================================================
// rLLM
// =============================================================================

const Read = Schema.parseJson(Schema.Struct({
  health: Schema.String,
  flushed: Schema.Boolean,
  sessions: Schema.Array(Schema.String),
  count: Schema.Number,
  texts: Schema.Array(Schema.String),
  traces: Schema.Array(OpenEnv.Json),
  last: OpenEnv.Json,
  limited: Schema.Number,
  deleted: Schema.Number
}))

const compareRllm = Effect.fnUntraced(function*(python: Python.Python) {
  const recorder = yield* Recorder.make()
  // what the client deletes at its end is looked at here
  const released: Array<Recorder.Call> = []
  const { gateway } = yield* localGateway({
    ...recorder,
    release: (rollout) =>
      Effect.tap(recorder.release(rollout), ({ calls }) => Effect.sync(() => released.push(...calls)))
  })
  const read = yield* Effect.flatMap(
    python.run("rllm_client", gateway.url, Redacted.value(gateway.apiKey)),
    Schema.decode(Read)
  )
  const traces = released.map((call) => JSON.parse(JSON.stringify(Gateway.toTrace(call, "local/chat"))))
  const differences: Array<string> = []
  const same = (what: string, seen: unknown, expected: unknown) => {
    if (!isDeepStrictEqual(seen, expected)) {
      differences.push(`rLLM, ${what}: ${JSON.stringify(seen)} instead of ${JSON.stringify(expected)}`)
    }
  }
  same("calls", released.length, 2)
  same("spliced", Recorder.summarize(released).spliced, 1)
  same("texts", read.texts, released.map(({ message }) => Message.text(message)))
  // fields of the client's record that a gateway may leave out
  const bare = ({ raw_request: _, raw_response: __, ...trace }: OpenEnv.Json) => trace
  same("traces", read.traces.map(bare), traces)
  same("one trace", bare(read.last), traces.at(-1))
  const { count, deleted, flushed, health, limited, sessions } = read
  same("the rest", { count, deleted, flushed, health, limited, sessions }, {
    count: 2,
    deleted: 2,
    flushed: true,
    health: "ok",
    limited: 1,
    sessions: ["rllm-1"]
  })
  return { differences, traces: traces.length }
})

export const bridges: Suite = {
  name,
  summary: "OpenEnv servers beside its own client; rLLM's gateway client against the gateway",
  run: () =>
    Effect.scoped(Effect.gen(function*() {
      const python = yield* Python.makeAgents
      const fs = yield* FileSystem.FileSystem
      const directory = yield* Effect.orDie(fs.makeTempDirectoryScoped())
      const broken = (error: { readonly _tag: string; readonly message: string }) =>
        new Differs({ suite: name, differences: [`${error._tag}: ${error.message}`] })
      const { openEnv, rllm } = yield* Effect.all({
        openEnv: compareOpenEnv(python, directory),
        rllm: compareRllm(python)
      }).pipe(
        Effect.provide([NodeTinkerLocal.layerInProcess(), NodeSocket.layerWebSocketConstructor]),
        Effect.mapError((error) => error._tag === "PythonFailed" || error._tag === "Differs" ? error : broken(error))
      )
      const differences = [...openEnv.differences, ...rllm.differences]
      if (differences.length > 0) return yield* new Differs({ suite: name, differences })
      yield* Console.log(`OpenEnv: ${openEnv.episodes} episodes, ${openEnv.messages} messages, the same`)
      yield* Console.log(`OpenEnv: ${openEnv.rollouts} rollouts over 2 sessions, all played to their end`)
      yield* Console.log(`rLLM's client: ${rllm.traces} traces, as they were recorded`)
      yield* Console.log(
        JSON.stringify({
          suite: name,
          sdk: python.sdk,
          episodes: openEnv.episodes,
          rollouts: openEnv.rollouts,
          traces: rllm.traces,
          different: 0
        })
      )
    }))
}
