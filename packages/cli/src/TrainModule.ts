/**
 * Exports of the modules that `tinker train rl`, `tinker train agent` and `tinker eval` load: environments to act in,
 * agents, and functions that score answers.
 *
 * @since 0.1.0
 */
import * as Agent from "@effect-tinker/agents/Agent"
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import type * as Environment from "@effect-tinker/cookbook/Environment"
import type * as Rollout from "@effect-tinker/cookbook/Rollout"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import type * as Path from "@effect/platform/Path"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"

/**
 * Services that the command provides to the Effects of a module.
 *
 * @since 0.1.0
 * @category models
 */
export type Services = FileSystem.FileSystem | Path.Path | HttpClient.HttpClient

/**
 * Problems: a dataset, or a list.
 *
 * @since 0.1.0
 * @category models
 */
export type Problems =
  | Dataset.Dataset<Environment.Group<unknown, Services>, unknown, Services>
  | Iterable<Environment.Group<unknown, Services>>

/**
 * The default export of a module for `tinker train rl` and `tinker eval --env`: problems, or more about them.
 *
 * @since 0.1.0
 * @category models
 */
export type Environments = Problems | {
  readonly problems: Problems
  /** Problems to evaluate on, which are not trained on. */
  readonly test?: Problems | undefined
  readonly settings?: Omit<Environment.Settings, "renderer" | "contextWindow"> | undefined
  readonly limits?: Rollout.Limits | undefined
}

/**
 * The default export of a module for `tinker eval --scorer`: 0 to 1 for an answer. The scorers of `autoevals` have this
 * shape.
 *
 * @since 0.1.0
 * @category models
 */
export type Scorer = (example: {
  /** The last message before the answer. */
  readonly input: string
  readonly output: string
  /** The answer in the file. */
  readonly expected: string
}) => Score | Promise<Score>

/**
 * A score, plain or with a name, as `autoevals` gives it. `null`: it cannot be judged.
 *
 * @since 0.1.0
 * @category models
 */
export type Score = number | boolean | null | { readonly score: number | null }

type ProblemSet = Dataset.Dataset<Environment.Group<unknown, Services>, unknown, Services>

/** @internal */
export interface Loaded {
  readonly problems: ProblemSet
  readonly test: ProblemSet | undefined
  readonly settings: Omit<Environment.Settings, "renderer" | "contextWindow"> | undefined
  readonly limits: Rollout.Limits | undefined
}

const isGroup = (u: unknown): u is Environment.Group<unknown, Services> =>
  Predicate.hasProperty(u, "make") && typeof u.make === "function" &&
  Predicate.hasProperty(u, "compare") && typeof u.compare === "function"

/** A dataset says nothing of its rows before they are read, so it is taken at its word. */
const isProblemSet = (u: unknown): u is ProblemSet => Dataset.isDataset(u)

/** The rows of a list are looked at. */
const problemsOf = (u: unknown): ProblemSet | string => {
  if (isProblemSet(u)) return u
  if (!Predicate.isIterable(u) || typeof u === "string") return "are neither a dataset nor a list"
  const list = Array.from(u)
  const wrong = list.findIndex((item) => !isGroup(item))
  return list.length === 0
    ? "are an empty list"
    : wrong === -1
    ? Dataset.fromIterable(list.filter(isGroup))
    : `have something else than a problem at index ${wrong}: make them with Environment.problem`
}

/** Settings and limits are numbers and functions with defaults; the trainer refuses what it cannot use. */
const isDefinition = (u: unknown): u is Exclude<Environments, Problems> =>
  Predicate.hasProperty(u, "problems") && !Dataset.isDataset(u)

type AgentModule = Agent.Agent<unknown, unknown, unknown, Services, unknown, Services>

/** Tasks are of any type: only the agent reads them. */
const isAgent = (u: unknown): u is AgentModule => Agent.isAgent(u)

/**
 * The agent of a module's default export, as environments.
 *
 * @internal
 */
export const agentOf = (u: unknown): Loaded | string =>
  isAgent(u)
    ? {
      problems: Agent.problems(u),
      test: Option.getOrUndefined(Option.map(u.test, (tasks) => Agent.problems(u, { tasks }))),
      settings: undefined,
      limits: Agent.defaultLimits
    }
    : "it is not made by Agent.make, AiSdk.agent, EffectAi.agent or NodeGateway.agent"

/**
 * The environments of a module's default export, which may be an agent, or what is wrong with it.
 *
 * @internal
 */
export const environmentsOf = (u: unknown): Loaded | string => {
  if (isAgent(u)) return agentOf(u)
  const given = isDefinition(u) ? u : { problems: u }
  const problems = problemsOf(given.problems)
  if (typeof problems === "string") return `its problems ${problems}`
  const more = isDefinition(u) ? u : undefined
  const test = more?.test === undefined ? undefined : problemsOf(more.test)
  if (typeof test === "string") return `its test problems ${test}`
  return { problems, test, settings: more?.settings, limits: more?.limits }
}

/**
 * The number a score stands for; `undefined` when it is none between 0 and 1.
 *
 * @internal
 */
export const numberOf = (score: unknown): number | null | undefined => {
  const value = Predicate.hasProperty(score, "score") ? score.score : score
  if (value === null) return null
  const number = typeof value === "boolean" ? Number(value) : value
  return typeof number === "number" && number >= 0 && number <= 1 ? number : undefined
}
