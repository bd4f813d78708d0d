/**
 * Rotary frequencies of long contexts.
 */

/** The settings of Llama 3's scaling, as configurations name them. @internal */
export interface Llama3Scaling {
  readonly factor: number
  readonly low_freq_factor: number
  readonly high_freq_factor: number
  readonly original_max_position_embeddings: number
}

/** Frequencies are slowed by a factor that grows with their wavelength, as Llama 3 defines it. @internal */
export const llama3Factors = (scaling: Llama3Scaling, base: number, headSize: number): ReadonlyArray<number> => {
  const { factor, high_freq_factor: high, low_freq_factor: low, original_max_position_embeddings: context } = scaling
  return Array.from({ length: headSize / 2 }, (_, i) => {
    const wavelength = 2 * Math.PI * base ** (2 * i / headSize)
    if (wavelength < context / high) return 1
    if (wavelength > context / low) return factor
    const smooth = (context / wavelength - low) / (high - low)
    return 1 / ((1 - smooth) / factor + smooth)
  })
}
