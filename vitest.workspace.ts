import type { Plugin } from "vite"

// Workspace packages are tested from source: the condition their `exports` name for it.
const conditions = ["@effect-tinker/source", "node"]

/** Where tests are: every package, the examples and the recipes. */
const folders = ["packages/*", "examples", "recipes"]

/** The package for Effect 4 is tested with its own Effect; what it imports of ours keeps Effect 3. */
const effect4: Plugin = {
  name: "effect 4",
  enforce: "pre",
  resolveId(source, importer) {
    if (!/^effect(\/|$)/.test(source) || importer?.includes("/packages/effect4/") !== true) return null
    if (importer.includes("/node_modules/")) return null
    return this.resolve(source, `${import.meta.dirname}/packages/effect4/effect/package.json`, { skipSelf: true })
  }
}

// One project for all of them: vitest runs projects one after another, each with workers that load everything again.
export default [{
  plugins: [effect4],
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
