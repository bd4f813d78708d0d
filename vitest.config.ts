import { readdirSync } from "node:fs"
import { defineConfig } from "vitest/config"

// Workspace packages are tested from source: the condition their `exports` name for it.
const conditions = ["@effect-tinker/source", "module", "node", "import", "default"]

const folders = [...readdirSync(new URL("packages", import.meta.url)).map((name) => `packages/${name}`), "examples"]

export default defineConfig({
  test: {
    projects: folders.map((folder) => ({
      root: new URL(folder, import.meta.url).pathname,
      resolve: { conditions },
      ssr: { resolve: { conditions } },
      test: {
        name: folder.replace("packages/", ""),
        include: ["test/**/*.test.ts"],
        // Loading the modules anew for every file would take longer than the tests themselves.
        isolate: false,
        sequence: { concurrent: true },
        testTimeout: 30_000
      }
    }))
  }
})
