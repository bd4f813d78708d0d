/**
 * Prints a first session with the command, as the README shows it: `tinker local` in a process of its own, a model that
 * is taught a greeting through the SDK, and what a person types before and after.
 *
 *     npx tsx --conditions=@effect-tinker/source packages/cli/test/transcript.ts
 */
import * as LocalTokenizer from "@effect-tinker/local/LocalTokenizer"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer } from "effect"
import { Datum, ModelInput, ServiceClient, TinkerFuture, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { spawnSync } from "node:child_process"
import { mkdirSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { make } from "./fixtures/process.js"

const question = LocalTokenizer.encode("<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n")
const answer = LocalTokenizer.encode("Good morning!<|im_end|>")

/** Teaches the greeting, and saves it to sample from. */
const teach = (baseUrl: string) =>
  Effect.gen(function*() {
    const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 8, seed: 1 })
    const tokens = [...question, ...answer]
    const weights = tokens.slice(1).map((_, i) => i + 1 < question.length ? 0 : 1)
    const datum = yield* Datum.make({
      modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
      lossFnInputs: { target_tokens: tokens.slice(1), weights }
    })
    for (let i = 0; i < 80; i++) yield* training.trainStep([datum], "cross_entropy", { learningRate: 1e-3 })
    yield* TinkerFuture.await(training.saveState("0080"))
    const { path } = yield* TinkerFuture.await(training.saveWeightsForSampler("greeting"))
    return path
  }).pipe(
    Effect.scoped,
    Effect.provide(
      ServiceClient.layer({ baseUrl, apiKey: "tml-local", allowInsecure: true }).pipe(
        Layer.provide(NodeTinker.layer())
      )
    )
  )

const main = Effect.gen(function*() {
  const cli = yield* Effect.acquireRelease(Effect.promise(() => make()), ({ dispose }) => Effect.sync(dispose))
  const backend = yield* Effect.acquireRelease(
    Effect.promise(() => cli.local("--memory")),
    ({ stop }) => Effect.promise(stop)
  )
  const bin = join(cli.home, "bin")
  mkdirSync(bin)
  symlinkSync(cli.bin, join(bin, "tinker"))
  const say = (line: string) =>
    Effect.sync(() => {
      const { stderr, stdout } = spawnSync("bash", ["-c", line], {
        cwd: cli.home,
        encoding: "utf8",
        env: { ...cli.base, PATH: `${bin}:${cli.base.PATH}`, TINKER_BASE_URL: backend.url }
      })
      return `$ ${line}\n${stderr}${stdout}`.replaceAll(cli.home, "/home/ada").trimEnd()
    }).pipe(Effect.flatMap(Console.log))

  yield* say("echo tml-local | tinker auth login")
  yield* say("tinker models")
  yield* say("echo hello | tinker chat --max-tokens 40 --seed 3")
  const path = yield* teach(backend.url)
  yield* say("tinker run list")
  yield* say("tinker checkpoint list")
  yield* say(`echo hello | tinker chat --checkpoint ${path} --temperature 0`)
  yield* say(`tinker checkpoint download ${path}`)
  yield* say("tinker billing summary")
})

NodeRuntime.runMain(Effect.scoped(main))
