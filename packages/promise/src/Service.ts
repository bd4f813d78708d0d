/**
 * Records of the service: training runs, checkpoints, sessions.
 *
 * @since 0.1.0
 */

/**
 * A position in a list.
 *
 * @since 0.1.0
 * @category models
 */
export interface Cursor {
  readonly offset: number
  readonly limit: number
  readonly totalCount: number
}

/**
 * A checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export interface Checkpoint {
  readonly checkpointId: string
  /** `training`, `sampler`, `external`, or what a newer server calls it. */
  readonly checkpointType: string
  readonly tinkerPath: string
  /** When it was saved. */
  readonly time: Date
  /** It never expires when absent. */
  readonly expiresAt?: Date | undefined
  readonly sizeBytes?: number | undefined
  /** Whether anyone may read it. */
  readonly public: boolean
}

/**
 * A training run.
 *
 * @since 0.1.0
 * @category models
 */
export interface TrainingRun {
  readonly trainingRunId: string
  readonly baseModel: string
  readonly modelOwner: string
  readonly isLora: boolean
  readonly loraRank?: number | undefined
  /** Whether the run can no longer be continued. */
  readonly corrupted: boolean
  readonly lastRequestTime: Date
  readonly lastCheckpoint?: Checkpoint | undefined
  readonly lastSamplerCheckpoint?: Checkpoint | undefined
}

/**
 * A model that the server has.
 *
 * @since 0.1.0
 * @category models
 */
export interface SupportedModel {
  readonly modelName?: string | undefined
  readonly maxContextLength?: number | undefined
  /** Whether it can be trained; older servers do not say. */
  readonly trainable?: boolean | undefined
  /** Whether it can be sampled from; older servers do not say. */
  readonly sampleable?: boolean | undefined
}

/**
 * Who the credential belongs to.
 *
 * @since 0.1.0
 * @category models
 */
export interface Account {
  readonly userUrn: string
  readonly orgUrn?: string | undefined
  /** Absent when no user stands behind the credential. */
  readonly email?: string | undefined
}

/**
 * A session.
 *
 * @since 0.1.0
 * @category models
 */
export interface Session {
  readonly trainingRunIds: ReadonlyArray<string>
  readonly samplerIds: ReadonlyArray<string>
  readonly displayName?: string | undefined
}

/**
 * A model in training, as the server describes it.
 *
 * @since 0.1.0
 * @category models
 */
export interface ModelInfo {
  readonly modelId: string
  readonly modelName?: string | undefined
  readonly isLora?: boolean | undefined
  readonly loraRank?: number | undefined
  readonly modelData: {
    readonly arch?: string | undefined
    readonly modelName?: string | undefined
    readonly tokenizerId?: string | undefined
  }
}

/**
 * Base model and shape of saved weights.
 *
 * @since 0.1.0
 * @category models
 */
export interface WeightsInfo {
  readonly baseModel: string
  readonly isLora: boolean
  readonly loraRank?: number | undefined
}
