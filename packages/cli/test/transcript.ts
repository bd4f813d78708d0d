/**
 * Prints a first session with the command, as the README shows it: `tinker local` in a process of its own, a model that
 * is taught a greeting through the SDK, and what a person types before and after.
 *
 *     npx tsx --conditions=@effect-tinker/source packages/cli/test/transcript.ts
 */
import * as LocalTokenizer from "@effect-tinker/local/LocalTokenizer"
import { Chat } from "@effect-tinker/tokenizer"
import * as NodeTokenizers from "@effect-tinker/tokenizer/NodeTokenizers"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer } from "effect"
import { Datum, ServiceClient, TinkerFuture, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { spawnSync } from "node:child_process"
import { mkdirSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { make } from "./fixtures/process.js"

/** Teaches the greeting, and saves it to sample from. */
const teach = (baseUrl: string) =>
  Effect.gen(function*() {
    const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 8, seed: 1 })
    const chat = yield* Chat.forModel(training)
    const batch = yield* Datum.fromExamples(yield* chat.supervised([{ user: "hello", assistant: "Good morning!" }]))
    for (let i = 0; i < 80; i++) yield* training.trainStep(batch, "cross_entropy", { learningRate: 1e-3 })
    yield* TinkerFuture.await(training.saveState("0080"))
    const { path } = yield* TinkerFuture.await(training.saveWeightsForSampler("greeting"))
    return path
  }).pipe(
    Effect.scoped,
    Effect.provide(
      Layer.merge(
        Layer.provide(ServiceClient.layer({ baseUrl, apiKey: "tml-local", allowInsecure: true }), NodeTinker.layer()),
        NodeTokenizers.layer({ registry: LocalTokenizer.registry })
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
