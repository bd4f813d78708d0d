/**
 * Personal data and secrets in texts: addresses of mail, keys of services, numbers of cards and bank accounts.
 *
 * Cards and accounts are found by their check digits, keys by the forms that services give them. Names, addresses of people and
 * phone numbers have no such form and are not looked for: that nothing was found does not make a text harmless.
 *
 * @since 0.2.0
 */

/**
 * The kinds that are looked for.
 *
 * @since 0.2.0
 * @category models
 */
export type Kind = "email" | "key" | "card" | "iban"

/**
 * Where in a text something was found.
 *
 * @since 0.2.0
 * @category models
 */
export interface Found {
  readonly kind: Kind
  readonly start: number
  readonly end: number
}

/** Check digits of cards (Luhn): every second digit doubled, from the last but one. */
const isCard = (text: string): boolean => {
  const digits = text.replace(/\D/g, "")
  if (digits.length < 13 || digits.length > 19 || /^(\d)\1*$/.test(digits)) return false
  let sum = 0
  for (let i = 0; i < digits.length; i++) {
    const digit = Number(digits[digits.length - 1 - i])
    const doubled = i % 2 === 1 ? 2 * digit : digit
    sum += doubled > 9 ? doubled - 9 : doubled
  }
  return sum % 10 === 0
}

/** Check digits of accounts (ISO 7064, mod 97). */
const isIban = (text: string): boolean => {
  const bare = text.replace(/ /g, "")
  if (bare.length < 15 || bare.length > 34) return false
  let rest = 0
  for (const one of `${bare.slice(4)}${bare.slice(0, 4)}`) {
    const value = one >= "A" ? one.charCodeAt(0) - 55 : Number(one)
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97
  }
  return rest === 1
}

const always = () => true

/** Keys as services write them, and what is named a password beside a long value. */
const keys = [
  "-----BEGIN [A-Z ]*PRIVATE KEY-----[\\s\\S]{0,8000}?-----END [A-Z ]*PRIVATE KEY-----",
  "\\b(?:AKIA|ASIA)[0-9A-Z]{16}\\b",
  "\\bgh[pousr]_[A-Za-z0-9]{36,255}\\b",
  "\\bgithub_pat_[A-Za-z0-9_]{22,255}\\b",
  "\\bglpat-[A-Za-z0-9_-]{20,}",
  "\\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{20,}",
  "\\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}\\b",
  "\\bhf_[A-Za-z0-9]{30,}\\b",
  "\\bnpm_[A-Za-z0-9]{36}\\b",
  "\\bAIza[0-9A-Za-z_-]{35}",
  "\\bxox[abprs]-[A-Za-z0-9-]{10,}",
  "\\btml-[A-Za-z0-9_-]{20,}",
  "\\beyJ[A-Za-z0-9_-]{8,}\\.eyJ[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}"
].join("|")

/** A pattern, what a text must have for it to be worth a look, and what else must hold. */
const looks: ReadonlyArray<readonly [Kind, RegExp, RegExp, (text: string) => boolean]> = [
  [
    "key",
    new RegExp(keys, "g"),
    /-----BEGIN|AKIA|ASIA|gh[pousr]_|github_pat_|glpat-|sk[-_]|rk_|hf_|npm_|AIza|xox|tml-|eyJ/,
    always
  ],
  [
    "email",
    /[\w.%+-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}(?![\w-])/g,
    /@/,
    always
  ],
  ["iban", /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b/g, /[A-Z]{2}\d{2}/, isIban],
  ["card", /(?<![\d.-])\d(?:[ -]?\d){12,18}(?![\d.-]?\d)/g, /\d{4}/, isCard]
]

/**
 * Findings in a text, in order; none is found twice.
 *
 * @since 0.2.0
 * @category combinators
 */
export const find = (text: string): ReadonlyArray<Found> => {
  const found: Array<Found> = []
  for (const [kind, pattern, hint, holds] of looks) {
    if (!hint.test(text)) continue
    for (const match of text.matchAll(pattern)) {
      const [start, end] = [match.index, match.index + match[0].length]
      if (holds(match[0]) && !found.some((one) => start < one.end && one.start < end)) found.push({ kind, start, end })
    }
  }
  return found.sort((a, b) => a.start - b.start)
}

/**
 * A text with `[EMAIL]`, `[KEY]`, `[CARD]` and `[IBAN]` in the place of what was found.
 *
 * @since 0.2.0
 * @category combinators
 */
export const redact = (text: string): string => {
  let redacted = ""
  let at = 0
  for (const { end, kind, start } of find(text)) {
    redacted += `${text.slice(at, start)}[${kind.toUpperCase()}]`
    at = end
  }
  return at === 0 ? text : redacted + text.slice(at)
}

/**
 * JSON with every text in it redacted, names of fields aside.
 *
 * @since 0.2.0
 * @category combinators
 */
export const redactJson = (value: unknown): unknown => {
  if (typeof value === "string") return redact(value)
  if (Array.isArray(value)) return value.map(redactJson)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, redactJson(item)]))
}
