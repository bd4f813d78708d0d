/** The scorers of `autoevals` with the types that they have there: the compiler says whether they fit. */
import { Environment, Scorer } from "@effect-tinker/cookbook"
import { ExactMatch, Levenshtein, NumericDiff } from "autoevals"
import type { Scorers } from "../utils/scorers.js"

export const scorers: Scorers = { ExactMatch, Levenshtein, NumericDiff }

const capitals = [{ land: "Norway", city: "Oslo" }] as const

const question = ({ land }: typeof capitals[number]) => `What is the capital of ${land}?`

const args = ({ city }: typeof capitals[number], output: string) => ({ output, expected: city })

export const rewarded = Environment.problems(capitals, { question, reward: Scorer.reward(Levenshtein, args) })

export const scored = Scorer.problems(capitals, { question, scorers: [ExactMatch, Levenshtein], args })

export const failing = Scorer.score(NumericDiff, { output: 1 })
