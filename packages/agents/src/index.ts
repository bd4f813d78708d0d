/**
 * An agent you already have, as something to train: its tasks, how it is run with a model, and how its result is scored.
 *
 * The agent stays in charge: it calls the model when it likes, as often as it likes, from sub-agents too. Each run is an
 * episode of the cookbook, so trainers and evaluators take it like any other environment. All calls of a run belong to one
 * rollout with one reward. Calls that continue each other are one row of training data; sub-agents, compacted histories
 * and forks are further rows of the same rollout.
 *
 * The calls of one run are answered one after the other, also where the agent makes them at once; runs are concurrent.
 *
 * @since 0.1.0
 */
export * as Agent from "./Agent.js"

/**
 * A language model as agents use it: messages and tools in, a message out. Every call is recorded with the exact tokens
 * that were sampled. The gateway, the AI SDK model and the `@effect/ai` layer are all built on it.
 *
 * Tinker samples whole answers: a stream delivers its parts as soon as the answer is complete, not while it is sampled.
 *
 * @since 0.1.0
 */
export * as AgentModel from "./AgentModel.js"

/**
 * What an agent's model calls were, token for token: the ids the sampler was given, the ids and log probabilities it
 * answered with, and which earlier call each one continues.
 *
 * Agents send their whole history with every call, usually not byte for byte as it was sampled. The recorder compares it
 * by meaning with the calls of the same rollout. Where it matches, the next prompt is the exact ids of that call plus the
 * rendered rest. Where it does not, the prompt is rendered from scratch and the call says why: it starts a new row.
 *
 * @since 0.1.0
 */
export * as Recorder from "./Recorder.js"
