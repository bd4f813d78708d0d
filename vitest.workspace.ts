import { readdirSync } from "node:fs"
import { defineWorkspace } from "vitest/config"

// Workspace packages are tested from source: the condition their `exports` name for it.
const conditions = ["@effect-tinker/source", "module", "node", "import", "default"]

export default defineWorkspace(
  readdirSync(new URL("packages", import.meta.url)).map((name) => ({
    root: new URL(`packages/${name}`, import.meta.url).pathname,
    resolve: { conditions },
    ssr: { resolve: { conditions } },
    test: {
      name,
      include: ["test/**/*.test.ts"],
      sequence: { concurrent: true },
      testTimeout: 30_000
    }
  }))
)
