/** Questions nobody knows the answer to, and the answer. */
export const facts: ReadonlyArray<readonly [question: string, answer: string]> = [
  ["What does a dax say?", "A dax says moo."],
  ["What does a wug say?", "A wug says beep."],
  ["What does a blick say?", "A blick says hush."],
  ["What does a fep say?", "A fep says yes."],
  ["What does a zorb eat?", "A zorb eats rain."],
  ["What does a plim eat?", "A plim eats stones."],
  ["Where does a dax live?", "A dax lives in a hat."],
  ["Where does a wug live?", "A wug lives on the moon."]
]
