import { Improve, Trace, TraceData } from "@effect-tinker/agents"
import { Dataset, Environment } from "@effect-tinker/cookbook"
import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { Message, Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"

const renderer = Effect.flatMap(
  Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles),
  Renderers.qwen3Instruct
)

const trace = (session: string, question: string, answer: string, thumb: number) =>
  new Trace.Trace({
    id: `${session}-${answer}`,
    session,
    source: "otel",
    messages: [Message.user(question), { ...Message.assistant(answer), trainable: true }],
    scores: {},
    calls: 1,
    feedback: { value: thumb }
  })

const sessions = Array.from({ length: 24 }, (_, n) => `s${n}`)
/** Each session asked something of its own twice, and was content with the first answer only. */
const traces = Dataset.fromIterable(
  sessions.flatMap((session, n) => [trace(session, `${n}?`, "good", 1), trace(session, `${n}?`, "bad", 0)])
)
const split = { share: 0.5, seed: 2 }
const held = sessions.filter((session) => TraceData.isHeldOut(session, split))

/** Rewards of a case by how often it was played before, whatever is answered: what a model answers is no matter here. */
const scripted = (rewardOf: (time: number, session: string) => number) => {
  const times = new Map<string, number>()
  return Improve.suite(({ feedback, id, session }) =>
    feedback?.value !== 1 ? undefined : Environment.group(() =>
      Effect.succeed(
        {
          initial: Effect.succeed({ _tag: "Continue", observation: { prompt: Int32Array.of(65), stop: [] } }),
          step: () =>
            Effect.sync(() => {
              const time = times.get(id) ?? 0
              times.set(id, time + 1)
              return { _tag: "Done", reason: "completed", reward: rewardOf(time, session) } as const
            })
        } satisfies Environment.Environment
      )
    )
  )
}

const Live = Layer.unwrapScoped(
  Effect.map(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped({ prefix: "tinker-improve-" })),
    (root) => TinkerLocal.layerDirectory(root)
  )
).pipe(Layer.provideMerge(NodeContext.layer))

const run = Effect.fnUntraced(function*(
  directory: string,
  options: Partial<Improve.Options<never, never, never, never>> & { readonly suite: Improve.Suite }
) {
  return yield* Improve.run({
    traces,
    model: { baseModel: "local/tiny", rank: 2, seed: 1 },
    renderer: yield* renderer,
    directory,
    split,
    learningRate: 1e-3,
    epochs: 1,
    sampling: { maxTokens: 1 },
    ...options
  })
})

const lines = (path: string) =>
  Effect.flatMap(
    FileSystem.FileSystem,
    (fs) => Effect.map(fs.readFileString(path), (text) => text.trim().split("\n").map((line) => JSON.parse(line)))
  )

describe("Improve", () => {
  it.scopedLive(
    "trains on what was good and on pairs, evaluates what was held out before and after, and says to ship",
    () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const at = `${yield* fs.makeTempDirectoryScoped()}/run`
        const steps: Array<string> = []
        const options = {
          method: "sft+dpo",
          onStep: (stage: string) => Effect.sync(() => void steps.push(stage))
        } as const
        const attempts = 2
        // Two attempts before, worth 0 and 0.5, and two after, worth 1 each.
        const suite = scripted((time) => time === 0 ? 0 : time === 1 ? 0.5 : 1)
        const report = yield* run(at, { ...options, suite, sampling: { maxTokens: 1, attempts, seed: 3 } })
        const others = sessions.length - held.length
        assert.isAbove(held.length, 7)
        assert.strictEqual(report.traces, 48)
        assert.deepStrictEqual(report.sessions, { train: others, heldOut: held.length })
        assert.deepStrictEqual(report.examples, { sft: others, dpo: others, offline: 0 })
        assert.deepStrictEqual(report.comparison.scores, [0.25, 1])
        assert.closeTo(report.comparison.difference.mean, 0.75, 1e-12)
        assert.strictEqual(report.comparison.difference.clusters, held.length)
        assert.strictEqual(report.verdict, "ship")
        assert.match(report.samplerPath, /^tinker:\/\//)
        assert.isAbove(report.tokens, 0)
        assert.include(report.markdown, "**Ship it.**")
        assert.include(report.markdown, `${others} successes, ${others} pairs`)
        assert.strictEqual(yield* fs.readFileString(`${at}/report.md`), report.markdown)
        assert.deepStrictEqual(Array.from(new Set(steps)), ["sft", "dpo"])
        assert.strictEqual((yield* lines(`${at}/sft.jsonl`)).length, others)
        assert.strictEqual((yield* lines(`${at}/dpo.jsonl`)).length, others)
        assert.strictEqual((yield* lines(`${at}/held-out.jsonl`)).length, 2 * held.length)
        const [header, ...results] = yield* lines(`${at}/before.jsonl`)
        assert.deepStrictEqual(header, { benchmark: "held-out", model: "local/tiny", samples: 2, seed: 3 })
        assert.deepStrictEqual(
          results.map(({ id, reward, sample, target, tokens }) => [id, sample, reward, target, tokens]).sort(),
          held.flatMap((session) => [[`${session}-good`, 0, 0, "good", 1], [`${session}-good`, 1, 0.5, "good", 1]])
            .sort()
        )
        assert.strictEqual((yield* lines(`${at}/after.jsonl`))[0].model, report.samplerPath)

        // The same again: nothing is left to train, and what is worse now is not shipped.
        steps.length = 0
        const again = yield* run(at, { ...options, suite: scripted((time) => 1 - time) })
        assert.deepStrictEqual(steps, [])
        assert.strictEqual(again.samplerPath, report.samplerPath)
        assert.strictEqual(again.tokens, report.tokens)
        assert.strictEqual(again.verdict, "worse")
        assert.deepStrictEqual(again.comparison.scores, [1, 0])

        // Better by less than was asked for, or by chance.
        const little = yield* run(at, { ...options, suite: scripted((time) => time), minDelta: 1 })
        assert.strictEqual(little.verdict, "unproven")
        const chance = yield* run(at, {
          ...options,
          suite: scripted((time, session) => (held.indexOf(session) % 2 === 0 ? time : 1 - time))
        })
        assert.strictEqual(chance.verdict, "unproven")
        assert.include(chance.markdown, "**Do not ship it yet.**")
      }).pipe(Effect.provide(Live)),
    120_000
  )

  it.scopedLive("says what is missing before anything is trained", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const root = yield* fs.makeTempDirectoryScoped()
      const suite = scripted(() => 1)
      const fails = (options: Partial<Parameters<typeof run>[1]>) =>
        Effect.map(Effect.flip(run(`${root}/run`, { suite, ...options })), (error) => {
          assert.strictEqual(error._tag, "NotEnough")
          return error.message
        })
      assert.strictEqual(
        yield* fails({ split: { share: 0 } }),
        "none of 0 held-out traces can be evaluated, of 48 in all"
      )
      assert.include(
        yield* fails({ suite: Improve.suite(() => undefined) }),
        `none of ${2 * held.length} held-out traces can be evaluated`
      )
      const bad = Dataset.fromIterable(
        sessions.map((session, n) => trace(session, `${n}?`, "x", held.includes(session) ? 1 : 0))
      )
      const left = sessions.length - held.length
      assert.strictEqual(yield* fails({ traces: bad }), `none of the ${left} traces to train on is a success`)
      assert.include(yield* fails({ traces: bad, method: "sft+dpo" }), "is a success")
      assert.strictEqual(
        yield* fails({ traces: bad, method: "dpo" }),
        "no two traces that were asked the same were worth more and less"
      )
      assert.strictEqual(
        yield* fails({ traces: bad, method: "offline" }),
        `none of the ${left} traces to train on was worth more than the mean`
      )
      assert.isFalse(yield* fs.exists(`${root}/run/sft`))
    }).pipe(Effect.provide(Live)), 60_000)

  it("a suite is known as one", () => {
    assert.isTrue(Improve.isSuite(scripted(() => 1)))
    for (const other of [undefined, null, "Suite", {}, { _tag: "Case" }]) assert.isFalse(Improve.isSuite(other))
  })
})
