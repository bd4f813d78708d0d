import { defineConfig } from "vitest/config"

// Workspace packages are tested from source: the condition their `exports` name for it.
const conditions = ["@effect-tinker/source", "node"]

// One project for all packages: vitest runs projects one after another, each with workers that load everything again.
export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ["{packages/*,examples,recipes}/test/**/*.test.ts"],
    setupFiles: ["vitest.setup.ts"],
    // Loading the modules again for every file would take longer than the tests themselves.
    isolate: false,
    // Ends what hangs; what is slow on a busy machine is not wrong.
    testTimeout: 120_000
  }
})
