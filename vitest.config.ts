import { defineConfig } from "vitest/config"
import projects from "./vitest.workspace.js"

// vitest looks for its list of projects here; a workspace file that it finds by itself is deprecated.
export default defineConfig({ test: { projects } })
