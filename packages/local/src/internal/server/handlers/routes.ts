/**
 * Everything the server serves.
 */
import type * as Effect from "effect/Effect"
import type { Route } from "../route.js"
import { accountRoutes } from "./account.js"
import { checkpointRoutes } from "./checkpoints.js"
import { loadRoutes } from "./loadWeights.js"
import { openAiRoutes } from "./openai.js"
import { restRoutes } from "./rest.js"
import { samplingRoutes } from "./sampling.js"
import { saveRoutes } from "./saveWeights.js"
import { sessionRoutes } from "./session.js"
import { trainingRoutes } from "./training.js"

const table = [
  ...sessionRoutes,
  ...trainingRoutes,
  ...saveRoutes,
  ...loadRoutes,
  ...samplingRoutes,
  ...checkpointRoutes,
  ...restRoutes,
  ...accountRoutes,
  ...openAiRoutes
]

/** What the handlers need. @internal */
export type Services = Effect.Effect.Context<ReturnType<typeof table[number]["handle"]>>

/** @internal */
export const routes: ReadonlyArray<Route<Services>> = table
