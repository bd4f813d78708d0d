/**
 * Finds the native kernels of this platform and loads them into Node. Hand-written because nothing on the registry does it: libraries with fast products
 * of small matrices bring a runtime of their own (onnxruntime-node: 291 MB, and no access to our memory).
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import { createHash } from "node:crypto"
import { existsSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import type { Advance } from "./adamw.js"
import type { Precision, Values } from "./frozen.js"
import type { Native } from "./native.js"
import { nativeHashes } from "./nativeHashes.js"

/** Exports of the file; see `native/kernels.c`. */
interface Addon {
  readonly gemmOver: (memory: Float32Array, frame: Int32Array) => () => void
  readonly outsideOver: (memory: Float32Array, values: Values, format: number, frame: Int32Array) => () => void
  readonly panels: Native["panels"]
  readonly add: Native["add"]
  readonly adam: Advance
}

const isAddon = (loaded: unknown): loaded is Addon =>
  Predicate.isRecord(loaded) &&
  ["gemmOver", "outsideOver", "panels", "add", "adam"].every((name) => typeof loaded[name] === "function")

// A pointer to the memory, its length, and eleven integers.
const frameBytes = 64
const firstArgument = 4

/** Products with their arguments in a frame, which costs less than handing over one by one. */
const gemmOver = (addon: Addon, memory: Float32Array): ReturnType<Native["gemmOver"]> => {
  const frame = new Int32Array(new ArrayBuffer(frameBytes))
  const run = addon.gemmOver(memory, frame)
  return (a, aRow, aColumn, b, panel, c, cRow, m, n, k, accumulate) => {
    frame[firstArgument] = a
    frame[firstArgument + 1] = aRow
    frame[firstArgument + 2] = aColumn
    frame[firstArgument + 3] = b
    frame[firstArgument + 4] = panel
    frame[firstArgument + 5] = c
    frame[firstArgument + 6] = cRow
    frame[firstArgument + 7] = m
    frame[firstArgument + 8] = n
    frame[firstArgument + 9] = k
    frame[firstArgument + 10] = accumulate
    run()
    // read after the call, so that what it points to is alive until then
    return void memory.length
  }
}

const formats: Readonly<Record<Precision, number>> = { f32: 0, bf16: 1, f16: 2 }

// Two pointers with lengths, a format, an operation, and nine integers.
const outsideFrameBytes = 80
const operation = 9

/** The same for a matrix outside of the memory. */
const outsideOver =
  (addon: Addon, memory: Float32Array): ReturnType<Native["outsideOver"]> => (values, precision, inputs) => {
    const frame = new Int32Array(new ArrayBuffer(outsideFrameBytes))
    const run = addon.outsideOver(memory, values, formats[precision], frame)
    frame[operation + 8] = inputs
    return {
      multiply: (first, outputs, source, target, targetRow, rows, accumulate) => {
        frame[operation] = 0
        frame[operation + 1] = source
        frame[operation + 2] = inputs
        frame[operation + 3] = target
        frame[operation + 4] = targetRow
        frame[operation + 5] = rows
        frame[operation + 6] = first
        frame[operation + 7] = outputs
        frame[operation + 9] = accumulate
        run()
        return void (memory.length + values.length)
      },
      transpose: (first, outputs, target) => {
        frame[operation] = 1
        frame[operation + 3] = target
        frame[operation + 6] = first
        frame[operation + 7] = outputs
        run()
        return void (memory.length + values.length)
      }
    }
  }

/** Why kernels compute in WebAssembly. */
type Reason = string

const requireHere = createRequire(import.meta.url)

/**
 * The kernels of a file that has this hash. A file with another one is not run: it is of another version, or was changed.
 *
 * @internal
 */
export const loadNative = (path: string, hash: string): Either.Either<Native, Reason> =>
  Either.gen(function*() {
    const content = yield* Either.fromOption(
      Option.liftThrowable(readFileSync)(path),
      () => `${path} does not exist`
    )
    if (createHash("sha256").update(content).digest("hex") !== hash) {
      return yield* Either.left(`${path} is not the file that was published with this version`)
    }
    const loaded: unknown = Option.getOrUndefined(Option.liftThrowable(() => requireHere(path))())
    if (!Predicate.isRecord(loaded)) return yield* Either.left(`${path} cannot be loaded into this runtime`)
    // it exports nothing where it cannot run
    if (!isAddon(loaded)) return yield* Either.left("this processor lacks AVX2, FMA or F16C")
    const addon = loaded
    return {
      path,
      hash,
      gemmOver: (memory) => gemmOver(addon, memory),
      outsideOver: (memory) => outsideOver(addon, memory),
      panels: addon.panels,
      add: addon.add,
      adam: addon.adam
    }
  })

/** The file of the package that npm installs for this platform alone. */
const installed = (platform: string): Option.Option<string> =>
  Option.liftThrowable(() => requireHere.resolve(`@effect-tinker/native-${platform}/kernels.node`))()

/**
 * The kernels for a platform: of a directory, which only the sources have, or else of the package that npm installs. The
 * working directory is not looked at.
 *
 * @internal
 */
export const findNative = (
  directory: string,
  platform: string = `${process.platform}-${process.arch}`
): Either.Either<Native, Reason> => {
  const hash = nativeHashes[platform]
  if (hash === undefined) return Either.left(`there are none for ${platform}`)
  const ours = `${directory}${platform}.node`
  if (existsSync(ours)) return loadNative(ours, hash)
  return Option.match(installed(platform), {
    onNone: () => Either.left(`the package @effect-tinker/native-${platform} is not installed`),
    onSome: (path) => loadNative(path, hash)
  })
}
