/**
 * The language of a text, told by the package `franc`.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/**
 * The package `franc` is not installed.
 *
 * @since 0.2.0
 * @category errors
 */
export class LanguageUnavailable
  extends Schema.TaggedError<LanguageUnavailable>("@effect-tinker/cookbook/Language/LanguageUnavailable")(
    "LanguageUnavailable",
    { description: Schema.String }
  )
{
  override get message(): string {
    return `The language of a text cannot be told: ${this.description}. Install the package franc.`
  }
}

/** Codes of ISO 639-1 by those of ISO 639-3: languages with many speakers, without those that are mistaken for them. */
const codes: Readonly<Record<string, string>> = {
  eng: "en",
  spa: "es",
  por: "pt",
  arb: "ar",
  hin: "hi",
  fra: "fr",
  rus: "ru",
  deu: "de",
  jpn: "ja",
  ita: "it",
  ben: "bn",
  ukr: "uk",
  tha: "th",
  urd: "ur",
  tam: "ta",
  tel: "te",
  bul: "bg",
  kor: "ko",
  pol: "pl",
  heb: "he",
  pes: "fa",
  vie: "vi",
  npi: "ne",
  swh: "sw",
  kan: "kn",
  mar: "mr",
  guj: "gu",
  pan: "pa",
  mal: "ml",
  fin: "fi",
  cmn: "zh",
  nld: "nl",
  swe: "sv",
  tur: "tr",
  ind: "id",
  ces: "cs",
  ron: "ro",
  ell: "el",
  hun: "hu",
  dan: "da"
}

/**
 * The language of a text as a code of two letters; `undefined` where the text is too short to tell.
 *
 * @since 0.2.0
 * @category models
 */
export type Detect = (text: string) => string | undefined

/** The first of a text says enough. */
const looked = 2000

/**
 * Tells languages apart: forty with many speakers.
 *
 * @since 0.2.0
 * @category constructors
 */
export const detector: Effect.Effect<Detect, LanguageUnavailable> = Effect.map(
  Effect.tryPromise({
    try: () => import("franc"),
    catch: () => new LanguageUnavailable({ description: "it needs the package franc: npm install franc" })
  }),
  ({ franc }): Detect => {
    const only = Object.keys(codes)
    return (text) => {
      const start = text.slice(0, looked)
      const found = codes[franc(start, { only, minLength: 3 })]
      // Short texts in Russian look like Bulgarian by their groups of letters; these letters Bulgarian has not.
      return found === "bg" && /[ыэё]/i.test(start) ? "ru" : found
    }
  }
)
