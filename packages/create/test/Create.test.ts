import { Terminal } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Create } from "create-effect-tinker"
import { ConfigProvider, Effect, Layer, Mailbox, Option } from "effect"

const settings: Create.Settings = { version: "0.1.0", templates: "", interactive: false }

const nothing: Create.Given = {
  directory: Option.none(),
  start: Option.none(),
  framework: Option.none(),
  style: Option.none(),
  packageManager: Option.none(),
  yes: false,
  noInstall: true
}

const startedBy = (agent: string) =>
  Effect.withConfigProvider(ConfigProvider.fromMap(new Map(agent === "" ? [] : [["npm_config_user_agent", agent]])))

/** Somebody who presses keys, one after the other. */
const typing = (...keys: ReadonlyArray<string>) =>
  Layer.effect(
    Terminal.Terminal,
    Effect.map(Mailbox.make<Terminal.UserInput>(), (mailbox) => {
      for (const name of keys) {
        mailbox.unsafeOffer({
          input: name.length === 1 ? Option.some(name) : Option.none(),
          key: { name, ctrl: false, meta: false, shift: false }
        })
      }
      return Terminal.Terminal.of({
        columns: Effect.succeed(80),
        rows: Effect.succeed(24),
        isTTY: Effect.succeed(true),
        display: () => Effect.void,
        readInput: Effect.succeed(mailbox),
        readLine: Effect.succeed("")
      })
    })
  )

describe("Create", () => {
  it.effect("takes the defaults where nobody can be asked", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* Create.decide(nothing, settings), ["my-model", {
        name: "my-model",
        start: "chats",
        framework: "ai-sdk",
        style: "effect",
        packageManager: "npm",
        version: "0.1.0"
      }])
    }).pipe(startedBy(""), Effect.provide(NodeContext.layer)))

  it.effect("with --yes nobody is asked", () =>
    Effect.gen(function*() {
      const [, { start }] = yield* Create.decide({ ...nothing, yes: true }, { ...settings, interactive: true })
      assert.strictEqual(start, "chats")
    }).pipe(startedBy(""), Effect.provide([NodeContext.layer, typing()])))

  it.effect("--agent implies its start, and the directory names the package", () =>
    Effect.gen(function*() {
      const given = { ...nothing, directory: Option.some("deep/My-Desk"), framework: Option.some("mastra" as const) }
      const [directory, project] = yield* Create.decide(given, settings)
      assert.strictEqual(directory, "deep/My-Desk")
      assert.deepInclude(project, { name: "my-desk", start: "agent", framework: "mastra", style: "promise" })
    }).pipe(startedBy(""), Effect.provide(NodeContext.layer)))

  for (
    const [agent, manager] of [
      ["pnpm/10.20.0 npm/? node/v20", "pnpm"],
      ["bun/1.4.4 npm/? node/v24", "bun"],
      ["yarn/1.22.22 npm/? node/v20", "yarn"],
      ["npm/11.19.1 node/v20", "npm"],
      ["other/1.0", "npm"]
    ] as const
  ) {
    it.effect(`${agent.split(" ")[0]}: installs with ${manager}`, () =>
      Effect.gen(function*() {
        const [, { packageManager }] = yield* Create.decide(nothing, settings)
        assert.strictEqual(packageManager, manager)
      }).pipe(startedBy(agent), Effect.provide(NodeContext.layer)))
  }

  it.effect("a name that npm refuses is an error that says what a name is", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Create.decide({ ...nothing, directory: Option.some("a b") }, settings))
      assert.include(error.message, "the name of a package has lower-case letters")
    }).pipe(startedBy(""), Effect.provide(NodeContext.layer)))

  it.effect("asks for what was not named", () =>
    Effect.gen(function*() {
      const [directory, project] = yield* Create.decide(nothing, { ...settings, interactive: true })
      assert.strictEqual(directory, "desk")
      assert.deepInclude(project, { start: "agent", framework: "langgraph", style: "promise" })
    }).pipe(
      startedBy(""),
      // the name; the third start; the third framework
      Effect.provide([
        NodeContext.layer,
        typing("d", "e", "s", "k", "return", "down", "down", "return", "down", "down", "return")
      ])
    ))
})
