// tsc -b with the native compiler, which takes less than half of the time. It is not part of `npm ci`: typescript-eslint
// needs the older one, and both write the same JavaScript, and declarations that say the same. So where the registry cannot
// be reached, the older one does. The project is given from the root: node .ci/tsc.mjs tsconfig.json
import { spawnSync } from "node:child_process"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { install } from "./install.mjs"
import { root } from "./packages.mjs"

const { require = createRequire(import.meta.url) } = await install(".ci/compiler")
const tsc = join(dirname(require.resolve("typescript/package.json")), "bin/tsc")
const { status } = spawnSync(process.execPath, [tsc, "-b", ...process.argv.slice(2)], { cwd: root, stdio: "inherit" })
process.exit(status ?? 1)
