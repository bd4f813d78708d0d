/**
 * The kernels in plain JavaScript.
 */
import type { Operations } from "./kernels.js"
import { add, at } from "./numbers.js"

const matrixKernels = (memory: Float32Array): Pick<Operations, "gemm" | "pack" | "transposePanels"> => ({
  gemm: (a, aRow, aColumn, b, panel, c, cRow, m, n, k, accumulate) => {
    for (let j = 0; j < n; j += 8) {
      const start = b + (j >> 3) * panel
      for (let i = 0; i < m; i++) {
        let from = a + i * aRow
        const to = c + i * cRow + j
        if (accumulate === 0) memory.fill(0, to, to + 8)
        let s0 = at(memory, to)
        let s1 = at(memory, to + 1)
        let s2 = at(memory, to + 2)
        let s3 = at(memory, to + 3)
        let s4 = at(memory, to + 4)
        let s5 = at(memory, to + 5)
        let s6 = at(memory, to + 6)
        let s7 = at(memory, to + 7)
        for (let p = start, end = start + k * 8; p < end; p += 8) {
          const value = at(memory, from)
          from += aColumn
          s0 += value * at(memory, p)
          s1 += value * at(memory, p + 1)
          s2 += value * at(memory, p + 2)
          s3 += value * at(memory, p + 3)
          s4 += value * at(memory, p + 4)
          s5 += value * at(memory, p + 5)
          s6 += value * at(memory, p + 6)
          s7 += value * at(memory, p + 7)
        }
        memory[to] = s0
        memory[to + 1] = s1
        memory[to + 2] = s2
        memory[to + 3] = s3
        memory[to + 4] = s4
        memory[to + 5] = s5
        memory[to + 6] = s6
        memory[to + 7] = s7
      }
    }
  },
  pack: (b, row, column, k, n, target) => {
    let to = target
    for (let j = 0; j < n; j += 8) {
      const filled = Math.min(8, n - j)
      let from = b + j * column
      for (let p = 0; p < k; p++) {
        for (let lane = 0; lane < filled; lane++) memory[to + lane] = at(memory, from + lane * column)
        for (let lane = filled; lane < 8; lane++) memory[to + lane] = 0
        from += row
        to += 8
      }
    }
  },
  transposePanels: (source, inputs, target, outputs, targetPanel) => {
    for (let output = 0; output < outputs; output++) {
      for (let input = 0; input < inputs; input++) {
        memory[target + (input >> 3) * targetPanel + output * 8 + (input & 7)] = at(
          memory,
          source + (output >> 3) * inputs * 8 + input * 8 + (output & 7)
        )
      }
    }
  }
})

// gelu(x) by tanh is x times the logistic function of this polynomial
const geluFactor = 2 * Math.sqrt(2 / Math.PI)
const geluCubic = 0.044715
const geluArgument = (x: number): number => geluFactor * (x + geluCubic * x * x * x)
const geluSlope = (x: number): number => geluFactor * (1 + 3 * geluCubic * x * x)

const dot = (memory: Float32Array, left: number, right: number, n: number): number => {
  let sum = 0
  for (let i = 0; i < n; i++) sum += at(memory, left + i) * at(memory, right + i)
  return sum
}

const rowKernels = (memory: Float32Array): Omit<Operations, "gemm" | "pack" | "transposePanels" | "softmax"> => ({
  rowMax: (row, n) => {
    let top = -Infinity
    for (let i = row; i < row + n; i++) top = Math.max(top, at(memory, i))
    return top
  },
  expSum: (row, n, top) => {
    let sum = 0
    for (let i = row; i < row + n; i++) sum += Math.exp(at(memory, i) - top)
    return sum
  },
  expScale: (row, n, shift, factor) => {
    for (let i = row; i < row + n; i++) memory[i] = factor * Math.exp(at(memory, i) - shift)
  },
  addRow: (target, source, n) => {
    for (let i = 0; i < n; i++) add(memory, target + i, at(memory, source + i))
  },
  widenBrain: (target, n) => {
    const words = new Uint32Array(memory.buffer, memory.byteOffset + 4 * target, n)
    const shorts = new Uint16Array(memory.buffer, memory.byteOffset + 4 * target + 2 * n, n)
    for (let i = 0; i < n; i++) words[i] = (shorts[i] ?? 0) << 16
  },
  normalize: (source, target, gain, width, rows, epsilon) => {
    for (let row = 0; row < rows; row++) {
      const from = source + row * width
      const to = target + row * width
      const scale = 1 / Math.sqrt(dot(memory, from, from, width) / width + epsilon)
      for (let i = 0; i < width; i++) memory[to + i] = at(memory, from + i) * scale * at(memory, gain + i)
    }
  },
  normalizeBackward: (gradient, source, gain, target, width, rows, epsilon, keep) => {
    for (let row = 0; row < rows; row++) {
      const shift = row * width
      const scale = 1 / Math.sqrt(dot(memory, source + shift, source + shift, width) / width + epsilon)
      let mean = 0
      for (let i = 0; i < width; i++) {
        mean += at(memory, gradient + shift + i) * at(memory, gain + i) * at(memory, source + shift + i) * scale
      }
      mean /= width
      for (let i = 0; i < width; i++) {
        const slope = at(memory, gradient + shift + i) * at(memory, gain + i)
        const normed = at(memory, source + shift + i) * scale
        memory[target + shift + i] = keep * at(memory, target + shift + i) + scale * (slope - normed * mean)
      }
    }
  },
  swiglu: (source, target, hidden, rows) => {
    for (let row = 0; row < rows; row++) {
      const from = source + row * 2 * hidden
      for (let i = 0; i < hidden; i++) {
        const gate = at(memory, from + i)
        memory[target + row * hidden + i] = gate / (1 + Math.exp(-gate)) * at(memory, from + hidden + i)
      }
    }
  },
  swigluBackward: (source, gradient, target, hidden, rows) => {
    for (let row = 0; row < rows; row++) {
      const from = source + row * 2 * hidden
      const to = target + row * 2 * hidden
      for (let i = 0; i < hidden; i++) {
        const gate = at(memory, from + i)
        const up = at(memory, from + hidden + i)
        const slope = at(memory, gradient + row * hidden + i)
        const sigmoid = 1 / (1 + Math.exp(-gate))
        memory[to + i] = slope * up * sigmoid * (1 + gate * (1 - sigmoid))
        memory[to + hidden + i] = slope * gate * sigmoid
      }
    }
  },
  geglu: (source, target, hidden, rows) => {
    for (let row = 0; row < rows; row++) {
      const from = source + row * 2 * hidden
      for (let i = 0; i < hidden; i++) {
        const gate = at(memory, from + i)
        memory[target + row * hidden + i] = gate / (1 + Math.exp(-geluArgument(gate))) * at(memory, from + hidden + i)
      }
    }
  },
  gegluBackward: (source, gradient, target, hidden, rows) => {
    for (let row = 0; row < rows; row++) {
      const from = source + row * 2 * hidden
      const to = target + row * 2 * hidden
      for (let i = 0; i < hidden; i++) {
        const gate = at(memory, from + i)
        const slope = at(memory, gradient + row * hidden + i)
        const sigmoid = 1 / (1 + Math.exp(-geluArgument(gate)))
        const change = sigmoid * (1 + gate * geluSlope(gate) * (1 - sigmoid))
        memory[to + i] = slope * at(memory, from + hidden + i) * change
        memory[to + hidden + i] = slope * gate * sigmoid
      }
    }
  },
  relu2: (source, target, hidden, rows) => {
    for (let i = 0; i < hidden * rows; i++) {
      const value = Math.max(0, at(memory, source + i))
      memory[target + i] = value * value
    }
  },
  relu2Backward: (source, gradient, target, hidden, rows) => {
    for (let i = 0; i < hidden * rows; i++) {
      const value = Math.max(0, at(memory, source + i))
      memory[target + i] = 2 * value * at(memory, gradient + i)
    }
  },
  rotate: (first, stride, rows, cosine, sine, heads, half, direction) => {
    for (let row = 0; row < rows; row++) {
      for (let head = 0; head < heads; head++) {
        const start = first + row * stride + head * 2 * half
        for (let i = 0; i < half; i++) {
          const c = at(memory, cosine + row * half + i)
          const s = at(memory, sine + row * half + i) * direction
          const left = at(memory, start + i)
          const right = at(memory, start + half + i)
          memory[start + i] = left * c - right * s
          memory[start + half + i] = left * s + right * c
        }
      }
    }
  },
  softmaxBackward: (scores, gradient, width, rows, scale) => {
    for (let row = 0; row < rows; row++) {
      const shift = row * width
      const mean = dot(memory, scores + shift, gradient + shift, width)
      for (let i = shift; i < shift + width; i++) {
        memory[gradient + i] = at(memory, scores + i) * (at(memory, gradient + i) - mean) * scale
      }
    }
  }
})

const softmaxRun = (memory: Float32Array, start: number, length: number, scale: number): void => {
  let top = -Infinity
  for (let i = start; i < start + length; i++) top = Math.max(top, at(memory, i))
  let sum = 0
  for (let i = start; i < start + length; i++) {
    const value = Math.exp((at(memory, i) - top) * scale)
    memory[i] = value
    sum += value
  }
  for (let i = start; i < start + length; i++) memory[i] = at(memory, i) / sum
}

const attentionKernels = (memory: Float32Array): Pick<Operations, "softmax"> => ({
  softmax: (scores, width, rows, visible, scale) => {
    for (let row = 0; row < rows; row++) {
      const start = scores + row * width
      softmaxRun(memory, start, visible + row, scale)
      memory.fill(0, start + visible + row, start + width)
    }
  }
})

/** @internal */
export const makeJsKernels = (memory: Float32Array): Operations => ({
  ...matrixKernels(memory),
  ...rowKernels(memory),
  ...attentionKernels(memory)
})
