/**
 * The model of the embedded backend in jax-js: the same measures and the same mathematics, compiled by the library.
 */
import type { LocalModel } from "@effect-tinker/local"
import { blockUntilReady, defaultDevice, init, jit, nn, numpy as np, tree, valueAndGrad } from "@jax-js/jax"
import type { Array as Tensor } from "@jax-js/jax"

const size = (shape: ReadonlyArray<number>): number => shape.reduce((product, length) => product * length, 1)

/** Values by position; what they are does not matter for the time they take. */
const filled = (shape: Array<number>, value: (index: number) => number): Tensor =>
  np.array(Float32Array.from({ length: size(shape) }, (_, index) => value(index))).reshape(shape)

const noise = (): (deviation: number) => number => {
  let state = 1
  return (deviation) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return (state / 2 ** 32 - 0.5) * deviation * Math.sqrt(12)
  }
}

const normalise = (x: Tensor): Tensor => {
  const mean = np.mean(x.ref.mul(x.ref), -1, { keepdims: true })
  return x.mul(np.reciprocal(np.sqrt(mean.add(1e-5))))
}

const rotate = (x: Tensor, cosine: Tensor, sine: Tensor): Tensor => {
  const [left, right] = np.split(x, 2, -1)
  if (left === undefined || right === undefined) return x
  return np.concatenate([
    left.ref.mul(cosine.ref).sub(right.ref.mul(sine.ref)),
    left.mul(sine.ref).add(right.mul(cosine.ref))
  ], -1)
}

const take = <A>(values: ReadonlyArray<A>, index: number): A => {
  const value = values[index]
  if (value === undefined) throw new RangeError(`nothing at ${index}`)
  return value
}

/** Queries, keys and values of `rows` rows as heads, [3][batch, heads, length, head size]. */
const heads = (qkv: Tensor, model: LocalModel.LocalModel, batch: number, length: number): ReadonlyArray<Tensor> => {
  const headSize = model.width / model.heads
  const parts = np.split(
    qkv.reshape([batch, length, 3, model.heads, headSize]).transpose([2, 0, 3, 1, 4]),
    3,
    0
  )
  return parts.map((part) => part.reshape([batch, model.heads, length, headSize]))
}

const matrices = (model: LocalModel.LocalModel): ReadonlyArray<readonly [number, number]> => {
  const { hidden, layers, vocabularySize, width } = model
  const block = [[width, 3 * width], [width, width], [width, hidden], [hidden, width]] as const
  return [...Array.from({ length: layers }, () => block).flat(), [width, vocabularySize]]
}

const angles = (model: LocalModel.LocalModel, length: number, of: (angle: number) => number): Tensor => {
  const half = model.width / model.heads / 2
  return filled([1, 1, length, half], (i) => of(Math.floor(i / half) * Math.pow(10000, -(i % half) / half)))
}

/** Must be called before anything else. */
export const start = async (): Promise<void> => {
  await init("wasm")
  defaultDevice("wasm")
}

/** One forward and backward pass over `batch` sequences of `length` tokens, for the gradient of all LoRA factors. */
export const trainer = (
  model: LocalModel.LocalModel,
  batch: number,
  length: number,
  rank: number
): () => Promise<number> => {
  const random = noise()
  const shapes = matrices(model)
  const { layers, vocabularySize, width } = model
  const rows = batch * length
  const scale = 181 / Math.sqrt(rank)
  const headSize = width / model.heads
  const weights = shapes.map(([inputs, outputs]) => filled([inputs, outputs], () => random(1 / Math.sqrt(inputs))))
  const downs = shapes.map(([inputs]) => filled([inputs, rank], () => random(1 / Math.sqrt(inputs))))
  const ups = shapes.map(([, outputs]) => filled([rank, outputs], () => 0))
  const embedded = filled([rows, width], () => random(1))
  const prior = filled([rows, vocabularySize], () => random(1))
  const targets = filled([rows, vocabularySize], (i) => i % vocabularySize === (i * 37) % vocabularySize ? 1 : 0)
  const cosine = angles(model, length, Math.cos)
  const sine = angles(model, length, Math.sin)
  const mask = filled([1, 1, length, length], (i) => i % length > Math.floor(i / length) ? -1e9 : 0)

  const loss = (
    downs: Array<Tensor>,
    ups: Array<Tensor>,
    weights: Array<Tensor>,
    embedded: Tensor,
    prior: Tensor,
    targets: Tensor,
    cosine: Tensor,
    sine: Tensor,
    mask: Tensor
  ): Tensor => {
    let next = 0
    // The factors beside the weights: measured faster here than multiplying them out first.
    const apply = (x: Tensor): Tensor => {
      const index = next++
      const low = np.matmul(x.ref, take(downs, index).ref)
      return np.matmul(x, take(weights, index).ref).add(np.matmul(low, take(ups, index).ref).mul(scale))
    }
    let x = embedded
    for (let layer = 0; layer < layers; layer++) {
      const [queries, keys, values] = heads(apply(normalise(x.ref)), model, batch, length)
      if (queries === undefined || keys === undefined || values === undefined) return x
      const scores = np.matmul(
        rotate(queries, cosine, sine),
        rotate(keys, cosine, sine).transpose([0, 1, 3, 2])
      ).mul(1 / Math.sqrt(headSize)).add(mask.ref)
      const attended = np.matmul(nn.softmax(scores, -1), values).transpose([0, 2, 1, 3]).reshape([rows, width])
      x = x.add(apply(attended))
      const hidden = np.maximum(apply(normalise(x.ref)), 0)
      x = x.add(apply(hidden.ref.mul(hidden)))
    }
    const logits = apply(normalise(x)).add(prior)
    return np.sum(nn.logsumexp(logits.ref, -1)).sub(np.sum(logits.mul(targets)))
  }

  const step = jit(valueAndGrad(loss, { argnums: [0, 1] }))
  return async () => {
    const [value, gradients] = step(
      tree.ref(downs),
      tree.ref(ups),
      tree.ref(weights),
      embedded.ref,
      prior.ref,
      targets.ref,
      cosine.ref,
      sine.ref,
      mask.ref
    )
    const total = value.item()
    await blockUntilReady(gradients)
    tree.dispose(gradients)
    return total
  }
}

/** Continues `batch` sequences by `tokens` tokens, keys and values remembered, each time the most likely one. */
export const sampler = (model: LocalModel.LocalModel, batch: number, tokens: number): () => Promise<number> => {
  const random = noise()
  const { layers, vocabularySize, width } = model
  const headSize = width / model.heads
  const weights = matrices(model).map(([inputs, outputs]) =>
    filled([inputs, outputs], () => random(1 / Math.sqrt(inputs)))
  )
  const embedding = Float32Array.from({ length: vocabularySize * width }, () => random(1))
  const prior = Float32Array.from({ length: vocabularySize * vocabularySize }, () => random(1))
  const half = headSize / 2
  const angle = (position: number, of: (angle: number) => number): Tensor =>
    filled([1, 1, 1, half], (i) => of(position * Math.pow(10000, -i / half)))
  const here = (position: number, yes: number, no: number): Tensor =>
    filled([1, 1, tokens, 1], (i) => i === position ? yes : no)

  const step = jit((
    weights: Array<Tensor>,
    caches: Array<Tensor>,
    x0: Tensor,
    cosine: Tensor,
    sine: Tensor,
    write: Tensor,
    keep: Tensor,
    mask: Tensor
  ): [Tensor, Array<Tensor>] => {
    let next = 0
    const apply = (x: Tensor): Tensor => np.matmul(x, take(weights, next++).ref)
    const kept: Array<Tensor> = []
    const remember = (index: number, row: Tensor): Tensor => {
      const cache = take(caches, index).ref.mul(keep.ref).add(row.mul(write.ref))
      kept.push(cache.ref)
      return cache
    }
    let x = x0
    for (let layer = 0; layer < layers; layer++) {
      const [query, key, value] = heads(apply(normalise(x.ref)), model, batch, 1)
      if (query === undefined || key === undefined || value === undefined) break
      const keys = remember(2 * layer, rotate(key, cosine, sine))
      const values = remember(2 * layer + 1, value)
      const scores = np.matmul(rotate(query, cosine, sine), keys.transpose([0, 1, 3, 2]))
        .mul(1 / Math.sqrt(headSize)).add(mask.ref)
      const attended = np.matmul(nn.softmax(scores, -1), values).reshape([batch, width])
      x = x.add(apply(attended))
      const hidden = np.maximum(apply(normalise(x.ref)), 0)
      x = x.add(apply(hidden.ref.mul(hidden)))
    }
    return [apply(normalise(x)), kept]
  })

  return async () => {
    let last = Array.from({ length: batch }, (_, i) => 97 + i)
    let caches = Array.from({ length: 2 * layers }, () => np.zeros([batch, model.heads, tokens, headSize]))
    let sum = 0
    for (let position = 0; position < tokens; position++) {
      const x0 = filled([batch, width], (i) => embedding[take(last, Math.floor(i / width)) * width + i % width] ?? 0)
      const mask = filled([1, 1, 1, tokens], (i) => i <= position ? 0 : -1e9)
      const [logits, kept] = step(
        tree.ref(weights),
        caches,
        x0,
        angle(position, Math.cos),
        angle(position, Math.sin),
        here(position, 1, 0),
        here(position, 0, 1),
        mask
      )
      caches = kept
      const rows = await logits.data()
      last = last.map((previous, row) => {
        let best = 0
        let top = -Infinity
        for (let token = 0; token < vocabularySize; token++) {
          const value = Number(rows[row * vocabularySize + token]) + (prior[previous * vocabularySize + token] ?? 0)
          if (value > top) [best, top] = [token, value]
        }
        return best
      })
      sum += take(last, 0)
    }
    tree.dispose(caches)
    return sum
  }
}
