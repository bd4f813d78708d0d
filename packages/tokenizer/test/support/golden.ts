/**
 * What Jinja2 made of our conversations: see `packages/parity/python/golden_templates.py`.
 */
import { readFileSync } from "node:fs"

const read = (name: string) => readFileSync(new URL(`../golden/${name}`, import.meta.url), "utf8")

export interface Conversation {
  readonly messages: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly tools?: ReadonlyArray<unknown>
}

export interface Render {
  readonly text?: string
  readonly error?: string
}

export const cases: {
  readonly conversations: Readonly<Record<string, Conversation>>
  readonly snippets: Readonly<Record<string, readonly [source: string, variables: Readonly<Record<string, unknown>>]>>
} = JSON.parse(read("cases.json"))

export const renders: {
  readonly snippets: Readonly<Record<string, Render>>
  /** Template → conversation → flags. */
  readonly templates: Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, Render>>>>>>
} = JSON.parse(read("renders.json"))

/** The flags of each render, as the script names them. */
export const flags = {
  plain: {},
  generate: { addGenerationPrompt: true },
  "generate, thinking off": { addGenerationPrompt: true, variables: { enable_thinking: false } },
  "generate, thinking on": { addGenerationPrompt: true, variables: { enable_thinking: true } }
} as const

export type Flags = keyof typeof flags

export const flagNames: ReadonlyArray<Flags> = ["plain", "generate", "generate, thinking off", "generate, thinking on"]

/** When the script's clock stands. */
export const noon = 12 * 60 * 60 * 1000
