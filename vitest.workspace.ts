// Workspace packages are tested from source: the condition their `exports` name for it.
const conditions = ["@effect-tinker/source", "node"]

/** Where tests are: every package, the examples and the recipes. */
const folders = ["packages/*", "examples", "recipes"]

// One project for all of them: vitest runs projects one after another, each with workers that load everything again.
export default [{
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    name: "all",
    include: folders.map((folder) => `${folder}/test/**/*.test.ts`),
    setupFiles: ["vitest.setup.ts"],
    // Ends what hangs; what is slow on a busy machine is not wrong.
    testTimeout: 120_000
  }
}]
