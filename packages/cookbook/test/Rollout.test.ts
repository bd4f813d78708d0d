import { Environment, Policy, Rollout, RolloutRecord, Tool, Trajectory } from "@effect-tinker/cookbook"
import type { Renderer } from "@effect-tinker/tokenizer"
import { Message, Renderers } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Chunk, Clock, Effect, Exit, Fiber, Option, Schedule, Schema, TestClock } from "effect"
import { SamplingClient } from "effect-tinker"
import { chatRenderer, chatTokenizer, Local, renderer } from "./utils/local.js"

/** An environment of tokens that goes on for so many turns, each of them a reward of 1. */
const counting = (turns: number): Environment.Environment => {
  let done = 0
  const observation = () => ({ prompt: Int32Array.from({ length: 4 + done }, (_, i) => i), stop: [] })
  return {
    initial: Effect.sync(() => ({ _tag: "Continue", observation: observation() })),
    step: () =>
      Effect.sync(() =>
        ++done >= turns
          ? { _tag: "Done", reward: 1, reason: "completed" }
          : { _tag: "Continue", reward: 1, observation: observation() }
      )
  }
}

const policy = Policy.fromScript([[7, 8, 9]])

const slow = (millis: number) => Policy.make((request) => Effect.delay(policy.act(request), millis))

const outcome = ({ stop, turns }: Trajectory.Trajectory) => [stop, turns.length] as const

describe("Rollout.run", () => {
  it.effect("ends by each limit with its own reason, and keeps the turns before it", () =>
    Effect.gen(function*() {
      const limited = (limits: Rollout.Limits) => Effect.map(Rollout.run(policy, counting(5), { limits }), outcome)
      assert.deepStrictEqual(yield* limited({}), ["completed", 5])
      assert.deepStrictEqual(yield* limited({ maxTurns: 2 }), ["max_turns", 2])
      assert.deepStrictEqual(yield* limited({ maxTurns: 5 }), ["completed", 5])
      assert.deepStrictEqual(yield* limited({ maxTokens: 7 }), ["max_tokens", 2])
      assert.deepStrictEqual(yield* limited({ maxSampledTokens: 7 }), ["max_sampled_tokens", 2])
      // both are spent: the room for tokens is named
      assert.deepStrictEqual(yield* limited({ maxTokens: 6, maxSampledTokens: 7 }), ["max_tokens", 1])
      // a limit of one turn cuts the turn, not the rollout
      const cut = yield* Rollout.run(policy, counting(5), { limits: { maxTurnTokens: 1 } })
      assert.deepStrictEqual(outcome(cut), ["completed", 5])
      assert.deepStrictEqual(cut.turns.map(({ action }) => action.tokens.length), [1, 1, 1, 1, 1])
      // and so does an environment that asks for fewer tokens
      const { initial, step } = counting(1)
      const shortened = yield* Rollout.run(policy, {
        initial: Effect.map(
          initial,
          (start) => start._tag === "Done" ? start : { ...start, observation: { ...start.observation, maxTokens: 2 } }
        ),
        step
      })
      assert.deepStrictEqual(shortened.turns.map(({ action }) => action.tokens.length), [2])
    }))

  it.effect("a rollout out of time keeps its turns; an action out of time is a failure", () =>
    Effect.gen(function*() {
      const whole = yield* Effect.fork(Rollout.run(slow(1000), counting(5), { limits: { timeout: "2500 millis" } }))
      yield* TestClock.adjust("3 seconds")
      assert.deepStrictEqual(outcome(yield* Fiber.join(whole)), ["rollout_timeout", 2])
      const action = yield* Effect.fork(Rollout.run(slow(1000), counting(5), { limits: { actionTimeout: 500 } }))
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual((yield* Effect.flip(Fiber.join(action)))._tag, "ActionTimedOut")
    }))

  it.effect("a rollout that keeps the timers from firing still ends in time", () =>
    Effect.gen(function*() {
      let now = 0
      const busy: Clock.Clock = {
        ...Clock.make(),
        unsafeCurrentTimeMillis: () => now,
        currentTimeMillis: Effect.sync(() => now),
        sleep: () => Effect.never
      }
      const heavy = Policy.make((request) => Effect.tap(policy.act(request), () => Effect.sync(() => now += 1000)))
      const whole = Rollout.run(heavy, counting(5), { limits: { timeout: "2500 millis" } })
      assert.deepStrictEqual(outcome(yield* Effect.withClock(whole, busy)), ["rollout_timeout", 3])
    }))

  it.effect("every turn draws by a seed of its own, the same in every run", () =>
    Effect.gen(function*() {
      const seedsOf = Effect.fnUntraced(function*(seed: number | undefined) {
        const seeds: Array<number | undefined> = []
        const watched = Policy.make((request) => {
          seeds.push(request.seed)
          return policy.act(request)
        })
        yield* Rollout.run(watched, counting(3), { seed })
        return seeds
      })
      const first = yield* seedsOf(5)
      assert.strictEqual(new Set(first).size, 3)
      assert.deepStrictEqual(yield* seedsOf(5), first)
      assert.strictEqual(new Set([...first, ...yield* seedsOf(6)]).size, 6)
      assert.deepStrictEqual(yield* seedsOf(undefined), [undefined, undefined, undefined])
    }))
})

const calculator = Tool.make("add", {
  description: "Adds",
  input: Schema.Struct({ a: Schema.Number, b: Schema.Number }),
  run: ({ a, b }) => a < 0 ? Effect.fail(new Error("no negative numbers")) : Effect.succeed(String(a + b))
})

const exit = Tool.make("exit", {
  description: "Ends",
  input: Schema.Struct({}),
  run: () => Effect.succeed({ text: "bye", stop: true })
})

const call = (name: string, args: unknown) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`

/** What a conversation comes to when the policy says these things. */
const converse = (says: readonly [string, ...Array<string>], settings?: Partial<Environment.Settings>) =>
  Effect.gen(function*() {
    const write = yield* renderer
    const heard: Array<Message.Message> = []
    const environment = Environment.messages({
      start: [Message.user("2+3?")],
      tools: [calculator, exit],
      onMessage: (message, history) => {
        heard.push(...history)
        return Effect.succeed(
          Message.text(message) === "5" ? Environment.done(1) : Environment.reply("No. Again.", { reward: -0.25 })
        )
      },
      reward: () => Effect.succeed(0.5)
    }, { renderer: write, ...settings })
    const [first, ...rest] = says.map((text) => write.tokenizer.encode(`${text}<|im_end|>`))
    const script = Policy.fromScript([first ?? [], ...rest])
    const trajectory = yield* Rollout.run(script, environment, { limits: { maxTurns: 8 } })
    return { trajectory, heard, outcome: outcome(trajectory), rewards: trajectory.turns.map(({ reward }) => reward) }
  })

describe("Environment.messages", () => {
  it.effect("goes on until the environment ends it", () =>
    Effect.gen(function*() {
      const { outcome, rewards } = yield* converse(["4", "6", "5"])
      assert.deepStrictEqual(outcome, ["completed", 3])
      assert.deepStrictEqual(rewards, [-0.25, -0.25, 1])
    }))

  it.effect("a person can play: reads the prompt, and what is written is an answer", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const read: Array<string> = []
      const person = Policy.fromPerson(write, (prompt) => Effect.sync(() => read.push(prompt) === 1 ? "4" : "5"))
      const environment = Environment.messages({
        start: [Message.user("2+3?")],
        onMessage: (message) =>
          Effect.succeed(Message.text(message) === "5" ? Environment.done(1) : Environment.reply("No. Again."))
      }, { renderer: write })
      const trajectory = yield* Rollout.run(person, environment)
      assert.deepStrictEqual(outcome(trajectory), ["completed", 2])
      assert.include(read[0], "2+3?")
      assert.include(read[1], "No. Again.")
    }))

  it.effect("tools answer: results, arguments that do not fit, failures, unknown names", () =>
    Effect.gen(function*() {
      const { heard, outcome, trajectory } = yield* converse([
        call("add", { a: 2, b: 3 }),
        call("add", { a: "two" }),
        call("add", { a: -1, b: 1 }),
        call("subtract", {}),
        "5"
      ])
      assert.deepStrictEqual(outcome, ["completed", 5])
      const answers = heard.filter(({ role }) => role === "tool").map(Message.text)
      assert.strictEqual(answers[0], "5")
      assert.include(answers[1] ?? "", "Expected number")
      assert.strictEqual(answers[2], "Error: no negative numbers")
      assert.include(answers[3] ?? "", "Tools: add, exit")
      assert.deepStrictEqual(trajectory.turns.map(({ metrics }) => metrics["tool_errors"]), [0, 1, 1, 1, undefined])
    }))

  it.effect("the other stop reasons", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual((yield* converse([call("exit", {})])).outcome, ["tool_stopped", 1])
      const add = call("add", { a: 1, b: 1 })
      const limited = yield* converse([add, add, add], { maxToolCalls: 2 })
      assert.deepStrictEqual(limited.outcome, ["max_tool_calls", 3])
      assert.deepStrictEqual(limited.rewards, [0, 0, 0.5])
      const long = yield* converse(["4", "x".repeat(3000)], { contextWindow: 2500 })
      assert.deepStrictEqual(long.outcome[0], "context_overflow")
      const first = yield* converse(["4"], { contextWindow: 10 })
      assert.deepStrictEqual(first.outcome, ["max_tokens", 0])
      assert.strictEqual(first.trajectory.reward, -0.1)
      assert.deepStrictEqual((yield* converse(["4", "4", "4", "4", "4", "4", "4", "4", "4"])).outcome, ["max_turns", 8])
    }))

  it.effect("a tool call that cannot be read is corrected so often, then ends the episode", () =>
    Effect.gen(function*() {
      const broken = "<tool_call>\n{\"name\": \n</tool_call>"
      const settings = { parseErrors: { maxConsecutive: 2, penalty: -0.1, reward: -2, mask: true } }
      const saved = yield* converse([broken, "5"], settings)
      assert.deepStrictEqual(saved.outcome, ["completed", 2])
      assert.deepStrictEqual(saved.rewards, [-0.1, 1])
      assert.deepStrictEqual(saved.trajectory.turns.map(({ masked }) => masked), [true, false])
      const lost = yield* converse([broken, broken, broken], settings)
      assert.deepStrictEqual(lost.outcome, ["parse_error", 3])
      assert.deepStrictEqual(lost.rewards, [-0.1, -0.1, -2])
    }))

  it.scoped("an answer that does not end properly ends the episode", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const { make } = Environment.problem({ question: "?", check: () => 1 })
      const environment = yield* make({ renderer: write, parseErrors: { reward: -3 } })
      const torn = yield* Rollout.run(Policy.fromScript([write.tokenizer.encode("no end")]), environment)
      assert.deepStrictEqual([torn.stop, torn.turns[0]?.reward], ["parse_error", -3])
    }))

  it.effect("a problem is one turn; its form counts", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const problem = Environment.problem({
        question: "2+3?",
        check: (answer) => answer.includes("5"),
        format: (answer) => /^\d+$/.test(answer)
      })
      const rewards = yield* Effect.forEach(["5", "it is 5", "six"], (text) =>
        Effect.gen(function*() {
          const environment = yield* problem.make({ renderer: write })
          const script = Policy.fromScript([write.tokenizer.encode(`${text}<|im_end|>`)])
          return (yield* Rollout.run(script, environment)).turns[0]?.reward
        }))
      assert.deepStrictEqual(rewards, [1, 0.9, -0.1])
    }).pipe(Effect.scoped))
})

describe("turns in tokens", () => {
  /** Two wrong answers in tokens that nobody would encode their text to, then the right one. */
  const episode = (write: Renderer.Renderer) =>
    Effect.gen(function*() {
      const environment = Environment.messages({
        start: [Message.user("2+3?")],
        onMessage: (message) =>
          Effect.succeed(Message.text(message) === "5" ? Environment.done(1) : Environment.reply("No. Again."))
      }, { renderer: write })
      const letters = (text: string) => Array.from(text).flatMap((letter) => [...write.tokenizer.encode(letter)])
      const script = Policy.fromScript([
        [...letters("forty two"), ...write.tokenizer.encode("<|im_end|>")],
        [...letters("<think>\n"), ...letters("again"), ...write.tokenizer.encode("</think>\n\n6<|im_end|>")],
        write.tokenizer.encode("5<|im_end|>")
      ])
      return yield* Rollout.run(script, environment)
    })

  it.effect("continue what was sampled, and make one row, where the format only appends", () =>
    Effect.gen(function*() {
      const write = yield* chatRenderer
      assert.isTrue(write.extends)
      const trajectory = yield* episode(write)
      assert.deepStrictEqual(trajectory.turns.map(({ fork }) => fork), [undefined, undefined, undefined])
      const rows = Trajectory.toRows(trajectory, 1)
      assert.strictEqual(rows.length, 1)
      const sampled = trajectory.turns.flatMap(({ action }) => [...action.tokens])
      const [row] = rows
      assert.deepStrictEqual([...row?.targets ?? []].filter((_, i) => row?.mask[i] === 1), sampled)
      // the text of the sampled tokens encodes differently: rendering it again would not have continued them
      const again = yield* write.generationPrompt([
        Message.user("2+3?"),
        Message.assistant("forty two"),
        Message.user("No. Again.")
      ])
      assert.notDeepEqual([...again], [...trajectory.turns[1]?.prompt ?? []])
    }))

  it.effect("fork with the renderer's reason where the format rewrites history", () =>
    Effect.gen(function*() {
      const write = yield* Effect.flatMap(chatTokenizer, Renderers.qwen3)
      const trajectory = yield* episode(write)
      assert.deepStrictEqual(trajectory.turns.map(({ fork }) => fork?.reason), [
        undefined,
        undefined,
        "HistoryRewritten"
      ])
      assert.deepStrictEqual(trajectory.turns.map(({ metrics }) => metrics["forked"]), [0, 1, undefined])
      const rows = Trajectory.toRows(trajectory, 1)
      assert.strictEqual(rows.length, 2)
      const trained = rows.map(({ mask }) => mask.reduce((sum, one) => sum + one, 0))
      const lengths = trajectory.turns.map(({ action }) => action.tokens.length)
      assert.deepStrictEqual(trained, [(lengths[0] ?? 0) + (lengths[1] ?? 0), lengths[2]])
    }))
})

describe("RolloutRecord", () => {
  it.effect("has messages with tool calls, every token with its logprob, and why a row was forked", () =>
    Effect.gen(function*() {
      const { trajectory } = yield* converse([call("add", { a: 2, b: 3 }), "4", "5"])
      const forked: Trajectory.Trajectory = {
        ...trajectory,
        turns: trajectory.turns.map((turn, i) =>
          i === 2
            ? { ...turn, prompt: turn.prompt.slice(1), fork: { reason: "HistoryRewritten", description: "cut" } }
            : turn
        )
      }
      const group: Trajectory.Group = {
        trajectories: [forked, { ...forked, reward: NaN }],
        groupRewards: [0.5, 0],
        tags: ["sums"],
        errors: []
      }
      const written = RolloutRecord.fromGroup(group, {
        index: 3,
        advantage: (rewards) => rewards.map((_, i) => i + 0.25),
        trained: true
      })
      const [record, other] = yield* Effect.forEach(
        written,
        (one) => RolloutRecord.decode(JSON.parse(JSON.stringify(one)))
      )
      assert.isDefined(record)
      if (record === undefined) return
      assert.deepStrictEqual(
        [record.group, record.member, record.tags, record.reward, record.advantage, record.trained, record.stop],
        [3, 0, ["sums"], 1.25, 0.25, true, "completed"]
      )
      assert.isNaN(other?.reward)
      const [first, second, third] = record.turns
      assert.deepStrictEqual(first?.given.map(({ role }) => role), ["system", "user"])
      assert.deepStrictEqual(first?.message?.toolCalls?.map(({ name }) => name), ["add"])
      assert.deepStrictEqual(second?.given.map((message) => [message.role, Message.text(message)]), [["tool", "5"]])
      assert.deepStrictEqual([third?.fork?.reason, third?.offset], ["HistoryRewritten", 0])
      assert.isAbove(second?.offset ?? 0, 0)
      forked.turns.forEach(({ action, prompt }, i) => {
        assert.deepStrictEqual(RolloutRecord.tokensOf(record, i), [...prompt, ...action.tokens])
        assert.strictEqual(record.turns[i]?.logprobs.length, action.tokens.length)
      })
    }))

  it.effect("is bounded: texts are cut, and turns that do not fit are counted", () =>
    Effect.gen(function*() {
      const { trajectory } = yield* converse(["4".repeat(1000), "4".repeat(2000), "5"])
      const group: Trajectory.Group = { trajectories: [trajectory], groupRewards: [0], tags: [], errors: [] }
      const [first] = trajectory.turns
      const fits = (first?.prompt.length ?? 0) + (first?.action.tokens.length ?? 0)
      const [record] = RolloutRecord.fromGroup(group, {
        index: 0,
        advantage: Trajectory.center,
        trained: true,
        limits: { maxTokens: fits, maxText: 50 }
      })
      assert.deepStrictEqual(record?.turns.map(({ omitted }) => omitted > 0), [false, true, true])
      assert.deepStrictEqual(record?.turns.map(({ tokens }) => tokens.length > 0), [true, false, false])
      const said = record?.turns.map(({ message }) => message === undefined ? "" : Message.text(message))
      assert.strictEqual(said?.[1], `${"4".repeat(50)}… (2000 characters)`)
    }))
})

describe("Rollout.group", () => {
  const flaky = (failures: number) => {
    let left = failures
    return Policy.make((request) => left-- > 0 ? Effect.fail(new Error("lost")) : policy.act(request))
  }
  const problem = Environment.group(() => Effect.succeed(counting(2)), {
    compare: (trajectories) => Effect.succeed(trajectories.map((_, i) => i))
  })
  const group = <E>(acting: Policy.Policy<E>, strategy?: Rollout.Strategy) =>
    Effect.flatMap(
      renderer,
      (write) => Rollout.group(acting, problem, { size: 4, settings: { renderer: write }, strategy, concurrency: 1 })
    )

  it.effect("fail fast, retry, and minimum viable group", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* group(policy)).trajectories.length, 4)
      assert.include((yield* Effect.flip(group(flaky(1)))).message, "lost")
      const retried = yield* group(flaky(2), Rollout.retry(Schedule.recurs(2)))
      assert.deepStrictEqual([retried.trajectories.length, retried.errors.length], [4, 2])
      assert.include((yield* Effect.flip(group(flaky(3), Rollout.retry(Schedule.recurs(2))))).message, "lost")
      const partial = yield* group(flaky(1), Rollout.minimumViable())
      assert.deepStrictEqual([partial.trajectories.length, partial.errors.length], [3, 1])
      assert.deepStrictEqual(partial.groupRewards, [0, 1, 2])
      const failed = yield* Effect.flip(group(flaky(2), Rollout.minimumViable()))
      assert.isTrue(failed instanceof Rollout.GroupFailed && failed.succeeded === 2 && failed.needed === 3)
    }))

  it.effect("a rollout that fails ends the others of its group, which wait for an answer", () =>
    Effect.gen(function*() {
      let [asked, left, released] = [0, 0, 0]
      const waiting = Policy.make(() =>
        ++asked === 3
          ? Effect.fail(new Error("lost"))
          : Effect.onInterrupt(Effect.never, () => Effect.sync(() => left++))
      )
      const held = Environment.group(() =>
        Effect.as(Effect.acquireRelease(Effect.void, () => Effect.sync(() => released++)), counting(2))
      )
      const error = yield* Effect.flip(
        Rollout.group(waiting, held, { size: 3, settings: { renderer: yield* renderer } })
      )
      assert.include(error.message, "lost")
      assert.deepStrictEqual({ asked, left, released }, { asked: 3, left: 2, released: 3 })
    }))

  it.effect("every environment knows which rollout of the group it is for, also one that is tried again", () =>
    Effect.gen(function*() {
      const made: Array<number | undefined> = []
      const counted = Environment.group(({ member }) => Effect.sync(() => (made.push(member), counting(2))))
      yield* Rollout.group(flaky(2), counted, {
        size: 3,
        settings: { renderer: yield* renderer },
        strategy: Rollout.retry(Schedule.recurs(2)),
        concurrency: 1
      })
      assert.deepStrictEqual(made, [0, 0, 0, 1, 2])
    }))

  describe("whose rollouts start with the same prompt", () => {
    const same = Environment.group(() => Effect.succeed(counting(2)), { samePrompt: true })
    /** Draws a token that tells which request and which sequence it is. */
    const counted = (failures = 0) => {
      const requests: Array<readonly [count: number, seed: number | undefined]> = []
      const actMany = ({ seed }: Policy.Request, count: number) =>
        Effect.suspend(() => {
          requests.push([count, seed])
          const request = requests.length
          return request <= failures ? Effect.fail(new Error("lost")) : Effect.forEach(
            Array.from({ length: count }, (_, n) => n),
            (n) => Policy.fromScript([[100 * request + n]]).act({ prompt: new Int32Array(0), stop: [] })
          )
        })
      const counting: Policy.Policy<Error> = {
        actMany,
        act: (request) => Effect.map(actMany(request, 1), ([action]) => action ?? assert.fail("nothing was drawn"))
      }
      return { counting, requests }
    }
    const run = <E>(acting: Policy.Policy<E>, options?: Partial<Rollout.GroupOptions>) =>
      Effect.flatMap(
        renderer,
        (write) => Rollout.group(acting, same, { size: 3, settings: { renderer: write }, seed: 7, ...options })
      )
    const drawn = ({ trajectories }: Trajectory.Group) =>
      trajectories.map(({ turns }) => turns.map(({ action }) => action.tokens[0]))

    it.effect("one request draws their first turn, later turns are drawn one by one", () =>
      Effect.gen(function*() {
        const { counting, requests } = counted()
        const group = yield* run(counting, { concurrency: 1 })
        assert.deepStrictEqual(requests.map(([count]) => count), [3, 1, 1, 1])
        assert.strictEqual(new Set(requests.map(([, seed]) => seed)).size, 4)
        assert.deepStrictEqual(drawn(group), [[100, 200], [101, 300], [102, 400]])
      }))

    it.effect("a request that fails fails the group, unless its members may ask for themselves", () =>
      Effect.gen(function*() {
        assert.include((yield* Effect.flip(run(counted(1).counting))).message, "lost")
        const { counting, requests } = counted(1)
        const group = yield* run(counting, { strategy: Rollout.minimumViable({ share: 1 }), concurrency: 1 })
        assert.deepStrictEqual(requests.map(([count]) => count), [3, 1, 1, 1, 1, 1, 1])
        assert.deepStrictEqual(drawn(group), [[200, 300], [400, 500], [600, 700]])
      }))

    it.effect("a member with another prompt asks for itself", () =>
      Effect.gen(function*() {
        const { counting: acting, requests } = counted()
        let made = 0
        const other = Environment.group(() => Effect.sync(() => counting(++made === 2 ? 3 : 2)), { samePrompt: true })
        const longer: Environment.Group = {
          ...other,
          make: (settings) =>
            Effect.map(other.make(settings), (environment) => {
              const extra = made
              return {
                ...environment,
                initial: Effect.succeed({
                  _tag: "Continue",
                  observation: { prompt: Int32Array.of(extra === 2 ? 5 : 4), stop: [] }
                })
              }
            })
        }
        const group = yield* Rollout.group(acting, longer, {
          size: 3,
          settings: { renderer: yield* renderer },
          limits: { maxTurns: 1 },
          concurrency: 1
        })
        assert.deepStrictEqual(requests.map(([count]) => count), [3, 1])
        assert.deepStrictEqual(drawn(group), [[100], [200], [102]])
      }))

    it.effect("a member that leaves does not take the request away from the others; the group's end does", () =>
      Effect.gen(function*() {
        let open = 0
        const slowly: Policy.Policy = {
          act: policy.act,
          actMany: (request, count) =>
            Effect.acquireUseRelease(
              Effect.sync(() => open++),
              () => Effect.delay(Effect.all(Array.from({ length: count }, () => policy.act(request))), "1 second"),
              () => Effect.sync(() => open--)
            )
        }
        const left = yield* Effect.fork(run(slowly, { limits: { timeout: 500 } }))
        yield* TestClock.adjust("500 millis")
        const { trajectories } = yield* Fiber.join(left)
        assert.deepStrictEqual(
          trajectories.map(outcome),
          Array.from({ length: 3 }, () => ["rollout_timeout", 0] as const)
        )
        assert.strictEqual(open, 0)
        const interrupted = yield* Effect.fork(run(slowly))
        yield* TestClock.adjust("500 millis")
        assert.strictEqual(open, 1)
        yield* Fiber.interrupt(interrupted)
        assert.strictEqual(open, 0)
      }))

    it.effect("the others begin when the first has its answer, or has ended without asking", () =>
      Effect.gen(function*() {
        let made = 0
        const late = Environment.group(() => Effect.sync(() => counting(++made)), { samePrompt: true })
        const quickly = {
          act: policy.act,
          actMany: (request, count) => Effect.all(Array.from({ length: count }, () => policy.act(request)))
        } satisfies Policy.Policy
        const slowly: Policy.Policy = {
          ...quickly,
          actMany: (request, count) => Effect.delay(quickly.actMany(request, count), "1 second")
        }
        const settings = { renderer: yield* renderer }
        const group = yield* Effect.fork(
          Rollout.group(slowly, late, { size: 3, settings, limits: { maxTurns: 1 } })
        )
        yield* TestClock.adjust("999 millis")
        assert.strictEqual(made, 1)
        yield* TestClock.adjust("1 millis")
        assert.strictEqual((yield* Fiber.join(group)).trajectories.length, 3)
        assert.strictEqual(made, 3)

        let tried = 0
        const broken = Environment.group(
          () => ++tried === 1 ? Effect.fail("broken") : Effect.sync(() => counting(1)),
          { samePrompt: true }
        )
        const { errors, trajectories } = yield* Rollout.group(quickly, broken, {
          size: 3,
          settings,
          limits: { maxTurns: 1 },
          strategy: Rollout.minimumViable({ share: 0.5 })
        })
        assert.strictEqual(trajectories.length, 2)
        assert.strictEqual(errors.length, 1)
      }))

    it.scoped("a model draws them all different, and the same ones for the same seed", () =>
      Effect.gen(function*() {
        const sampler = yield* SamplingClient.make({ baseModel: "local/tiny" })
        const problem = Environment.problem({ question: "?", check: () => 1 })
        const sample = Effect.map(
          Rollout.group(Policy.fromSampler(sampler, { maxTokens: 6 }), problem, {
            size: 4,
            settings: { renderer: yield* renderer },
            seed: 3
          }),
          ({ trajectories }) => trajectories.map(({ turns }) => String(turns[0]?.action.tokens))
        )
        const first = yield* sample
        assert.strictEqual(new Set(first).size, 4)
        assert.deepStrictEqual(yield* sample, first)
      }).pipe(Effect.provide(Local)))

    it.scoped("G24: draws are the same whether one request gives them all, each member asks for itself, or one is tried again", () =>
      Effect.gen(function*() {
        const sampler = yield* SamplingClient.make({ baseModel: "local/tiny" })
        const settings = { renderer: yield* renderer }
        const together = Policy.fromSampler(sampler, { maxTokens: 6 })
        const sample = (acting: Policy.Policy<unknown>, failures = 0) => {
          let failed = 0
          const flaky = Environment.group(() =>
            Effect.sync((): Environment.Environment<Error> => {
              const { initial, step } = counting(2)
              return {
                initial,
                step: (action) => failed++ < failures ? Effect.fail(new Error("broken")) : step(action)
              }
            }), { samePrompt: true })
          return Effect.map(
            Rollout.group(acting, flaky, { size: 4, settings, seed: 3, strategy: Rollout.retry(Schedule.recurs(4)) }),
            ({ trajectories }) =>
              trajectories.map(({ turns }) => turns.map(({ action: { logprobs, tokens } }) => ({ logprobs, tokens })))
          )
        }
        const wanted = yield* sample(together)
        assert.strictEqual(wanted.flat().length, 8)
        assert.deepStrictEqual(yield* sample(Policy.make(together.act)), wanted)
        assert.deepStrictEqual(yield* sample(Policy.perSeat([Policy.make(together.act)])), wanted)
        assert.deepStrictEqual(yield* sample(together, 3), wanted)
      }).pipe(Effect.provide(Local)))
  })

  it.live(
    "1,000 environments that fail, run out of time and are interrupted at every step are all released",
    () =>
      Effect.gen(function*() {
        const write = yield* renderer
        let acquired = 0
        let released = 0
        const problem = (failAt: number) =>
          Environment.group(() =>
            Effect.gen(function*() {
              yield* Effect.acquireRelease(Effect.sync(() => acquired++), () => Effect.sync(() => released++))
              if (failAt === -1) return yield* Effect.fail("make")
              const inner = counting(4)
              let step = 0
              return {
                initial: failAt === 0 ? Effect.fail("initial") : Effect.delay(inner.initial, 10),
                step: (action) => ++step === failAt ? Effect.fail("step") : Effect.delay(inner.step(action), 10)
              } satisfies Environment.Environment<string>
            })
          )
        const interrupted = new Set<number>()
        let late = 0
        const acting = (n: number) =>
          Policy.make((request) =>
            Effect.suspend(() => {
              if (interrupted.has(n)) late++
              return Effect.delay(policy.act(request), 10)
            })
          )
        const settings = { renderer: write }
        const fibers = yield* Effect.forEach(Array.from({ length: 125 }, (_, n) => n), (n) =>
          Effect.gen(function*() {
            const fiber = yield* Effect.fork(Rollout.group(acting(n), problem(n % 5 === 0 ? (n / 5) % 6 - 1 : 99), {
              size: 8,
              settings,
              strategy: n % 3 === 0 ? Rollout.minimumViable({ share: 0.5 }) : Rollout.failFast,
              limits: n % 4 === 1 ? { timeout: (n % 9) * 10 + 5 } : {}
            }))
            if (n % 2 === 0) {
              yield* Fiber.interrupt(fiber).pipe(
                Effect.zipRight(Effect.sync(() => interrupted.add(n))),
                Effect.delay((n % 20) * 5),
                Effect.fork
              )
            }
            return fiber
          }))
        const exits: ReadonlyArray<Exit.Exit<unknown, unknown>> = yield* Effect.forEach(fibers, Fiber.await)
        assert.strictEqual(late, 0, "no action after the interruption")
        assert.isAtLeast(acquired, 900)
        assert.strictEqual(released, acquired)
        const kinds = new Set(
          exits.map((exit) =>
            Exit.isSuccess(exit)
              ? "success"
              : Option.isSome(Cause.failureOption(exit.cause))
              ? "failure"
              : "interrupted"
          )
        )
        assert.deepStrictEqual([...kinds].sort(), ["failure", "interrupted", "success"])
        assert.isTrue(exits.every((exit) => Exit.isSuccess(exit) || Chunk.isEmpty(Cause.defects(exit.cause))))
      }),
    60_000
  )
})
