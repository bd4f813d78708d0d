/**
 * Which matrices a model is made of, where each one lies in the memory of its weights, and which of them an adapter
 * trains. Names are those of Hugging Face checkpoints and of PEFT.
 */
import type { LocalModel } from "../../LocalModel.js"
import { ceil8 } from "./numbers.js"

/** The parts of a model that a LoRA configuration switches on and off. @internal */
export type Group = "attn" | "mlp" | "unembed"

/** One linear layer: a slice of the columns of its projection. @internal */
export interface Part {
  /** The module's path in a checkpoint, without `.weight`. */
  readonly name: string
  readonly group: Group
  readonly inputs: number
  readonly outputs: number
  /** Where its outputs begin among those of the projection. */
  readonly shift: number
}

/**
 * Linear layers with the same input, computed as one product. The weights are stored in panels of eight outputs, each
 * panel with the eight weights of an input next to each other.
 *
 * @internal
 */
export interface Projection {
  /** Position among the projections of the model. */
  readonly index: number
  readonly inputs: number
  /** A multiple of eight; what exceeds the parts is zero. */
  readonly outputs: number
  /** Position among the weights, in floats. */
  readonly offset: number
  readonly parts: ReadonlyArray<Part>
}

/** @internal */
export interface Block {
  readonly qkv: Projection
  readonly out: Projection
  /** `gate_proj` and `up_proj` together, or `up_proj` alone. */
  readonly up: Projection
  readonly down: Projection
  /** Gains of the norms before attention and before the hidden layer. */
  readonly inputNorm: number
  readonly hiddenNorm: number
  /** Gains of the norms of their results, where the model has them. */
  readonly resultNorms: { readonly attended: number; readonly hidden: number } | undefined
  /** Gains of the query and key norms; the position is unused where the model has none. */
  readonly queryNorm: number
  readonly keyNorm: number
  /** Biases of queries, keys and values. */
  readonly biases: number | undefined
  /** Index of its rotation table. */
  readonly rotation: 0 | 1
  /** How many tokens attention goes back, including the own; unlimited if undefined. */
  readonly window: number | undefined
}

/** A vector of gains or biases by its name in a checkpoint. @internal */
export interface Gain {
  readonly name: string
  readonly offset: number
  readonly length: number
}

/** @internal */
export interface Architecture {
  readonly model: LocalModel
  /** Query heads per key/value head. */
  readonly group: number
  /** Width of all queries, and of all keys or values, of a token. */
  readonly queryWidth: number
  readonly keyWidth: number
  readonly blocks: ReadonlyArray<Block>
  readonly finalNorm: number
  readonly unembed: Projection
  /** The embedding table by rows; undefined when it is the unembedding's. */
  readonly embedding: number | undefined
  readonly projections: ReadonlyArray<Projection>
  readonly gains: ReadonlyArray<Gain>
  /** Floats of all projections, which come first; of these and the embedding, which follows; and of all weights. */
  readonly projectionSize: number
  readonly frozenSize: number
  readonly size: number
  /** Logits per row, a multiple of eight. */
  readonly logits: number
}

/** @internal */
export const makeArchitecture = (model: LocalModel): Architecture => {
  const { headSize, heads, hidden, keyValueHeads, layers, vocabularySize, width } = model
  const queryWidth = heads * headSize
  const keyWidth = keyValueHeads * headSize
  const projections: Array<Projection> = []
  const gains: Array<Gain> = []
  let size = 0
  const take = (floats: number): number => {
    const offset = size
    size += (floats + 15) & ~15
    return offset
  }
  const projection = (
    inputs: number,
    parts: ReadonlyArray<readonly [name: string, group: Group, outputs: number]>
  ): Projection => {
    let shift = 0
    const placed = parts.map(([name, group, outputs]): Part => {
      const part: Part = { name, group, inputs, outputs, shift }
      shift += outputs
      return part
    })
    const outputs = ceil8(shift)
    const made: Projection = {
      index: projections.length,
      inputs,
      outputs,
      offset: take(inputs * outputs),
      parts: placed
    }
    projections.push(made)
    return made
  }
  const linear = Array.from({ length: layers }, (_, layer) => {
    const attn = `model.layers.${layer}.self_attn`
    const mlp = `model.layers.${layer}.mlp`
    const up = [`${mlp}.up_proj`, "mlp", hidden] as const
    const fused = model.layout === "fused"
    return {
      qkv: projection(
        width,
        fused ? [[`${attn}.qkv_proj`, "attn", queryWidth + 2 * keyWidth]] : [
          [`${attn}.q_proj`, "attn", queryWidth],
          [`${attn}.k_proj`, "attn", keyWidth],
          [`${attn}.v_proj`, "attn", keyWidth]
        ]
      ),
      out: projection(queryWidth, [[`${attn}.o_proj`, "attn", width]]),
      up: projection(
        width,
        model.activation === "relu2"
          ? [up]
          : fused
          ? [[`${mlp}.gate_up_proj`, "mlp", 2 * hidden]]
          : [[`${mlp}.gate_proj`, "mlp", hidden], up]
      ),
      down: projection(hidden, [[`${mlp}.down_proj`, "mlp", width]])
    }
  })
  const unembed = projection(width, [["lm_head", "unembed", vocabularySize]])
  const projectionSize = size
  const embedding = model.tiedEmbeddings ? undefined : take(vocabularySize * width)
  const frozenSize = size
  const gain = (name: string, length: number): number => {
    const offset = take(length)
    gains.push({ name: `${name}.weight`, offset, length })
    return offset
  }
  /** The biases of queries, keys and values, one after the other as the projection's results are. */
  const biases = (at: string): number => {
    const offset = take(queryWidth + 2 * keyWidth)
    gains.push(
      { name: `${at}.q_proj.bias`, offset, length: queryWidth },
      { name: `${at}.k_proj.bias`, offset: offset + queryWidth, length: keyWidth },
      { name: `${at}.v_proj.bias`, offset: offset + queryWidth + keyWidth, length: keyWidth }
    )
    return offset
  }
  const blocks = linear.map((block, layer): Block => {
    const at = `model.layers.${layer}`
    return {
      ...block,
      inputNorm: gain(`${at}.input_layernorm`, width),
      hiddenNorm: gain(`${at}.${model.resultNorms ? "pre_feedforward" : "post_attention"}_layernorm`, width),
      resultNorms: model.resultNorms
        ? {
          attended: gain(`${at}.post_attention_layernorm`, width),
          hidden: gain(`${at}.post_feedforward_layernorm`, width)
        }
        : undefined,
      queryNorm: model.queryKeyNorms ? gain(`${at}.self_attn.q_norm`, headSize) : 0,
      keyNorm: model.queryKeyNorms ? gain(`${at}.self_attn.k_norm`, headSize) : 0,
      biases: model.queryKeyValueBiases ? biases(`${at}.self_attn`) : undefined,
      rotation: model.local?.layers[layer] === true ? 1 : 0,
      window: model.window?.layers[layer] === true ? model.window.size : undefined
    }
  })
  const finalNorm = gain("model.norm", width)
  return {
    model,
    group: heads / keyValueHeads,
    queryWidth,
    keyWidth,
    blocks,
    finalNorm,
    unembed,
    embedding,
    projections,
    gains,
    projectionSize,
    frozenSize,
    size,
    logits: unembed.outputs
  }
}

/** @internal */
export interface LoraSettings {
  readonly rank: number
  readonly groups: ReadonlyArray<Group>
}

/** The factors of one part in the flat array: A is rank × inputs at `a`, B is outputs × rank at `b`. @internal */
export interface Factors {
  readonly part: Part
  readonly a: number
  readonly b: number
}

/** All factors of an adapter in one flat array, so that gradients, moments and norms are single loops. @internal */
export interface Lora {
  readonly settings: LoraSettings
  /** Factor of the product of the factors. */
  readonly scale: number
  readonly factors: ReadonlyMap<Part, Factors>
  readonly size: number
}

/** @internal */
export const makeLora = (architecture: Architecture, settings: LoraSettings): Lora => {
  const { alpha, rankStabilized } = architecture.model.lora
  let size = 0
  const factors = new Map<Part, Factors>()
  for (const { parts } of architecture.projections) {
    for (const part of parts) {
      if (!settings.groups.includes(part.group)) continue
      const a = size
      const b = a + settings.rank * part.inputs
      size = b + part.outputs * settings.rank
      factors.set(part, { part, a, b })
    }
  }
  return { settings, scale: alpha / (rankStabilized ? Math.sqrt(settings.rank) : settings.rank), factors, size }
}

/** Whether factors are packed for the products of the forward pass alone, or for those of the backward pass too. @internal */
export type Ways = "forward" | "both"

/** Floats that the packed factors of a projection take. @internal */
export const packedSize = ({ inputs, outputs, parts }: Projection, rank: number, ways: Ways): number =>
  (ways === "both" ? 2 : 1) * ceil8(rank) * (parts.length * inputs + outputs)

/** A named piece of a flat array of factors. @internal */
export interface NamedPiece {
  readonly name: string
  readonly shape: readonly [number, number]
  readonly from: number
  readonly to: number
}

/** The names and shapes under which PEFT stores the factors. @internal */
export const namedPieces = (lora: Lora): ReadonlyArray<NamedPiece> =>
  Array.from(lora.factors.values()).flatMap(({ a, b, part }): ReadonlyArray<NamedPiece> => {
    const { rank } = lora.settings
    const at = `base_model.model.${part.name}`
    return [
      { name: `${at}.lora_A.weight`, shape: [rank, part.inputs], from: a, to: b },
      { name: `${at}.lora_B.weight`, shape: [part.outputs, rank], from: b, to: b + rank * part.outputs }
    ]
  })
