import { Args, Command, Options } from "@effect/cli"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, FastCheck, Option } from "effect"
import * as Grammar from "../src/internal/grammar.js"
import { texts } from "../src/internal/options.js"
import * as CommandLine from "./fixtures/commandLine.js"

interface Said {
  readonly stop: ReadonlyArray<string>
  readonly system: Option.Option<string>
  readonly count: number
  readonly loud: boolean
  readonly prompt: Option.Option<string>
}

const make = (onSay: (said: Said, to: Option.Option<string>) => void) => {
  const root = Command.make("tinker", {
    to: Options.text("to").pipe(Options.withDescription("Whom to address."), Options.optional)
  })
  const say = Command.make("say", {
    stop: texts("stop", "Stop at this text"),
    system: Options.text("system").pipe(Options.withDescription("Instructions."), Options.optional),
    count: Options.integer("count").pipe(Options.withAlias("n"), Options.withDefault(1)),
    loud: Options.boolean("loud").pipe(Options.withAlias("l"), Options.withDescription("Shout.")),
    prompt: Args.text({ name: "prompt" }).pipe(Args.withDescription("What to say."), Args.optional)
  }, (said) => Effect.map(root, ({ to }) => onSay(said, to))).pipe(Command.withDescription("Say something."))
  const group = Command.make("list").pipe(Command.withSubcommands([Command.make("all"), Command.make("some")]))
  return {
    grammar: Grammar.readTree(root.descriptor, "Talks.", [say.descriptor, group.descriptor]),
    execute: Command.run(root.pipe(Command.withSubcommands([say, group])), {
      name: "tinker",
      version: "1",
      executable: "tinker"
    })
  }
}

const { grammar } = make(() => {})

/** What a command line comes to when the parser has read it as well. */
const parse = Effect.fnUntraced(function*(...words: ReadonlyArray<string>) {
  let found: (Said & { readonly to: Option.Option<string> }) | undefined
  const { execute, grammar } = make((said, to) => {
    found = { ...said, to }
  })
  const line = yield* CommandLine.read(grammar, words)
  assert(line._tag === "Run")
  yield* execute(["node", "tinker", ...line.words]).pipe(Effect.provide(NodeContext.layer))
  assert(found !== undefined)
  return found
})

const wrong = (...words: ReadonlyArray<string>) =>
  Either.match(CommandLine.read(grammar, words), {
    onLeft: ({ advice, exitCode, what }) => {
      assert.strictEqual(exitCode, 2)
      return `${what} | ${advice}`
    },
    onRight: () => assert.fail("not refused")
  })

describe("CommandLine", () => {
  it.effect("text that begins with a dash is an argument, wherever options stand", () =>
    Effect.gen(function*() {
      for (const prompt of ["-", "-5 degrees", "---", "-> there", "--not an option", "-1", "--"]) {
        const lines = [["say", "--", prompt], ["say", "-n", "2", "--", prompt]]
        if (prompt !== "--") lines.push(["say", prompt, "-n", "2"], ["say", "-n", "2", prompt], ["say", prompt])
        for (const line of lines) assert.deepStrictEqual((yield* parse(...line)).prompt, Option.some(prompt))
      }
      assert.deepStrictEqual((yield* parse("say", "--", "--help")).prompt, Option.some("--help"))
    }))

  it("a group that has a usual command stands for it when it is alone", () => {
    const root = Command.make("tinker")
    const all = Command.make("all", { long: Options.boolean("long") })
    const group = Command.make("list").pipe(Command.withSubcommands([all, Command.make("some")]))
    const usual = Grammar.readTree(root.descriptor, "Lists.", [group.descriptor], { list: "all" })
    const words = (...given: ReadonlyArray<string>) =>
      Either.match(CommandLine.read(usual, given), {
        onLeft: ({ what }) => what,
        onRight: (line) => line._tag === "Run" ? line.words.join(" ") : line._tag
      })
    assert.strictEqual(words("list"), "list all")
    assert.strictEqual(words("list", "--long"), "list all --long")
    assert.strictEqual(words("list", "some"), "list some")
    assert.strictEqual(words("list", "--help"), "Help")
    assert.strictEqual(words("list", "none"), "There is no command `tinker list none`")
  })

  it("the name of a usual command may be left out before what it takes", () => {
    const root = Command.make("tinker")
    const file = Command.make("file", { path: Args.text({ name: "path" }), to: Options.text("to") })
    const group = Command.make("send").pipe(Command.withSubcommands([file, Command.make("all")]))
    const usual = Grammar.readTree(root.descriptor, "Sends.", [group.descriptor], { send: "file" })
    const words = (...given: ReadonlyArray<string>) =>
      Either.match(CommandLine.read(usual, given), {
        onLeft: ({ what }) => what,
        onRight: (line) => line._tag === "Run" ? line.words.join(" ") : line._tag
      })
    assert.strictEqual(words("send", "a.txt", "--to", "me"), "send file --to me -- a.txt")
    assert.strictEqual(words("send", "--to", "me", "a.txt"), "send file --to me -- a.txt")
    assert.strictEqual(words("send", "file", "all", "--to", "me"), "send file --to me -- all")
    assert.strictEqual(words("send", "all"), "send all")
    assert.strictEqual(words("send", "--to", "me"), "<path> is missing")
  })

  it.effect("an option given twice has its last value, one that may be repeated has all", () =>
    Effect.gen(function*() {
      const said = yield* parse("say", "-n", "1", "--stop", "\n", "--count=3", "--stop", " x ", "--loud", "--loud=no")
      assert.strictEqual(said.count, 3)
      assert.deepStrictEqual(said.stop, ["\n", " x "])
      assert.isFalse(said.loud)
    }))

  it.effect("options of the program may stand anywhere, and their values may be names of commands", () =>
    Effect.gen(function*() {
      for (
        const line of [["--to", "list", "say", "x"], ["say", "--to=list", "x"], ["say", "x", "--to", "list"]]
      ) {
        const { prompt, to } = yield* parse(...line)
        assert.deepStrictEqual([to, prompt], [Option.some("list"), Option.some("x")])
      }
    }))

  it.effect("short options go in one word, with a value at its end", () =>
    Effect.gen(function*() {
      const said = yield* parse("say", "-ln3", "x")
      assert.deepStrictEqual([said.loud, said.count, said.prompt], [true, 3, Option.some("x")])
    }))

  it.effect.prop("whatever the values are, the parser takes them as they were given", {
    system: FastCheck.string(),
    stop: FastCheck.array(FastCheck.string(), { maxLength: 3 }),
    to: FastCheck.oneof(FastCheck.string(), FastCheck.constantFrom("say", "list", "--", "--stop", "")),
    prompt: FastCheck.oneof(FastCheck.string(), FastCheck.constantFrom("say", "--", "--loud", "-l", "--help"))
  }, ({ prompt, stop, system, to }) =>
    Effect.gen(function*() {
      const said = yield* parse(
        "--to",
        to,
        "say",
        "--system",
        system,
        ...stop.flatMap((text) => ["--stop", text]),
        "--",
        prompt
      )
      assert.deepStrictEqual(
        [said.to, said.system, said.stop, said.prompt],
        [Option.some(to), Option.some(system), stop, Option.some(prompt)]
      )
    }), { fastCheck: { numRuns: 50 } })

  it("what is wrong is named, and what was probably meant", () => {
    assert.strictEqual(wrong("sai"), "There is no command `tinker sai` | Did you mean `tinker say`?")
    assert.strictEqual(
      wrong("list", "everything"),
      "There is no command `tinker list everything` | There is: all, some. See `tinker list --help`."
    )
    assert.strictEqual(wrong("say", "--lout"), "There is no option --lout of `tinker say` | Did you mean --loud?")
    assert.strictEqual(
      wrong("say", "--bogus"),
      "There is no option --bogus of `tinker say` | Write -- before text that begins with a dash. See `tinker say --help`."
    )
    assert.strictEqual(wrong("--bogus"), "There is no option --bogus | See `tinker --help`.")
    assert.strictEqual(wrong("say", "--count"), "--count requires a value | It takes an integer.")
    assert.strictEqual(wrong("say", "-n", "x"), "--count must be an integer, not \"x\" | See `tinker say --help`.")
    assert.strictEqual(wrong("say", "--loud=x"), "--loud takes no value | See `tinker say --help`.")
    assert.strictEqual(wrong("say", "a", "b"), "Unexpected argument \"b\" | See `tinker say --help`.")
  })

  it("a group alone, help and version are not run", () => {
    const tag = (...words: ReadonlyArray<string>) =>
      Either.getOrThrow(Either.map(CommandLine.read(grammar, words), ({ _tag }) => _tag))
    assert.deepStrictEqual([tag(), tag("list"), tag("say", "x", "-h"), tag("help", "say")], [
      "Help",
      "Help",
      "Help",
      "Help"
    ])
    assert.deepStrictEqual([tag("-V"), tag("say", "--version")], ["Version", "Version"])
    assert.strictEqual(tag("--completions", "fish"), "Completions")
  })

  it("a line asks for the one command that it names, and for nothing where it needs nothing", () => {
    const asked = (...words: ReadonlyArray<string>) => CommandLine.readAsking(grammar, words).asked
    assert.deepStrictEqual(asked("say", "list"), ["say"])
    assert.deepStrictEqual(asked("help", "say"), ["say", "Options"])
    assert.deepStrictEqual(asked("say", "--loud", "x"), ["say"])
    // an option of the program, whose value is not the command
    assert.deepStrictEqual(asked("--to", "list", "--log-level", "debug", "--to=list", "say"), ["Options", "say"])
    assert.deepStrictEqual(asked("say", "x", "--to", "list"), ["say", "Options"])
    for (const words of [["--version"], ["-V"], ["--completions", "zsh"], ["--log-level", "x"]]) {
      assert.deepStrictEqual(asked(...words), [])
    }
    for (const words of [[], ["help"], ["--help"], ["--", "say"]]) assert.deepStrictEqual(asked(...words), ["Commands"])
  })

  it("the grammar has names, descriptions and order of the tree", () => {
    const say = grammar.commands.get("say")
    assert(say !== undefined)
    assert.strictEqual(say.description, "Say something.")
    assert.deepStrictEqual(say.options.map(({ name }) => name), ["--stop", "--system", "--count", "--loud"])
    assert.deepStrictEqual(say.options.find(({ name }) => name === "--loud"), {
      name: "--loud",
      names: ["-l", "--loud"],
      takes: undefined,
      choices: [],
      repeated: false,
      description: "Shout."
    })
    assert.deepStrictEqual(say.arguments, [
      { name: "<prompt>", optional: true, repeated: false, description: "What to say." }
    ])
    assert.deepStrictEqual(Array.from(grammar.commands.get("list")?.commands.keys() ?? []), ["all", "some"])
  })
})
