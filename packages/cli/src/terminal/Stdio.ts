/**
 * The standard streams as commands see them: whether one is a terminal, its width, and its colours.
 *
 * @since 0.1.0
 */
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"

/**
 * A stream to write to, and whether it is a terminal.
 *
 * @since 0.1.0
 * @category models
 */
export interface OutputStream {
  readonly isTTY: boolean
  /** Infinite when it is not a terminal. */
  readonly columns: number
  readonly colour: boolean
  readonly write: (text: string) => Effect.Effect<void>
}

/**
 * The standard streams of the process.
 *
 * @since 0.1.0
 * @category services
 */
export class Stdio extends Context.Tag("@effect-tinker/cli/Stdio")<Stdio, {
  readonly stdin: {
    readonly isTTY: boolean
    /** Everything up to the end of the input. */
    readonly text: Effect.Effect<string>
  }
  readonly stdout: OutputStream
  readonly stderr: OutputStream
  /** Runs an effect that Ctrl-C interrupts instead of the program; `None` when it did. */
  readonly breakable: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<Option.Option<A>, E, R>
}>() {}

/** Handlers of the next interrupt, innermost last. */
const takers: Array<() => void> = []

/**
 * Passes an interrupt of the process to the innermost `breakable`; false when there is none.
 *
 * @internal
 */
export const interrupted = (): boolean => {
  const taker = takers.pop()
  taker?.()
  return taker !== undefined
}

const breakable = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Option.Option<A>, E, R> => {
  const broken = Effect.async<Option.Option<A>>((resume) => {
    const taker = () => resume(Effect.succeedNone)
    takers.push(taker)
    return Effect.sync(() => {
      const at = takers.lastIndexOf(taker)
      if (at !== -1) takers.splice(at, 1)
    })
  })
  return Effect.raceFirst(broken, Effect.asSome(effect))
}

const environment = Config.all({
  noColor: Config.option(Config.string("NO_COLOR")),
  term: Config.option(Config.string("TERM"))
})

const readStdin = Effect.async<string>((resume) => {
  let text = ""
  process.stdin.setEncoding("utf8")
  process.stdin.on("data", (chunk) => {
    text += String(chunk)
  })
  process.stdin.on("error", () => resume(Effect.succeed(text)))
  process.stdin.on("end", () => resume(Effect.succeed(text)))
})

/**
 * The streams of this process, but for those given.
 *
 * @internal
 */
export const layer = (given: {
  readonly stdin?: string | undefined
  readonly stdout?: OutputStream["write"] | undefined
  readonly stderr?: OutputStream["write"] | undefined
} = {}): Layer.Layer<Stdio> =>
  Layer.effect(
    Stdio,
    Effect.gen(function*() {
      const { noColor, term } = yield* environment
      // https://no-color.org: any value but the empty one
      const mayColour = !Option.exists(noColor, (value) => value !== "") && !Option.contains(term, "dumb")
      const output = (stream: NodeJS.WriteStream, write: OutputStream["write"] | undefined): OutputStream => {
        const isTTY = write === undefined && stream.isTTY === true
        return {
          isTTY,
          get columns() {
            return isTTY ? stream.columns || 80 : Number.POSITIVE_INFINITY
          },
          colour: isTTY && mayColour,
          write: write ?? ((text) =>
            Effect.async<void>((resume) => {
              // A reader that has left (`| head`) is not our failure; bin.ts ends the process quietly.
              stream.write(text, () => resume(Effect.void))
            }))
        }
      }
      return {
        stdin: given.stdin === undefined
          ? { isTTY: process.stdin.isTTY === true, text: readStdin }
          : { isTTY: false, text: Effect.succeed(given.stdin) },
        stdout: output(process.stdout, given.stdout),
        stderr: output(process.stderr, given.stderr),
        breakable
      }
    }).pipe(Effect.orDie)
  )
