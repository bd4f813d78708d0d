/**
 * `--local`: the official SDK and its command line, unmodified, against the embedded backend over HTTP; once as clients
 * behave by default, and once with everything switched on that a server can ask of them.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Console, Effect } from "effect"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"

const name = "local"

const runs: ReadonlyArray<{
  readonly title: string
  readonly args: ReadonlyArray<string>
  readonly config: NodeTinkerLocal.Options["clientConfig"]
}> = [
  { title: "defaults", args: [], config: {} },
  {
    title: "tokens, zstd, small chunks, one poll per sampler, models from checkpoints in one request",
    args: ["jwt"],
    config: {
      pjwtAuthEnabled: true,
      protoCompressFwdbwd: true,
      fwdbwdMaxChunkLen: 2,
      sampleUseRetrieveFutures: true,
      sampleJoinSamplingSession: true,
      createModelViaLoadWeights: true
    }
  }
]

export const local: Suite = {
  name,
  summary: "the official client trains, samples, saves, loads, lists and deletes on the embedded backend",
  run: () =>
    Effect.gen(function*() {
      const python = yield* Python.make
      for (const { args, config, title } of runs) {
        const report = yield* Effect.scoped(Effect.gen(function*() {
          const { baseUrl } = yield* NodeTinkerLocal.serve({ clientConfig: config }).pipe(
            Effect.mapError((error) =>
              new Differs({ suite: name, differences: [`the server does not start: ${error}`] })
            )
          )
          return yield* python.run("local_backend", baseUrl, ...args)
        }))
        yield* Console.log(`${title}: ${report.trim()}`)
      }
    })
}
