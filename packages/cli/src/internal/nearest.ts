/**
 * Names that were probably meant, for words that are none.
 */
const distance = (left: string, right: string): number => {
  let row = Array.from({ length: right.length + 1 }, (_, i) => i)
  for (let i = 1; i <= left.length; i++) {
    const next = [i]
    for (let j = 1; j <= right.length; j++) {
      const substitution = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1)
      next.push(Math.min(substitution, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row.at(-1) ?? 0
}

/**
 * The name that a word was probably meant to be: at most two letters away.
 *
 * @internal
 */
export const nearest = (word: string, names: ReadonlyArray<string>): string | undefined => {
  const [best] = names.map((name) => ({ name, far: distance(word, name) })).sort((a, b) => a.far - b.far)
  return best !== undefined && best.far <= 2 ? best.name : undefined
}
