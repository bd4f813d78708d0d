import { readdirSync } from "node:fs"

// Workspace packages are tested from source: the condition their `exports` name for it.
const conditions = ["@effect-tinker/source", "module", "node", "import", "default"]

const folders = [
  ...readdirSync(new URL("packages", import.meta.url)).map((name) => `packages/${name}`),
  "examples",
  "recipes"
]

/** The test projects: every package, the examples and the recipes. */
export default folders.map((folder) => ({
  root: new URL(folder, import.meta.url).pathname,
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    name: folder.replace("packages/", ""),
    include: ["test/**/*.test.ts"],
    setupFiles: [new URL("vitest.setup.ts", import.meta.url).pathname],
    // Ends what hangs; what is slow on a busy machine is not wrong.
    testTimeout: 120_000
  }
}))
