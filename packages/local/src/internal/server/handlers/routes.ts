/**
 * Everything the server serves.
 */
import type * as Effect from "effect/Effect"
import type { Route } from "../route.js"
import { samplingRoutes } from "./sampling.js"
import { sessionRoutes } from "./session.js"
import { trainingRoutes } from "./training.js"
import { weightsRoutes } from "./weights.js"

const table = [...sessionRoutes, ...trainingRoutes, ...weightsRoutes, ...samplingRoutes]

/** What the handlers need. @internal */
export type Services = Effect.Effect.Context<ReturnType<typeof table[number]["handle"]>>

/** @internal */
export const routes: ReadonlyArray<Route<Services>> = table
