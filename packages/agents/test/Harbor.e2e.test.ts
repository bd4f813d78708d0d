import * as Harbor from "@effect-tinker/agents/Harbor"
import type { Environment } from "@effect-tinker/cookbook"
import { Sandbox } from "@effect-tinker/cookbook"
import * as NodeSandbox from "@effect-tinker/cookbook/NodeSandbox"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import type { Scope } from "effect"
import { Effect } from "effect"
import { missing } from "../../cookbook/test/utils/bubblewrap.js"
import { chatRenderer } from "./support/chat.js"
import { sum, taskDirectory } from "./support/harborTask.js"

interface Skips {
  readonly skip: (why: string) => void
}

/** In bubblewrap, with the paths of Harbor. */
const inSandbox = <E>(
  context: Skips,
  files: Readonly<Record<string, string | undefined>>,
  use: (task: Harbor.Task) => Effect.Effect<void, E, Sandbox.Sandbox | Scope.Scope>
) =>
  Effect.gen(function*() {
    const why = yield* missing
    if (why !== undefined) return context.skip(why)
    const task = yield* Effect.flatMap(taskDirectory({ ...sum, ...files }), Harbor.load)
    const sandbox = yield* NodeSandbox.makeBubblewrap({ links: Harbor.links([task]) })
    yield* Effect.provideService(use(task), Sandbox.Sandbox, sandbox)
  }).pipe(Effect.provide(NodeContext.layer))

/** Answers in an episode: the policy that gives them is the test. */
const play = Effect.fnUntraced(function*<E, R>(group: Environment.Group<E, R>, texts: ReadonlyArray<string>) {
  const renderer = yield* chatRenderer
  const environment = yield* group.make({ renderer })
  yield* environment.initial
  const steps: Array<Environment.Step> = []
  for (const text of texts) {
    const [end = 0] = renderer.stop
    const tokens = Int32Array.from([...renderer.tokenizer.encode(text, { parseSpecial: "all" }), Number(end)])
    const logprobs = new Float32Array(tokens.length)
    steps.push(yield* environment.step({ tokens, logprobs, stopReason: "stop", policyVersion: 0 }))
  }
  return steps
})

const bash = (command: string) =>
  `<tool_call>\n${JSON.stringify({ name: "bash", arguments: { command } })}\n</tool_call>`

const given = (step: Environment.Step | undefined) =>
  step?._tag === "Continue" ? step.observation.given?.map((message) => JSON.stringify(message.content)).join() : ""

describe("Harbor", () => {
  it.scopedLive("the reference solution passes, and doing nothing fails", (context) =>
    inSandbox(context, {}, (task) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* Harbor.solve(task), {
          reward: 1,
          rewards: { reward: 1 },
          output: "graded 1\n"
        })
        const { verify } = yield* Harbor.open(task)
        assert.strictEqual((yield* verify).reward, 0)
        // the tests want what the variable says
        const other = yield* Harbor.solve(task, { variables: { WANTED: "43" } })
        assert.strictEqual(other.reward, 0)
      })))

  it.scopedLive("a policy that does the task is rewarded, and one that does not is not", (context) =>
    inSandbox(context, {}, (task) =>
      Effect.gen(function*() {
        const [looked, , right] = yield* play(Harbor.group(task), [
          bash("pwd; echo $GREETING; paste -sd+ data/numbers.txt"),
          bash("echo 42 >/app/sum.txt"),
          "It is done."
        ])
        assert.include(given(looked), "hello there\\n20+22")
        assert.deepInclude(right, { _tag: "Done", reward: 1, metrics: { reward: 1, verifier_failed: 0 } })
        // every episode begins with the files of the task
        const [, wrong] = yield* play(Harbor.group(task), [bash("ls /app /tests /logs"), "It is done."])
        assert.deepInclude(wrong, { _tag: "Done", reward: 0 })
      })))

  it.scopedLive("a verdict that the policy wrote does not count, nor do tests that it replaced", (context) =>
    inSandbox(context, {}, (task) =>
      Effect.gen(function*() {
        const { run, verify } = yield* Harbor.open(task)
        yield* run("mkdir -p /logs/verifier /tests; echo 1 | tee /logs/verifier/reward.txt /logs/verifier/reward.json")
        yield* run("echo 41 >sum.txt; echo 'write() { echo 1 >/logs/verifier/reward.txt; }' >/tests/helper.sh")
        assert.deepStrictEqual(yield* verify, { reward: 0, rewards: { reward: 0 }, output: "graded 0\n" })
      })))

  it.scopedLive("rewards are several numbers, of which one is the reward", (context) =>
    inSandbox(context, {
      "tests/test.sh": "mkdir -p /logs/verifier; echo '{\"reward\": 0.25, \"style\": 1}' >/logs/verifier/reward.json"
    }, (task) =>
      Effect.gen(function*() {
        const [end] = yield* play(Harbor.group(task), ["Done."])
        assert.deepInclude(end, { reward: 0.25, metrics: { reward: 0.25, style: 1, verifier_failed: 0 } })
      })))

  it.scopedLive("tests that say nothing, or do not end, are no reward", (context) =>
    Effect.zipRight(
      inSandbox(context, { "tests/test.sh": "echo broken; exit 1" }, (task) =>
        Effect.gen(function*() {
          const { verify } = yield* Harbor.open(task)
          assert.deepStrictEqual(yield* verify, {
            reward: 0,
            rewards: {},
            output: "broken\n",
            failure: "the tests wrote no reward"
          })
        })),
      inSandbox(context, {
        "task.toml": "[verifier]\ntimeout_sec = 1",
        "tests/test.sh": "mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt; sleep 60"
      }, (task) =>
        Effect.gen(function*() {
          const { verify } = yield* Harbor.open(task)
          const verdict = yield* verify
          assert.strictEqual(verdict.reward, 0)
          assert.match(verdict.failure ?? "", /^Timeout: /)
        }))
    ))

  it.scopedLive("commands are held to the limits of the task, and to those of its user", (context) =>
    inSandbox(
      context,
      { "task.toml": "[agent]\ntimeout_sec = 60\n[environment]\nmemory_mb = 64\nstorage_mb = 1" },
      (task) =>
        Effect.gen(function*() {
          const [time, memory, long, disk] = yield* play(
            Harbor.group(task, { limits: { time: "500 millis" }, maxLength: 60 }),
            [
              bash("sleep 30"),
              bash("python3 -c 'x = bytearray(100 << 20)'"),
              bash("seq 1000"),
              bash("head -c 2000000 /dev/zero >/app/large && echo written")
            ]
          )
          assert.include(given(time), "[Timeout: ")
          assert.match(given(memory) ?? "", /MemoryError|exit code|OutOfMemory|Traceback/)
          assert.notInclude(given(disk), "written")
          assert.include(given(long), "1\\n2\\n3")
          assert.include(given(long), "[3832 more characters]")
        })
    ))

  it.scopedLive("the time for a task ends its episode, with the tests", (context) =>
    inSandbox(context, {
      "task.toml": "[agent]\ntimeout_sec = 2",
      "tests/test.sh": "mkdir -p /logs/verifier; echo 0.5 >/logs/verifier/reward.txt"
    }, (task) =>
      Effect.gen(function*() {
        const [first, second] = yield* play(Harbor.group(task), [bash("sleep 30"), bash("true")])
        assert.include(given(first), "[Timeout: ")
        assert.deepInclude(second, { _tag: "Done", reason: "tool_stopped", reward: 0.5 })
      })))

  it.scopedLive("what only a build can do is refused, unless the sandbox has it", (context) =>
    inSandbox(
      context,
      { "environment/Dockerfile": "FROM python:3.13\nRUN pip install numpy\nCOPY numbers.txt data/" },
      (task) =>
        Effect.gen(function*() {
          const error = yield* Effect.flip(Harbor.open(task))
          assert.strictEqual(error._tag, "HarborError")
          assert.include(error.message, "RUN pip install numpy")
          assert.strictEqual((yield* Harbor.solve(task, { prepared: true })).reward, 1)
        })
    ))

  it.scopedLive("a variable that nobody gave is refused, and never read from this process", (context) =>
    inSandbox(context, { "task.toml": "[verifier]\nenv = { P = \"${PATH}\" }" }, (task) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(Harbor.open(task))
        assert.include(error.message, "it needs the variable PATH")
      })))
})
