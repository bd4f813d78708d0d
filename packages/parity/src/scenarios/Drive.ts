/**
 * The two sides of a scenario: the official SDK in Python processes, ours in this one.
 */
import type { Path } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Array as Arr, Cause, Chunk, ConfigProvider, Duration, Effect, Exit, Layer, Schema } from "effect"
import { RestClient, ServiceClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import type { Python } from "../Python.js"
import { PythonFailed } from "../Suite.js"
import type { Outcome, Scenario } from "./Scenario.js"

/** A scenario with all it needs to start. */
export interface Prepared {
  readonly scenario: Scenario
  readonly baseUrl: string
  readonly apiKey: string | undefined
  readonly environment: Readonly<Record<string, string>>
  readonly credentialsPath: string
}

export interface Ended {
  readonly outcome: string
  readonly reason?: string | undefined
}

/** The environment of a scenario with each credential, and what the program itself says. */
export const prepare = (
  scenario: Scenario,
  baseUrl: string,
  homes: { readonly empty: string; readonly stored: string },
  token: string,
  path: Path.Path
): Prepared => {
  const credential = scenario.credential ?? "argument"
  const home = credential === "stored" ? homes.stored : homes.empty
  return {
    scenario,
    baseUrl,
    apiKey: credential === "argument"
      ? "tml-argument"
      : credential === "token"
      ? token
      : credential === "malformed"
      ? "sk-malformed"
      : undefined,
    environment: {
      HOME: home,
      TINKER_TELEMETRY: "0",
      ...(credential === "environment" ? { TINKER_API_KEY: "tml-environment" } : {}),
      ...(credential === "command" ? { TINKER_CREDENTIAL_CMD: "echo tml-command" } : {}),
      ...scenario.environment
    },
    credentialsPath: path.join(home, ".tinker", "credentials.json")
  }
}

const Report = Schema.parseJson(Schema.Struct({
  known: Schema.Array(Schema.String),
  ended: Schema.Array(Schema.Struct({
    name: Schema.String,
    outcome: Schema.String,
    reason: Schema.optional(Schema.String)
  }))
}))

/** Seconds after which a scenario that has not ended does not end. */
const patience = 120

export interface Theirs {
  /** Names of all scenarios there are in Python. */
  readonly known: ReadonlyArray<string>
  readonly ended: ReadonlyMap<string, Ended>
}

/** Runs scenarios with the official SDK, `concurrency` at once: those of one environment in one process. */
export const theirs = (
  python: Python,
  prepared: ReadonlyArray<Prepared>,
  concurrency: number
): Effect.Effect<Theirs, PythonFailed, NodeContext.NodeContext> =>
  Effect.forEach(
    Object.values(Arr.groupBy(prepared, ({ environment }) => JSON.stringify(environment))),
    (group) => {
      const wanted = group.map(({ apiKey, baseUrl, scenario }) => ({
        name: scenario.name,
        base_url: baseUrl,
        api_key: apiKey,
        session: {
          user_metadata: scenario.session?.userMetadata,
          display_name: scenario.session?.displayName,
          project_id: scenario.config?.projectId
        }
      }))
      const args = [JSON.stringify(wanted), String(patience), String(concurrency)]
      return python.runIn(group[0].environment, "scenarios", ...args).pipe(
        Effect.flatMap(Schema.decode(Report)),
        Effect.catchTag("ParseError", (error) => new PythonFailed({ program: "scenarios", reason: error.message }))
      )
    }
  ).pipe(
    Effect.map((reports): Theirs => ({
      known: reports[0]?.known ?? [],
      ended: new Map(reports.flatMap(({ ended }) => ended.map((one) => [one.name, one])))
    }))
  )

const outcome = (exit: Exit.Exit<unknown, unknown>): Ended => {
  if (Exit.isSuccess(exit)) return { outcome: "done" }
  const error = Chunk.toReadonlyArray(Cause.failures(exit.cause))[0]
  const status = typeof error === "object" && error !== null && "status" in error ? error.status : undefined
  const ended: Outcome = typeof status === "number" ? `status ${status}` : "failed"
  return { outcome: ended, reason: Cause.pretty(exit.cause).slice(0, 300) }
}

/** Runs a scenario with ours. */
export const ours = ({ apiKey, baseUrl, credentialsPath, environment, scenario }: Prepared): Effect.Effect<Ended> => {
  const options: ServiceClient.Options = {
    ...scenario.config,
    baseUrl,
    apiKey,
    credentialsPath,
    ...(scenario.session === undefined ? {} : { session: scenario.session })
  }
  return Effect.scoped(scenario.run).pipe(
    Effect.provide(Layer.merge(ServiceClient.layerFromEnv(options), RestClient.layerFromEnv(options))),
    Effect.provide(NodeTinker.layerFromEnv()),
    Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(environment)))),
    Effect.timeout(Duration.seconds(patience)),
    Effect.exit,
    Effect.map(outcome)
  )
}
