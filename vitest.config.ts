import { defineConfig } from "vitest/config"
import type { TestSpecification } from "vitest/node"
import { BaseSequencer } from "vitest/node"
import projects from "./vitest.workspace.js"

/**
 * What takes longest comes first, so that no worker is left alone with it. Vitest itself begins with the largest files.
 * Before what is packed, there is time for checks that run beside the tests to have built it.
 */
const longest = [
  "packages/cli/test/Process.e2e",
  "packages/cli/test/Train.e2e",
  "packages/parity/test/Resume.e2e",
  "examples/test/Guides.e2e",
  "packages/parity/test/Durable.e2e",
  "packages/cli/test/Worker.e2e",
  "packages/parity/test/Pack.e2e",
  "examples/test/quickstart.e2e",
  "packages/cookbook/test/Reinforce",
  "packages/cluster/test/DurableRun"
]

const rank = ({ moduleId }: TestSpecification): number => {
  const found = longest.findIndex((name) => moduleId.includes(name))
  return found === -1 ? longest.length : found
}

class LongestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>) {
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
  }
}

// vitest looks for its list of projects here; a workspace file that it finds by itself is deprecated.
export default defineConfig({
  test: {
    projects,
    sequence: { sequencer: LongestFirst },
    // Loading the modules again for every file would take longer than the tests themselves. In a project it has no effect.
    isolate: false,
    // Effects leave many small objects that die young. With more room for them than Node's 16 MB, fewer are copied while they
    // live: the tests take a twentieth less of the processor.
    poolOptions: { forks: { execArgv: ["--max-semi-space-size=64"] } }
  }
})
