import { OpenEnv } from "@effect-tinker/agents"
import { Environment, Policy, Rollout } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse, Socket } from "@effect/platform"
import { NodeHttpServer, NodeSocket } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Fiber, Layer, Option, Scheduler, Schema } from "effect"
import { createServer } from "node:net"
import { chatRenderer } from "./support/chat.js"

interface Served {
  readonly url: string
  /** Sessions that are open now. */
  readonly open: () => number
}

/**
 * A server that speaks OpenEnv's protocol over real sockets. Its environment is a number to be guessed: the seed it is reset
 * with. Guesses of 13 break it, a guess of 14 is never answered, 15 ends the connection and 16 is answered with nonsense.
 */
const serve = Effect.fnUntraced(function*(options?: { readonly sessions?: number }) {
  let open = 0
  const session = Effect.gen(function*() {
    const socket = yield* HttpServerRequest.upgrade
    const write = yield* socket.writer
    const send = (message: unknown) => write(JSON.stringify(message))
    const error = (code: string, message: string) => send({ type: "error", data: { code, message } })
    const observed = (hint: string, reward: number | boolean | null, done: boolean) =>
      send({ type: "observation", data: { observation: { hint }, reward, done } })
    if (open >= (options?.sessions ?? 8)) {
      yield* socket.runRaw(() => undefined, {
        onOpen: Effect.ignore(
          Effect.zipRight(error("CAPACITY_REACHED", "no free session"), write(new Socket.CloseEvent(1000)))
        )
      }).pipe(Effect.ignore)
      return HttpServerResponse.empty()
    }
    open++
    let target = 0
    let steps = 0
    yield* socket.runRaw((raw) => {
      const { data, type } = JSON.parse(String(raw))
      if (type === "close") return write(new Socket.CloseEvent(1000))
      if (type === "state") return send({ type: "state", data: { episode_id: null, step_count: steps } })
      if (type === "reset") {
        target = data.seed ?? 0
        steps = 0
        return observed(target < 0 ? "nothing to guess" : "guess", null, target < 0)
      }
      const { guess } = data
      steps++
      if (typeof guess !== "number" || guess < 0) return error("VALIDATION_ERROR", "Invalid message")
      if (guess === 13) return error("EXECUTION_ERROR", "unlucky")
      if (guess === 14) return Effect.void
      if (guess === 15) return write(new Socket.CloseEvent(1000))
      if (guess === 16) return write("{}")
      return guess === target
        ? observed("right", true, true)
        : observed(guess < target ? "higher" : "lower", -0.125, false)
    }).pipe(Effect.ignore, Effect.ensuring(Effect.sync(() => open--)))
    return HttpServerResponse.empty()
  }).pipe(Effect.scoped)
  yield* HttpServer.serveEffect(HttpRouter.get(HttpRouter.empty, "/ws", session))
  const url = yield* HttpServer.addressWith((address) =>
    Effect.succeed(address._tag === "TcpAddress" ? `http://127.0.0.1:${address.port}` : "")
  )
  const served: Served = { url, open: () => open }
  return served
})

const game = {
  action: Schema.Struct({ guess: Schema.Number }),
  observation: Schema.Struct({ hint: Schema.String })
}

/** Episodes of the game, played by a policy that writes these texts. */
const play = Effect.fnUntraced(function*(
  { url }: Served,
  seed: number,
  texts: readonly [string, ...ReadonlyArray<string>],
  options?: Pick<OpenEnv.GroupOptions<unknown, unknown, unknown, unknown>, "onRefused">
) {
  const renderer = yield* chatRenderer
  const tokensOf = (text: string) =>
    renderer.tokenizer.encode(`${text}<|im_end|>`, { addSpecialTokens: false, parseSpecial: "all" })
  const [first, ...rest] = texts
  const problem = OpenEnv.group({
    url,
    ...game,
    reset: { seed },
    start: ({ hint }) => [Message.user(hint)],
    act: (message) =>
      Option.map(Option.fromNullable(/-?[0-9]+/.exec(Message.text(message))), ([guess]) => ({ guess: Number(guess) })),
    observe: ({ observation }) => observation.hint,
    ...options
  })
  return yield* Effect.scoped(Effect.flatMap(
    problem.make({ renderer }),
    (environment) => Rollout.run(Policy.fromScript([tokensOf(first), ...rest.map(tokensOf)]), environment)
  ))
})

/** The server notices the end of a connection a little later. */
const untilFree = (open: () => number) => Effect.repeat(Effect.sleep("5 millis"), { until: () => open() === 0 })

const rewardsOf = ({ reward, turns }: Effect.Effect.Success<ReturnType<typeof play>>) => [
  ...turns.map((turn) => turn.reward),
  reward
]

const reasonOf = <A>(result: Either.Either<A, OpenEnv.OpenEnvError>) =>
  Either.isLeft(result) ? [result.left.method, result.left.reason, result.left.code] : []

describe("OpenEnv", () => {
  it.live("a session is reset, stepped through and asked for its state", () =>
    Effect.gen(function*() {
      const { open, url } = yield* serve()
      yield* Effect.scoped(Effect.gen(function*() {
        const session = yield* OpenEnv.connect({ url, ...game })
        assert.deepStrictEqual(yield* session.reset({ seed: 5 }), {
          observation: { hint: "guess" },
          reward: 0,
          done: false
        })
        const low = yield* session.step({ guess: 3 })
        assert.deepStrictEqual(low, { observation: { hint: "higher" }, reward: -0.125, done: false })
        const right = yield* session.step({ guess: 5 })
        assert.deepStrictEqual(right, { observation: { hint: "right" }, reward: 1, done: true })
        assert.deepStrictEqual(yield* session.state, { episode_id: null, step_count: 2 })
        assert.strictEqual(open(), 1)
      }))
      // the scope is closed, and so is the session on the server
      yield* untilFree(open)
    }).pipe(Effect.scoped, Effect.provide(Services)))

  it.live("what goes wrong has a reason", () =>
    Effect.gen(function*() {
      const { url } = yield* serve()
      const session = yield* OpenEnv.connect({ url, ...game })
      const step = (guess: number) => Effect.either(session.step({ guess }))
      assert.deepStrictEqual(reasonOf(yield* step(-1)), ["step", "Refused", "VALIDATION_ERROR"])
      assert.deepStrictEqual(reasonOf(yield* step(13)), ["step", "Refused", "EXECUTION_ERROR"])
      assert.deepStrictEqual(reasonOf(yield* step(16)), ["step", "Malformed", undefined])
      // the session survived all that
      assert.strictEqual((yield* session.reset({ seed: 1 })).observation.hint, "guess")
      assert.deepStrictEqual(reasonOf(yield* step(15)), ["step", "Closed", undefined])
      assert.deepStrictEqual(reasonOf(yield* step(1)), ["step", "Closed", undefined])
      const short = yield* OpenEnv.connect({ url, ...game, maxMessageLength: 10 })
      assert.deepStrictEqual(reasonOf(yield* Effect.either(short.reset())), ["reset", "Malformed", undefined])
      const nobody = OpenEnv.connect({ url: "http://127.0.0.1:1", ...game })
      assert.deepStrictEqual(reasonOf(yield* Effect.either(nobody)), ["connect", "Unreachable", undefined])
    }).pipe(Effect.scoped, Effect.provide(Services)))

  it.live("a late answer is never taken for that of the next message", () =>
    Effect.gen(function*() {
      const { url } = yield* serve()
      const slow = yield* OpenEnv.connect({ url, ...game, timeout: "20 millis" })
      assert.deepStrictEqual(reasonOf(yield* Effect.either(slow.step({ guess: 14 }))), ["step", "TimedOut", undefined])
      assert.deepStrictEqual(reasonOf(yield* Effect.either(slow.reset())), ["reset", "Closed", undefined])
      const left = yield* OpenEnv.connect({ url, ...game })
      const fiber = yield* Effect.fork(left.step({ guess: 14 }))
      yield* Effect.sleep("20 millis")
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(reasonOf(yield* Effect.either(left.reset())), ["reset", "Closed", undefined])
    }).pipe(Effect.scoped, Effect.provide(Services)))

  it.live("an episode is a conversation with the rewards of its steps", () =>
    Effect.gen(function*() {
      const served = yield* serve()
      const won = yield* play(served, 7, ["Is it 3?", "9", "It is 7."])
      assert.deepStrictEqual(rewardsOf(won), [-0.125, -0.125, 1, 0])
      assert.strictEqual(won.stop, "completed")
      // every follow-up begins with the exact ids that were sampled
      assert.isTrue(won.turns.every(({ fork }) => fork === undefined))
      const mute = yield* play(served, 7, ["3", "I do not know."])
      assert.deepStrictEqual([mute.stop, ...rewardsOf(mute)], ["parse_error", -0.125, 0, 0])
      const unlucky = yield* play(served, 7, ["13"], {
        onRefused: (reason) => Environment.done(reason === "unlucky" ? -1 : 0)
      })
      assert.deepStrictEqual(rewardsOf(unlucky), [-1, 0])
      const nothing = yield* play(served, -1, ["1"])
      assert.deepStrictEqual([nothing.stop, nothing.turns.length], ["completed", 0])
      // a server that is gone is not the policy's fault
      assert.deepStrictEqual(
        reasonOf(
          yield* Effect.either(
            play(served, 7, ["15"]).pipe(Effect.catchTags({
              ActionTimedOut: Effect.die,
              ChatTemplateFailed: Effect.die,
              RenderFailed: Effect.die,
              TokenizerMalformed: Effect.die
            }))
          )
        ),
        ["step", "Closed", undefined]
      )
    }).pipe(Effect.scoped, Effect.provide(Services)))

  it.live("episodes wait for a free session of the server", () =>
    Effect.gen(function*() {
      const served = yield* serve({ sessions: 1 })
      const runs = yield* Effect.forEach([3, 4, 5], (seed) => play(served, seed, ["1", String(seed)]), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(runs.map(rewardsOf), runs.map(() => [-0.125, 1, 0]))
      yield* untilFree(served.open)
      yield* Effect.scoped(Effect.gen(function*() {
        const session = yield* OpenEnv.connect({ url: served.url, ...game })
        yield* session.reset()
        const refused = yield* Effect.either(Effect.flatMap(
          OpenEnv.connect({ url: served.url, ...game }),
          (second) => second.reset()
        ))
        assert.deepStrictEqual(reasonOf(refused), ["reset", "Refused", "CAPACITY_REACHED"])
      }))
    }).pipe(Effect.scoped, Effect.provide(Services)))
})

/** Lets the event loop turn for a while before one of a fiber's operations, as a busy machine does. */
class PausesAt extends Scheduler.MixedScheduler {
  private operations = 0
  private pauses = false
  constructor(private readonly at: number) {
    super(2048)
  }
  override shouldYield(fiber: Fiber.RuntimeFiber<unknown, unknown>): number | false {
    if (++this.operations !== this.at) return super.shouldYield(fiber)
    this.pauses = true
    return 0
  }
  override scheduleTask(task: () => void, priority: number): void {
    if (!this.pauses) return super.scheduleTask(task, priority)
    this.pauses = false
    setTimeout(task, 5)
  }
}

/** A port that was free a moment ago. */
const closedPort = Effect.async<number>((resume) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const address = server.address()
    server.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
  })
})

describe("a server that is not there", () => {
  it.live("is an error, wherever the fiber was when its connection was refused", () =>
    Effect.gen(function*() {
      const url = `http://127.0.0.1:${yield* closedPort}`
      const connecting = Effect.flip(Effect.scoped(OpenEnv.connect({ url, ...game, openTimeout: "100 millis" })))
      const schedulers = Array.from({ length: 300 }, (_, at) => new PausesAt(at + 1))
      yield* Effect.forEach(schedulers, (scheduler) =>
        Effect.map(Effect.withScheduler(connecting, scheduler), ({ method, reason }) => {
          assert.deepStrictEqual([method, reason], ["connect", "Unreachable"])
        }), { concurrency: 20 })
    }).pipe(Effect.provide(Services)))
})

/** Sessions are closed before the server is: it waits for open connections. */
const Services = Layer.merge(NodeHttpServer.layerTest, NodeSocket.layerWebSocketConstructor)
