/**
 * The tests of `AiSdk` again, with the version of the AI SDK that `npm install ai` brings.
 */
import { describe } from "@effect/vitest"
import { fileURLToPath } from "node:url"
import { install } from "../../../.ci/install.mjs"
import { suite } from "./support/aiSdk.js"

const { missing } = await install("packages/agents/test/frameworks")
const newest = fileURLToPath(new URL("./frameworks/agents/ai-7.ts", import.meta.url))

if (missing === undefined) suite("AI SDK 7", await import(newest))
else describe.skip("AI SDK 7", () => {})
