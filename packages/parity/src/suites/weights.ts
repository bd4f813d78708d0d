/**
 * `--weights`: merged models and PEFT adapters of tiny random models, ours beside the Python cookbook's.
 */
import type { SafetensorsHeader } from "@effect-tinker/weights"
import { Merge, Peft, Safetensors } from "@effect-tinker/weights"
import { FileSystem, Path } from "@effect/platform"
import { Console, Effect, Schema } from "effect"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"

const name = "weights"

const Made = Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Array(Schema.String) }))

interface Tally {
  tensors: number
  values: number
  /** Values that differ, and the largest distance in units of the last place. */
  rounded: number
  worst: number
}

const widths: Readonly<Record<string, number>> = { F32: 32, F8_E4M3: 8 }

const integers = (dtype: string, bytes: Uint8Array): Int32Array | Int16Array | Int8Array => {
  const copy = new Uint8Array(bytes)
  if (dtype === "F8_E4M3") return new Int8Array(copy.buffer)
  return dtype === "F32" ? new Int32Array(copy.buffer) : new Int16Array(copy.buffer)
}

/** Distance of two floats given by their bits, in units of the last place. */
const distance = (a: number, b: number, width: number): number => {
  const order = (bits: number) => bits < 0 ? -(bits & (2 ** (width - 1) - 1)) : bits
  return Math.abs(order(a) - order(b))
}

const scratch = new DataView(new ArrayBuffer(4))

/** A float given by its bits. */
const valueOf = (dtype: string, bits: number): number => {
  if (dtype === "F16") {
    const exponent = (bits >>> 10) & 0x1f
    const fraction = (bits & 0x3ff) / 1024
    const size = exponent === 0 ? fraction * 2 ** -14 : (1 + fraction) * 2 ** (exponent - 15)
    return bits < 0 ? -size : size
  }
  scratch.setInt32(0, dtype === "BF16" ? bits << 16 : bits)
  return scratch.getFloat32(0)
}

/** What the order of a float32 sum may move a weight by, where it decides no rounding: weights here are about 0.1. */
const negligible = 1e-7

const tensorsOf = Effect.fnUntraced(function*(directory: string) {
  const path = yield* Path.Path
  const all = new Map<
    string,
    { readonly file: Safetensors.SafetensorsFile; readonly info: SafetensorsHeader.TensorInfo }
  >()
  for (const shard of yield* Safetensors.shardNames(directory)) {
    const file = yield* Safetensors.open(path.join(directory, shard))
    for (const info of file.tensors) all.set(info.name, { file, info })
  }
  return all
})

const compare = Effect.fnUntraced(function*(label: string, ours: string, theirs: string, tally: Tally, ulps: number) {
  const a = yield* tensorsOf(ours)
  const b = yield* tensorsOf(theirs)
  const differences: Array<string> = []
  const names = new Set([...a.keys(), ...b.keys()])
  for (const tensor of names) {
    const own = a.get(tensor)
    const other = b.get(tensor)
    if (own === undefined || other === undefined) {
      differences.push(`${label}: ${tensor} is only ${own === undefined ? "theirs" : "ours"}`)
      continue
    }
    if (own.info.dtype !== other.info.dtype || own.info.shape.join() !== other.info.shape.join()) {
      differences.push(`${label}: ${tensor} has another type or shape`)
      continue
    }
    tally.tensors++
    const x = integers(own.info.dtype, yield* own.file.read(own.info.start, own.info.bytes))
    const y = integers(other.info.dtype, yield* other.file.read(other.info.start, other.info.bytes))
    tally.values += x.length
    const width = widths[own.info.dtype] ?? 16
    let worst = 0
    for (let i = 0; i < x.length; i++) {
      const [mine = 0, theirs = 0] = [x[i], y[i]]
      if (mine === theirs) continue
      tally.rounded++
      // A sum that nearly cancels has many units in its last place and is as close as any other.
      if (width > 8 && Math.abs(valueOf(own.info.dtype, mine) - valueOf(own.info.dtype, theirs)) <= negligible) continue
      worst = Math.max(worst, distance(mine, theirs, width))
    }
    tally.worst = Math.max(tally.worst, worst)
    if (worst > ulps) differences.push(`${label}: ${tensor} differs by ${worst} ulp`)
  }
  return differences
})

/** JSON with its keys in order. */
const canonical = (value: unknown): string =>
  JSON.stringify(
    value,
    (_, inner) =>
      typeof inner === "object" && inner !== null && !Array.isArray(inner)
        ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => a < b ? -1 : 1))
        : inner
  )

export const weights: Suite = {
  name,
  summary: "merged models and PEFT adapters equal to those of the Python cookbook, tensor by tensor",
  run: () =>
    Effect.gen(function*() {
      const python = yield* Python.makeCookbook
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const directory = yield* fs.makeTempDirectoryScoped({ prefix: "weights-" })
      const made = yield* Schema.decode(Made)(
        (yield* python.run("weights_vectors", directory)).trim().split("\n").at(-1) ?? ""
      )
      const differences: Array<string> = []
      const merged: Tally = { tensors: 0, values: 0, rounded: 0, worst: 0 }
      const peft: Tally = { tensors: 0, values: 0, rounded: 0, worst: 0 }
      for (const [family, theirs] of Object.entries(made)) {
        const at = (part: string) => path.join(directory, family, part)
        const inputs = { base: at("base"), adapter: at("adapter") }
        const experts = family.endsWith("-fp8") ? "fp8" : undefined
        yield* Merge.run({ ...inputs, output: at("our-merged"), tiedEmbeddings: "merge", experts })
        if (experts !== undefined) {
          const [own, other] = yield* Effect.forEach(["our-merged", "merged"], (kind) =>
            Effect.map(
              fs.readFileString(path.join(at(kind), "config.json")),
              (text) => canonical(JSON.parse(text))
            ))
          if (own !== other) differences.push(`${family} merged: config.json\n${own}\n${other}`)
        }
        differences.push(...yield* compare(`${family} merged`, at("our-merged"), at("merged"), merged, 1))
        const converted = yield* Effect.either(Peft.convert({ ...inputs, output: at("our-peft") }))
        if (converted._tag === "Right" !== theirs.includes("peft")) {
          differences.push(`${family} peft: only one side refuses it`)
        } else if (converted._tag === "Right") {
          differences.push(...yield* compare(`${family} peft`, at("our-peft"), at("peft"), peft, 0))
          const configs = yield* Effect.forEach(["our-peft", "peft"], (kind) =>
            Effect.map(fs.readFileString(path.join(at(kind), "adapter_config.json")), (text) =>
              JSON.stringify(
                Object.entries(JSON.parse(text)).sort(([a], [b]) =>
                  a < b ? -1 : 1
                )
              )))
          if (configs[0] !== configs[1]) differences.push(`${family} peft: adapter_config.json\n${configs.join("\n")}`)
        }
      }
      yield* Console.log(
        JSON.stringify({ suite: name, families: Object.keys(made).length, merged, peft, different: differences.length })
      )
      if (differences.length > 0) return yield* new Differs({ suite: name, differences })
    }).pipe(
      Effect.scoped,
      Effect.catchTags({
        ParseError: (error) => new Differs({ suite: name, differences: [`python: ${error.message}`] }),
        SystemError: (error) => new Differs({ suite: name, differences: [`files: ${error.message}`] }),
        BadArgument: (error) => new Differs({ suite: name, differences: [`files: ${error.message}`] }),
        InvalidFile: (error) => new Differs({ suite: name, differences: [`ours: ${error.message}`] }),
        AdapterMismatch: (error) => new Differs({ suite: name, differences: [`ours: ${error.message}`] }),
        UnsupportedFormat: (error) => new Differs({ suite: name, differences: [`ours: ${error.message}`] }),
        OutputExists: (error) => new Differs({ suite: name, differences: [`ours: ${error.message}`] })
      })
    )
}
