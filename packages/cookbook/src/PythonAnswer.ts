/**
 * Programs in Python as answers: finds the code in a text, and runs it against tests in the `Sandbox`.
 *
 * Assertions run in the process of the program they test. A program that ends before them, whatever its exit code, has not
 * passed: after the last one a number is printed that was drawn for this run. A program that looks for it in its own memory
 * can still find it; where that matters, compare outputs with `passesInputs`.
 *
 * @since 0.2.0
 */
import * as Entropy from "@effect-tinker/platform/Entropy"
import * as Effect from "effect/Effect"
import * as Sandbox from "./Sandbox.js"

/**
 * The code of an answer: the first block marked as Python, or else the last block of all, or the whole text.
 *
 * @since 0.2.0
 * @category combinators
 */
export const find = (answer: string): string => {
  const marked = /```python\s*\n([\s\S]*?)\n```/.exec(answer)?.[1]
  if (marked !== undefined) return marked.trim()
  return (Array.from(answer.matchAll(/```(?:[\p{L}\p{N}_]*)\s*\n([\s\S]*?)\n```/gu), (match) => match[1]).at(-1) ??
    answer)
    .trim()
}

const decoder = new TextDecoder()

const python = (program: string, stdin: string, limits: Sandbox.Limits | undefined) =>
  Effect.flatMap(Sandbox.Sandbox, (sandbox) =>
    sandbox.run({
      command: ["python3", "-I", "program.py"],
      files: { "program.py": program },
      stdin,
      limits: { time: "15 seconds", ...limits }
    }))

/**
 * Whether a program runs to the end of its tests, which are statements that fail by raising an error.
 *
 * @since 0.2.0
 * @category grading
 */
export const passes: (
  code: string,
  tests: string,
  limits?: Sandbox.Limits
) => Effect.Effect<boolean, Sandbox.SandboxUnavailable, Sandbox.Sandbox> = Effect.fnUntraced(
  function*(code, tests, limits) {
    const passed = yield* Entropy.hex(16)
    const program = `${code}\n\n${tests}\n\nprint("\\n" + ${JSON.stringify(passed)})\n`
    const { exitCode, stdout } = yield* python(program, "", limits)
    return exitCode === 0 && decoder.decode(stdout).trimEnd().endsWith(`\n${passed}`)
  },
  Effect.catchTag("SandboxFailed", () => Effect.succeed(false))
)

/**
 * Output a program must print for an input.
 *
 * @since 0.2.0
 * @category models
 */
export interface InputTest {
  readonly input: string
  readonly output: string
}

/**
 * Whether a program prints what it should for every input, up to white space around it.
 *
 * @since 0.2.0
 * @category grading
 */
export const passesInputs = (
  code: string,
  tests: ReadonlyArray<InputTest>,
  limits?: Sandbox.Limits
): Effect.Effect<boolean, Sandbox.SandboxUnavailable, Sandbox.Sandbox> =>
  tests.length === 0 ?
    Effect.succeed(false) :
    Effect.every(tests, ({ input, output }) =>
      python(code, input, limits).pipe(
        Effect.map(({ exitCode, stdout }) => exitCode === 0 && decoder.decode(stdout).trim() === output.trim()),
        Effect.catchTag("SandboxFailed", () => Effect.succeed(false))
      ))
