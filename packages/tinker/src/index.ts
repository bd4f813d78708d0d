import "./requiresEffect3.js"

/**
 * Extraction of tar archives that come from elsewhere: only regular files and directories are written, only below the
 * target, only within limits, and only all or nothing.
 *
 * @since 0.1.0
 */
export * as Archive from "./Archive.js"

/**
 * Reverse-mode differentiation over numbers, vectors and matrices: enough to write a loss over per-token logprobs.
 *
 * Everything is a plain function of {@link Value}s in float64. Operands broadcast as in NumPy: a scalar with anything, a
 * vector of length `n` with every row of an `[m, n]` matrix, an `[m, 1]` column with every column. Arrays and numbers are
 * accepted wherever a value is, as constants.
 *
 * Shapes that do not fit throw `InvalidInput`; inside a custom loss that becomes the failure of the operation.
 *
 * @example
 * ```ts
 * import { Autodiff } from "effect-tinker"
 *
 * const logprobs = Autodiff.variable([-0.5, -1.25, -2])
 * const loss = logprobs.pipe(Autodiff.sub([-0.5, -1, -2.5]), Autodiff.square, Autodiff.sum)
 * const [gradient] = Autodiff.gradients(loss, [logprobs])
 * ```
 *
 * @since 0.1.0
 */
export * as Autodiff from "./Autodiff.js"

/**
 * Checkpoints and the `tinker://` paths that name them.
 *
 * @since 0.1.0
 */
export * as Checkpoint from "./Checkpoint.js"

/**
 * A checkpoint on disk: fetched, resumed, checked, unpacked path-safely, and visible only when it is complete.
 *
 * @since 0.1.0
 */
export * as CheckpointDownload from "./CheckpointDownload.js"

/**
 * Costs of training and sampling: tokens of each model and kind times the prices you give, and a budget that refuses
 * an operation before it could overspend.
 *
 * The most an operation may cost is reserved before it starts; what it did cost is settled when it ends. An operation
 * that was never sent, or that the server refused, gives its reservation back. One that may have run on the server
 * though no result came (interrupted on the wire, timed out) is paid in full: the ledger errs on the safe side.
 *
 * @since 0.1.0
 */
export * as CostLedger from "./CostLedger.js"

/**
 * Which credential we present, and where it comes from: the configured key, a command that prints one, or the stored
 * default of `tinker auth login`, in this order.
 *
 * @since 0.1.0
 */
export * as Credentials from "./Credentials.js"

/**
 * Losses written by the user: a function from the logprobs of a batch to one number, differentiated here and sent to
 * the server as the weights of a cross entropy with the same gradient.
 *
 * @since 0.1.0
 */
export * as CustomLoss from "./CustomLoss.js"

/**
 * One training example: what the model reads and the tensors its loss needs, position by position.
 *
 * @since 0.1.0
 */
export * as Datum from "./Datum.js"

/**
 * A file fetched from a signed URL: resumed where it broke off, checked against its announced length, and visible under
 * its name only when it is complete.
 *
 * @since 0.1.0
 */
export * as Download from "./Download.js"

/**
 * Which adapters a model in training gets.
 *
 * @since 0.1.0
 */
export * as LoraConfig from "./LoraConfig.js"

/**
 * The losses of the service: their names, the inputs each needs and the settings it takes, so that a misspelt name, a
 * misspelt setting or a missing input does not compile. {@link other} is for losses this version does not know.
 *
 * @since 0.1.0
 */
export * as Loss from "./Loss.js"

/**
 * Counters of the SDK as Effect metrics: read them with `Metric.value`, or let an exporter
 * (`@effect/opentelemetry`) read all of them. They are for you; nothing here is sent to the service.
 *
 * Counting costs a few additions for each request, whether someone reads or not. Times are milliseconds.
 *
 * @since 0.1.0
 */
export * as Metrics from "./Metrics.js"

/**
 * The metrics of a run on disk: one JSON object a line, `{"step":12,"time":1730000000000,"loss":0.53}`, the form other
 * tools write and read too. Lines with an `event` say what comes between steps: what the run waits for, and that it has
 * ended. `MetricsWatch` follows them.
 *
 * A line is written whole, in one go, when its step ends. A process that is killed leaves at most one torn line, at the
 * end: readers say so and go on, and the next writer removes it.
 *
 * @since 0.1.0
 */
export * as MetricsLog from "./MetricsLog.js"

/**
 * Input of a model: text as tokens, images and audio, in order.
 *
 * @since 0.1.0
 */
export * as ModelInput from "./ModelInput.js"

/**
 * Objectives and regularisers people write over per-token logprobs, as plain functions of `Autodiff` values.
 *
 * All take the learner's logprobs of the target tokens first, `[T]` or, with `K` candidates per position, `[T, K]`, and
 * answer one number per position: mask, weigh and sum them as the task asks. {@link dpo} answers one number per pair.
 *
 * @since 0.1.0
 */
export * as Objectives from "./Objectives.js"

/**
 * The OpenAI-compatible surface of the service: chat and text completions, whole or as a stream, for quick tries of
 * base models and sampler checkpoints (`tinker://…/sampler_weights/…`).
 *
 * Fields keep OpenAI's own names. What this module does not name passes through in both directions.
 *
 * @since 0.1.0
 */
export * as OpenAiCompat from "./OpenAiCompat.js"

/**
 * Optimizers: the family a model is created with, and the parameters of one step.
 *
 * @since 0.1.0
 */
export * as Optimizer from "./Optimizer.js"

/**
 * The progress of a training loop, for observers: steps, metrics, tokens per second, what it waits for, time left.
 *
 * The loop reports; any number of readers subscribe. A slow reader misses snapshots and blocks nothing.
 *
 * @since 0.1.0
 */
export * as Progress from "./Progress.js"

/**
 * State visible to a waiting caller: whether the server is working on the operation, holding it back, or unreachable.
 *
 * @since 0.1.0
 */
export * as QueueState from "./QueueState.js"

/**
 * Records of the service: runs, checkpoints, sessions, samplers, billing and the audit log. Needs no session.
 *
 * @since 0.1.0
 */
export * as RestClient from "./RestClient.js"

/**
 * When a failed step is tried again, and after which delay: one `Schedule` per class, in one table. Nothing in the SDK
 * is retried by anything else.
 *
 * @since 0.1.0
 */
export * as RetryPolicy from "./RetryPolicy.js"

/**
 * Handle with which another process or thread samples from the same sampler: an address, not a credential.
 *
 * @since 0.1.0
 */
export * as SamplerHandle from "./SamplerHandle.js"

/**
 * Draws from a model, or scores with it: thousands of samples at once, no order to keep.
 *
 * Each `sample` is one Effect of its result. All clients of a tenant share one dispatcher, so a rate limit met by one
 * slows all of them down, and nothing else: waiting for results, training and heartbeats go on.
 *
 * @since 0.1.0
 */
export * as SamplingClient from "./SamplingClient.js"

/**
 * Sampling in workers: code that keeps a CPU busy (parsing, scoring, running tests on what was drawn) moves to separate
 * threads, each with a client of the same sampler, so that heartbeats and polls of this thread are never late.
 *
 * The pieces fit the workers of `@effect/platform`: a pool here starts each worker with {@link Start}, and a runner
 * there answers it with {@link start}, which gives the other requests their `SamplingClient`. A worker's client numbers
 * its requests in a separate range and uses its own credentials; the handle it is started with contains none.
 *
 * @since 0.1.0
 */
export * as SamplingWorker from "./SamplingWorker.js"

/**
 * Entry point to a Tinker service: one session, and the clients made from it.
 *
 * Building it sends nothing. The first operation asks for the server's configuration; the first one that needs a
 * session opens it. From then on the session is kept alive, and closing the scope finishes it: `success`, `errored` or
 * `interrupted`, as the scope ended.
 *
 * @since 0.1.0
 */
export * as ServiceClient from "./ServiceClient.js"

/**
 * Numbers on the wire: int64 or float32, dense or CSR, held in typed arrays from the caller to the socket and back.
 *
 * @since 0.1.0
 */
export * as TensorData from "./TensorData.js"

/**
 * From text to token ids and back, for {@link SamplingClient.sampleText}: this package has no tokenizer, so it takes
 * whichever one is in the context. It must be that of the model.
 *
 * @since 0.1.0
 */
export * as TextTokenizer from "./TextTokenizer.js"

/**
 * Everything for one Tinker service from one configuration and one credential: the service client, the REST client and
 * the OpenAI-compatible client, over the transport in the context. Hosted or self-hosted differ by `baseUrl` only;
 * `TinkerLocal.layer` of `@effect-tinker/local` provides the same clients over the embedded backend.
 *
 * @since 0.1.0
 */
export * as Tinker from "./Tinker.js"

/**
 * The configuration of the SDK: the only one, and the only place where the environment is read.
 *
 * @since 0.1.0
 */
export * as TinkerConfig from "./TinkerConfig.js"

/**
 * All failures, by what they mean to the caller: flat tagged errors for `Effect.catchTag`, each with
 * the operation that failed, the HTTP status, the request id, a retry hint and the cause.
 *
 * @since 0.1.0
 */
export * as TinkerError from "./TinkerError.js"

/**
 * An operation the server has accepted: an Effect of its result.
 *
 * - Nothing is polled until someone waits. However many wait, and however often, there is one poll.
 * - An interrupted waiter returns at once; when the last one leaves, the poll's request is aborted. Waiting again
 *   resumes the poll. What the server has accepted keeps running there in any case.
 * - A result, or a final failure, is kept.
 * - A failure nobody observes is not lost: it fails the model's next save, sampler or close. Awaiting a future, or one
 *   derived from it, observes it; {@link ignore} opts out.
 *
 * @since 0.1.0
 */
export * as TinkerFuture from "./TinkerFuture.js"

/**
 * How bytes reach a Tinker server: one request in, one response out. Everything above it (encoding, credentials,
 * retries, decoding) is the same whatever the transport.
 *
 * - {@link layer} builds it over any `HttpClient` of `@effect/platform`: browsers, Bun, Deno, tests.
 * - `NodeTinker.layer` builds it on undici, with proxy, certificate authorities and HTTP/2 as its own options.
 * - To observe or change traffic, wrap the service; to replace the network in a test, provide your own.
 *
 * @since 0.1.0
 */
export * as TinkerTransport from "./TinkerTransport.js"

/**
 * A model in training: passes, optimizer steps and checkpoints, in the order in which they are started.
 *
 * Every operation is an Effect that ends when the server has accepted it, and yields a {@link TinkerFuture}: plain
 * sequential code is ordered and pipelined, and waits only where it awaits a result.
 *
 * - Interrupted while it waits for its turn, an operation is never sent. Interrupted on the wire, its caller leaves at
 *   once and the request settles on its own. What the server has accepted runs on there.
 * - A failed operation never blocks the next one. After a pass that was sent in pieces and failed, the gradients may
 *   hold a part of it.
 *
 * @since 0.1.0
 */
export * as TrainingClient from "./TrainingClient.js"

/**
 * A custom loss that the server runs: uploaded once as a graph of operations, then named like any other loss,
 * without the extra pass that `forwardBackwardCustom` needs.
 *
 * @since 0.1.0
 */
export * as UploadedLoss from "./UploadedLoss.js"
