// A registry on the loopback interface, until its parent ends: `node serve.mjs DIRECTORY UPSTREAM`. Our packages are its own;
// all others come from the registry that this machine uses. The first line it prints is its address.
import { createRequire } from "node:module"
import { join } from "node:path"

const [directory, upstream] = process.argv.slice(2)
const { runServer } = createRequire(import.meta.url)("verdaccio")

const own = { access: "$all", publish: "$all", unpublish: "$all" }
const app = await runServer({
  // the place that paths are relative to
  self_path: join(directory, "config.yaml"),
  storage: join(directory, "storage"),
  auth: { htpasswd: { file: join(directory, "htpasswd"), max_users: -1 } },
  uplinks: { upstream: { url: upstream, cache: false, timeout: "60s", maxage: "30m" } },
  packages: {
    "@effect-tinker/*": own,
    "effect-tinker": own,
    "create-effect-tinker": own,
    "**": { access: "$all", proxy: "upstream" }
  },
  // the weights of local/chat are larger than a package usually is
  max_body_size: "200mb",
  web: { enable: false },
  log: { type: "stdout", format: "pretty", level: "fatal" }
})
app.listen(0, "127.0.0.1", function() {
  process.stdout.write(`http://127.0.0.1:${this.address().port}/\n`)
})
// whoever started it has ended
process.stdin.resume().once("end", () => process.exit(0))
