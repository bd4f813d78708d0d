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
 * Runs of agents as data to fine-tune on: runs of every task, the best of them kept (rejection sampling), as rows of the
 * exact tokens that were sampled. And as JSON lines, for later runs and other programs.
 *
 * @since 0.1.0
 */
export * as AgentData from "./AgentData.js"

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
 * Recorded calls in a directory: JSON lines with what a call was, and beside them its ids and log probabilities as plain
 * little-endian arrays.
 *
 * Files only grow, and every process writes its own files: several may share a directory, a reader may read while they
 * write, and nothing is repaired after a crash. The arrays of a call are written before its line, so that a line that can
 * be read is complete; what a killed process left of its last line is skipped. A call that continues another stores only
 * what it added to it.
 *
 * @since 0.1.0
 */
export * as CallStore from "./CallStore.js"

/**
 * An HTTP gateway that records: agents speak OpenAI's API or Anthropic's to it, whole or streamed, and every token they
 * sample becomes training data. Chat completions, completions, responses, messages with their tokens counted, and models.
 *
 * A rollout is named by the path (`/rollouts/ID/v1/…`), the header `x-rollout-id`, or `metadata.rollout_id`. Requests that
 * name none belong to the rollout of their opening messages, so that a conversation is continued anyhow.
 *
 * The gateway's key is the trainer's and opens everything. The key of a rollout, given out when the rollout is created, is
 * the agent's: it samples for that rollout and nothing else. Rewards and records need the gateway's. `/sessions` are the
 * same rollouts under the addresses, and in the records, of rLLM's gateway client.
 *
 * @since 0.1.0
 */
export * as Gateway from "./Gateway.js"

/**
 * From what an agent did to a better agent: traces are split by session, the good ones are trained on, and the model is
 * evaluated before and after on what was held out, by a paired test. A page says whether to ship it.
 *
 * @since 0.2.0
 */
export * as Improve from "./Improve.js"

/**
 * Environments behind an OpenEnv server (`openenv` 0.10, and `openenv-core` before it): what it observes becomes messages, what the policy answers becomes
 * actions, and the trainers and evaluators of the cookbook take it like any other environment.
 *
 * A session is a WebSocket with its own environment instance on the server. The server's HTTP endpoints make a new
 * instance for every request, so an episode cannot be played over them.
 *
 * Needs a `Socket.WebSocketConstructor`: `NodeSocket.layerWebSocketConstructor` on Node.
 *
 * @since 0.1.0
 */
export * as OpenEnv from "./OpenEnv.js"

/**
 * Calls of an agent's model, token for token: the ids the sampler was given, the ids and log probabilities it
 * answered with, and which earlier call each one continues.
 *
 * Agents send their whole history with every call, usually not byte for byte as it was sampled. The recorder compares it
 * by meaning with the calls of the same rollout. Where it matches, the next prompt is the exact ids of that call plus the
 * rendered rest. Where it does not, the prompt is rendered from scratch and the call says why: it starts a new row.
 *
 * @since 0.1.0
 */
export * as Recorder from "./Recorder.js"

/**
 * Source of an agent's tokens: a sampling client, or whatever is behind an `Effect` at the moment.
 *
 * @since 0.1.0
 */
export * as Sampler from "./Sampler.js"

/**
 * The record of an agent in production: one conversation with its tools, scores, feedback, cost and session.
 *
 * A trace is a line of JSON. All importers write it, and everything made of traces reads it. A line with only `messages` is
 * a trace too.
 *
 * @since 0.2.0
 */
export * as Trace from "./Trace.js"

/**
 * Training data out of traces: successes to imitate, the best of several answers to one prompt, pairs of a better and a worse
 * one, feedback as reward, and real first messages as problems.
 *
 * Whatever is made, sessions are held out as a whole: traces of one session say too much about each other.
 *
 * @since 0.2.0
 */
export * as TraceData from "./TraceData.js"

/**
 * Logs of agents as traces: spans of OpenTelemetry (JSON lines and protobuf), exports and requests of Langfuse, Braintrust and
 * LangSmith, stored completions and batches of OpenAI, recordings of the gateway, and files of chats.
 *
 * Files are read as streams. What belongs to one trace is held until its file ends or room is needed; calls that continue
 * each other become one conversation. The file of traces only grows: the same import again adds nothing that is there, goes
 * on where it was cut short, and takes what was added to its files. What cannot be used is kept in a file beside it.
 *
 * @since 0.2.0
 */
export * as TraceImport from "./TraceImport.js"
