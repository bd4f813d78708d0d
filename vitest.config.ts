import { defineConfig } from "vitest/config"
import projects from "./vitest.workspace.js"

// vitest looks for its list of projects here; a workspace file that it finds by itself is deprecated.
export default defineConfig({
  test: {
    projects,
    // Loading the modules again for every file would take longer than the tests themselves. In a project it has no effect.
    isolate: false
  }
})
