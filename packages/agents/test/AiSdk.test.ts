import * as ai from "ai"
import { suite } from "./support/aiSdk.js"

suite("AI SDK 6", ai)
