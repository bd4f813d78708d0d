import { assert, describe, it } from "@effect/vitest"
import { Either } from "effect"
import { createHash } from "node:crypto"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { adam, adamStep } from "../../src/internal/engine/adamw.js"
import type { Native } from "../../src/internal/engine/native.js"
import { nativeHashes } from "../../src/internal/engine/nativeHashes.js"
import { findNative, loadNative } from "../../src/internal/engine/NodeNative.js"
import { makeRandom } from "../../src/internal/engine/numbers.js"
import { nativeDirectory } from "../../src/NodeEngine.js"
import { native, randomArray } from "./support.js"

const platform = `${process.platform}-${process.arch}`

const napi = [
  "napi_create_function",
  "napi_create_string_utf8",
  "napi_get_cb_info",
  "napi_get_typedarray_info",
  "napi_get_value_int32",
  "napi_set_named_property",
  "napi_throw_range_error"
]

describe("native kernels", () => {
  const reasonOf = (found: Either.Either<Native, string>): string => Either.isLeft(found) ? found.left : assert.fail()

  it("are there for every platform that is named, with the hashes that are loaded", () => {
    for (const [name, hash] of Object.entries(nativeHashes)) {
      const content = readFileSync(`${nativeDirectory}${name}.node`)
      assert.strictEqual(createHash("sha256").update(content).digest("hex"), hash, name)
    }
  })

  it("of other systems and formats export the entry that Node looks for, and ask for nothing but Node's interface", () => {
    const magics: Readonly<Record<string, string>> = { linux: "7f454c46", darwin: "cffaedfe", win32: "4d5a" }
    for (const name of Object.keys(nativeHashes)) {
      const content = readFileSync(`${nativeDirectory}${name}.node`)
      const [system = ""] = name.split("-")
      assert.isTrue(content.toString("hex", 0, 4).startsWith(magics[system] ?? "?"), name)
      assert.isTrue(content.includes("napi_register_module_v1"), name)
      // the entry is what it exports; linkers for macOS name stubs after what they lead to
      const used = Array.from(
        content.toString("latin1").matchAll(/(?<![a-z0-9])napi_(?!register)[a-z_0-9]+?(?=__thunk|\W)/g)
      )
        .map(([symbol]) => symbol)
      assert.sameMembers(Array.from(new Set(used)), napi, name)
    }
  })

  it("are not loaded when there is none, or another file than the published one: the reason is said", () => {
    const folder = mkdtempSync(join(tmpdir(), "effect-tinker-kernels-"))
    const [own] = Object.keys(nativeHashes)
    assert.match(reasonOf(findNative(nativeDirectory, "plan9-mips")), /none for plan9-mips/)
    assert.match(reasonOf(findNative(`${folder}/`, own)), /package @effect-tinker\/native-.* is not installed/)
    assert.match(reasonOf(loadNative(`${folder}/none.node`, "")), /does not exist/)
    const changed = readFileSync(`${nativeDirectory}${own}.node`)
    changed[changed.length - 1] = 1 - (changed[changed.length - 1] ?? 0)
    writeFileSync(join(folder, `${own}.node`), changed)
    assert.match(reasonOf(findNative(`${folder}/`, own)), /not the file that was published/)
    rmSync(folder, { recursive: true })
  })
})

describe.skipIf(native === undefined)("native kernels of this machine", () => {
  const missing: Native = {
    path: "",
    hash: "",
    add: () => assert.fail(),
    adam: () => assert.fail(),
    outsideOver: () => assert.fail(),
    panels: () => assert.fail(),
    gemmOver: () => assert.fail()
  }
  const { adam: advance, add, gemmOver } = native ?? missing

  it("were built from the source beside them", () => {
    const source = readFileSync(new URL("../../native/kernels.c", import.meta.url))
    const addon: unknown = createRequire(import.meta.url)(`${nativeDirectory}${platform}.node`)
    assert.propertyVal(addon, "source", createHash("sha256").update(source).digest("hex"), "npm run native")
  })

  it("products that reach outside of the memory are refused, and change nothing", () => {
    const memory = new Float32Array(1024).fill(1)
    const gemm = gemmOver(memory)
    gemm(0, 8, 1, 0, 64, 1016, 8, 1, 8, 8, 0)
    const before = memory.slice()
    const [a, aRow, aColumn, b, panel, c, cRow, m, n, k] = [0, 8, 1, 0, 64, 512, 8, 4, 8, 8] as const
    const refused: ReadonlyArray<Parameters<typeof gemm>> = [
      [1000, aRow, aColumn, b, panel, c, cRow, m, n, k, 0],
      [-1, aRow, aColumn, b, panel, c, cRow, m, n, k, 0],
      [a, 1024, aColumn, b, panel, c, cRow, m, n, k, 0],
      [a, aRow, 1024, b, panel, c, cRow, m, n, k, 0],
      [a, aRow, aColumn, 1000, panel, c, cRow, m, n, k, 0],
      [a, aRow, aColumn, b, 1024, c, cRow, m, 16, k, 0],
      [a, aRow, aColumn, b, panel, 1017, cRow, 1, n, k, 0],
      [a, aRow, aColumn, b, panel, -8, cRow, m, n, k, 0],
      [a, aRow, aColumn, b, panel, c, 1024, m, n, k, 0],
      [a, -8, aColumn, b, panel, c, cRow, m, n, k, 0],
      [a, aRow, aColumn, b, panel, c, cRow, m, 12, k, 0],
      [a, aRow, aColumn, b, panel, c, cRow, 0, n, k, 0]
    ]
    for (const args of refused) assert.throws(() => gemm(...args), RangeError, "outside of the memory", args.join(" "))
    assert.deepStrictEqual(memory, before)
  })

  it("work on memory that threads share", () => {
    const { buffer } = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true })
    const memory = new Float32Array(buffer).fill(2)
    gemmOver(memory)(0, 8, 1, 0, 64, 1000, 8, 2, 8, 8, 0)
    assert.deepStrictEqual(memory.slice(999, 1017), Float32Array.of(2, ...Array.from({ length: 16 }, () => 32), 2))
  })

  it("sums and steps of the optimizer have the bits of those in JavaScript, for any range", () => {
    const { next } = makeRandom(1)
    for (const size of [1, 3, 4, 7, 8, 30, 129]) {
      const [from, to] = [Math.floor(size / 3), size - Math.floor(size / 5)]
      const gradient = randomArray(size, next, 1e-3)
      // what never had a gradient, also with an epsilon of zero
      gradient.fill(0, 0, size / 2)
      for (const eps of [0, 1e-12]) {
        const settings = { learningRate: 1e-3, beta1: 0.9, beta2: 0.95, eps, weightDecay: 0.01, gradClipNorm: 0.01 }
        const start = randomArray(size, next)
        const [here, there] = [adam, advance].map((by) => {
          const values = start.slice()
          const moments = { first: new Float32Array(size), second: new Float32Array(size), steps: 0 }
          for (let step = 0; step < 3; step++) adamStep(values, gradient, moments, settings, 0.5, by)(from, to)
          return { values, moments }
        })
        assert.deepStrictEqual(there, here)
      }
      const target = randomArray(size, next)
      const expected = target.map((value, i) => i < from || i >= to ? value : value + (gradient[i] ?? NaN))
      add(target, gradient, from, to)
      assert.deepStrictEqual(target, expected)
    }
  })

  it("arrays that are too short or of another type are refused", () => {
    const floats = new Float32Array(4)
    const others: ReadonlyArray<() => void> = [
      () => add(floats, new Float32Array(3), 0, 4),
      () => add(floats, floats, 0, 5),
      () => add(floats, floats, -1, 4),
      () => add(floats, floats, 3, 2),
      () => advance(floats, floats, floats, floats, new Float64Array(9), 0, 4),
      () => advance(floats, floats, new Float32Array(3), floats, new Float64Array(10), 0, 4),
      // @ts-expect-error not floats
      () => add(floats, new Float64Array(4), 0, 4),
      // @ts-expect-error no array
      () => add(floats, "none", 0, 4)
    ]
    for (const other of others) assert.throws(other, RangeError)
  })
})
