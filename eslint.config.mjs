import * as effect from "@effect/eslint-plugin"
import tseslint from "typescript-eslint"

const outsideEffect = [
  { selector: "CallExpression[callee.object.name='Date'][callee.property.name='now']", message: "Use Clock." },
  { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: "Use Clock or DateTime." },
  { selector: "CallExpression[callee.object.name='Math'][callee.property.name='random']", message: "Use Random." },
  { selector: "CallExpression[callee.name=/^set(Timeout|Interval)$/]", message: "Use Effect.sleep or Schedule." },
  { selector: "MemberExpression[object.name='process'][property.name='env']", message: "Use Config." }
]

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
    files: ["packages/{tinker,tokenizer,local,cookbook,agents,cluster,studio,cli,promise,effect4}/src/**/*.ts"],
    rules: {
      "no-console": "error",
      "no-restricted-syntax": ["error", ...outsideEffect],
      "no-restricted-imports": ["error", {
        paths: ["effect", "@effect/platform", "@effect/platform-node", "@effect/cli"].map((name) => ({
          name,
          message: "Import the module itself: a barrel costs every user its whole load time."
        }))
      }]
    }
  },
  {
    // Portable code: Node's own modules appear in Node*.ts, in the CLI and in tests only.
    files: ["packages/{tinker,tokenizer,local,cookbook,agents,cluster,studio}/src/**/*.ts"],
    ignores: ["packages/*/src/**/Node*.ts", "packages/*/src/internal/node/**/*.ts"],
    rules: {
      "no-restricted-imports": ["error", {
        patterns: [{
          group: ["node:*", "undici", "@effect/platform-node*"],
          message: "Node only: belongs in a Node*.ts module."
        }],
        paths: ["effect", "@effect/platform", "@effect/platform-node"].map((name) => ({
          name,
          message: "Import the module itself: a barrel costs every user its whole load time."
        }))
      }]
    }
  }
)
