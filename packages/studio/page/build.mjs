// Bundles the page into one script and one style sheet, which are shipped with the package: `node page/build.mjs`.
import { build } from "esbuild"
import { cpSync, mkdirSync } from "node:fs"
import { fileURLToPath } from "node:url"

const here = fileURLToPath(new URL(".", import.meta.url))
const out = fileURLToPath(new URL("../assets", import.meta.url))

mkdirSync(out, { recursive: true })
await build({
  entryPoints: { studio: `${here}main.tsx` },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
  tsconfigRaw: {}
})
cpSync(`${here}index.html`, `${out}/index.html`)
