// Draws what a terminal shows at the end of a recording, for the README:
//   script -qec "stty cols 90; npm run --silent quickstart" --log-timing /tmp/timing /dev/null | node .ci/picture.mjs /tmp/timing > docs/assets/quickstart.svg
// With the times of the recording its lines appear one after the other, in the order and at the pace of the run, a little
// faster; without them, or where a reader wants no motion, all are there at once.
import { readFileSync } from "node:fs"

const cell = { width: 8.4, height: 18 }
const margin = 18
const colors = { 36: "#39c5cf", 90: "#6e7681" }
const text = "#e6edf3"
const blocks = "▁▂▃▄▅▆▇█░"

/** When each byte of the recording was written, in seconds from its first. */
const clock = (file) => {
  if (file === undefined) return () => 0
  const writes = []
  let [time, end] = [0, 0]
  for (const line of readFileSync(file, "utf8").trim().split("\n")) {
    const [delay, bytes] = line.split(" ").map(Number)
    time += writes.length === 0 ? 0 : delay
    end += bytes
    writes.push({ end, time })
  }
  return (byte) => (writes.find(({ end }) => byte < end) ?? writes[writes.length - 1])?.time ?? 0
}

/** Lines of cells, each a character with its style. Knows what the quickstart writes: returns, clears, colours. */
const screen = (recording, timeAt) => {
  const lines = [[]]
  let byte = 0
  let column = 0
  let style = 0
  for (const [token] of recording.matchAll(/\u001b\[([\d;]*)([A-Za-z])|[\s\S]/gu)) {
    const line = lines[lines.length - 1]
    byte += Buffer.byteLength(token)
    if (token === "\n") lines.push([])
    else if (token === "\r") column = 0
    else if (token.endsWith("K") && token.length > 1) line.length = column
    else if (token.endsWith("m") && token.length > 1) style = Number(token.slice(2, -1))
    else if (token.length === 1 && token >= " ") {
      line.time ??= timeAt(byte - 1)
      line[column++] = { char: token, style }
    }
    if (token === "\n") column = 0
  }
  return lines
}

const escape = (text) => text.replace(/[&<>]/g, (char) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[char])

/** Blocks are drawn, because fonts do not agree on their size. */
const block = (char, x, y, color) => {
  const eighths = " ▁▂▃▄▅▆▇█".indexOf(char)
  const height = char === "░" ? cell.height / 3 : char === "█" ? cell.height : eighths * cell.height / 8
  const top = char === "░" ? y + cell.height / 3 : y + cell.height - height
  // A hair wider than the cell, so that neighbours leave no seam.
  return `<rect x="${x.toFixed(1)}" y="${top.toFixed(2)}" width="${cell.width + 0.3}" height="${height.toFixed(2)}" ` +
    `fill="${char === "░" ? "#30363d" : color}"/>`
}

const draw = (line, row) => {
  const y = margin + row * cell.height
  const parts = []
  for (let from = 0; from < line.length;) {
    const { char, style } = line[from]
    const x = margin + from * cell.width
    if (char === " ") from++
    else if (blocks.includes(char)) parts.push(block(line[from++].char, x, y, colors[style] ?? "#3fb950"))
    else {
      // Word by word, each as wide as its cells whatever the font.
      let to = from
      while (to < line.length && line[to].char !== " " && !blocks.includes(line[to].char)) to++
      const word = line.slice(from, to).map((cell) => cell.char).join("")
      parts.push(
        `<text x="${x.toFixed(1)}" y="${y + 13}" textLength="${(word.length * cell.width).toFixed(1)}" ` +
          `fill="${colors[style] ?? text}"${style === 1 ? " font-weight=\"bold\"" : ""}>${escape(word)}</text>`
      )
      from = to
    }
  }
  if (line.time === undefined || span === 0) return parts
  return [`<g style="animation-delay:${(line.time / span * shownFor).toFixed(2)}s">`, ...parts, "</g>"]
}

const lines = screen(readFileSync(0, "utf8"), clock(process.argv[2]))
const done = lines.findIndex((line) => line.map(({ char }) => char).join("").startsWith("Done in"))
const shown = done === -1 ? lines : lines.slice(0, done - 1)
/** Seconds of the recording, and of the picture. */
const span = Math.max(...shown.map(({ time }) => time ?? 0))
const shownFor = Math.min(span, 12)
const motion = span === 0
  ? ""
  : `<style>g{animation:show .25s backwards}@keyframes show{from{opacity:0}}@media(prefers-reduced-motion){g{animation:none}}</style>\n`
const width = Math.ceil(2 * margin + cell.width * Math.max(...shown.map((line) => line.length)))
const height = 2 * margin + cell.height * shown.length
process.stdout.write(
  `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ` +
    `font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14">\n` +
    `<title>npm run quickstart</title>\n<rect width="100%" height="100%" rx="8" fill="#0d1117"/>\n` +
    `${motion}${shown.flatMap(draw).join("\n")}\n</svg>\n`
)
