import * as effect from "@effect/eslint-plugin"
import tseslint from "typescript-eslint"

const outsideEffect = [
  { selector: "CallExpression[callee.object.name='Date'][callee.property.name='now']", message: "Use Clock." },
  { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: "Use Clock or DateTime." },
  { selector: "CallExpression[callee.object.name='Math'][callee.property.name='random']", message: "Use Random." },
  { selector: "CallExpression[callee.name=/^set(Timeout|Interval)$/]", message: "Use Effect.sleep or Schedule." },
  { selector: "MemberExpression[object.name='process'][property.name='env']", message: "Use Config." },
  {
    selector: "MemberExpression[object.name='Effect'][property.name=/^(make|unsafeMake)Semaphore$/]",
    message:
      "Use Permits of @effect-tinker/platform: these lose permits when a fiber is interrupted between two operations."
  }
]

/** The packages that each package may import; docs/architecture.md explains the order. */
const mayImport = {
  platform: [],
  tinker: [],
  tokenizer: ["platform"],
  weights: ["platform"],
  local: ["platform", "tinker", "tokenizer", "weights"],
  cookbook: ["platform", "tinker", "tokenizer"],
  agents: ["platform", "tinker", "tokenizer", "cookbook"],
  cluster: ["platform", "tinker", "tokenizer", "cookbook"],
  studio: ["platform", "tinker", "tokenizer", "cookbook"],
  cli: ["platform", "tinker", "tokenizer", "weights", "local", "cookbook", "agents", "cluster", "studio", "create"],
  promise: ["platform", "tinker", "tokenizer", "local", "cookbook"],
  effect4: ["promise"],
  create: []
}
const nameOf = (name) => ({ tinker: "effect-tinker", create: "create-effect-tinker" })[name] ?? `@effect-tinker/${name}`

const barrels = (names) =>
  names.map((name) => ({ name, message: "Import the module itself: a barrel costs every user its whole load time." }))

/** Packages of ours that another one must not import: data flows one way. */
const graph = (name) => ({
  group: Object.keys(mayImport).filter((other) => other !== name && !mayImport[name].includes(other))
    .flatMap((other) => [nameOf(other), `${nameOf(other)}/*`]),
  message: `Not among the packages that ${name} may import.`
})

const nodeOnly = {
  group: ["node:*", "undici", "@effect/platform-node*"],
  message: "Node only: belongs in a Node*.ts module."
}

/** Packages whose modules run anywhere, but for those named after Node. */
const portable = ["platform", "tinker", "tokenizer", "local", "cookbook", "agents", "cluster", "studio"]

export default tseslint.config(
  {
    ignores: [
      "**/dist",
      "**/build",
      "packages/*/assets",
      "**/node_modules",
      "scratchpad",
      "docs/api",
      "docs/site",
      "**/*.py",
      "**/.venv*"
    ]
  },
  tseslint.configs.base,
  ...effect.configs.dprint,
  {
    files: ["**/*.{ts,tsx,mts,mjs}"],
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "@typescript-eslint/array-type": ["error", { default: "generic", readonly: "generic" }],
      "@typescript-eslint/ban-ts-comment": "error",
      "@typescript-eslint/consistent-type-imports": ["error", { fixStyle: "separate-type-imports" }],
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/no-non-null-assertion": "error",
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      eqeqeq: "error",
      "no-debugger": "error",
      "no-fallthrough": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "@effect/dprint": ["error", {
        config: {
          indentWidth: 2,
          lineWidth: 120,
          semiColons: "asi",
          quoteStyle: "alwaysDouble",
          trailingCommas: "never",
          operatorPosition: "maintain",
          "arrowFunction.useParentheses": "force"
        }
      }]
    }
  },
  {
    files: [
      "packages/{platform,tinker,tokenizer,weights,local,cookbook,agents,cluster,studio,cli,promise,effect4,create}/src/**/*.ts"
    ],
    rules: { "no-console": "error", "no-restricted-syntax": ["error", ...outsideEffect] }
  },
  ...Object.keys(mayImport).map((name) => ({
    files: [`packages/${name}/src/**/*.ts`],
    rules: {
      "no-restricted-imports": ["error", {
        patterns: [graph(name)],
        paths: barrels(["effect", "@effect/platform", "@effect/platform-node", "@effect/cli"])
      }]
    }
  })),
  ...portable.map((name) => ({
    files: [`packages/${name}/src/**/*.ts`],
    ignores: ["packages/*/src/**/Node*.ts", "packages/*/src/internal/node/**/*.ts"],
    rules: {
      "no-restricted-imports": ["error", {
        patterns: [graph(name), nodeOnly],
        paths: barrels(["effect", "@effect/platform", "@effect/platform-node"])
      }]
    }
  }))
)
