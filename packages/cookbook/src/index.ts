/**
 * A model measured on a set of problems, example by example: each result is recorded when it is there, a run that was cut
 * short goes on with the examples that are missing, and two runs can be compared.
 *
 * Answers that were cut off and rollouts that failed are counted apart: they say something about limits and about the
 * service, and only then about the model.
 *
 * @since 0.1.0
 */
export * as Benchmark from "./Benchmark.js"

/**
 * Benchmarks by name: where their problems are, how they are asked, and how answers are graded.
 *
 * Problems are asked in our words, without examples; answers are graded by rules that were held against those of the official
 * cookbook, `lm-eval` and `bfcl-eval`. Scores compare with each other, and with published ones only where those were asked
 * the same way.
 *
 * Nothing of the datasets is here: `NodeBenchmarks` reads them from the Hugging Face hub when they are run.
 *
 * @since 0.2.0
 */
export * as Benchmarks from "./Benchmarks.js"

/**
 * When a run is saved, and for how long the checkpoints are kept.
 *
 * @since 0.1.0
 */
export * as CheckpointPolicy from "./CheckpointPolicy.js"

/**
 * Answers to multiple-choice questions: writes the choices, and finds the letter that an answer comes to.
 *
 * @since 0.2.0
 */
export * as ChoiceAnswer from "./ChoiceAnswer.js"

/**
 * Costs of a run: the tokens of its steps by what they were used for, and money where their prices are known.
 *
 * A sampled token is paid for when it is generated and again when it is trained on; a prompt is paid for at every turn, for
 * less where the server finds it in its cache. A step counts what was sampled, read and trained on for it. What was sampled
 * for groups that are not trained on is counted in the totals, and apart as discarded. Evaluations, requests that failed and
 * rollouts that were running when a run was stopped are not counted: `RestClient.getBillingUsage` has the bill.
 *
 * @since 0.2.0
 */
export * as Cost from "./Cost.js"

/**
 * Files as datasets: JSON lines and Parquet, streamed or read by number, and whole JSON files. A row that does not fit its
 * schema is skipped, with the reason and its number.
 *
 * @since 0.1.0
 */
export * as DataFile from "./DataFile.js"

/**
 * Problems of training data: rows that are there twice or nearly twice, rows of the held-out data, answers that are empty or cut
 * short, personal data and secrets, answers that are nearly all the same.
 *
 * Rows are of any shape that `RowShape` recognizes. They are read once and not kept.
 *
 * @since 0.2.0
 */
export * as DataQuality from "./DataQuality.js"

/**
 * Rows to train on: streamed, and resumable from a {@link Position}, which is a value.
 *
 * - Every row carries the position after it. A dataset read from there gives exactly the rows that would have followed.
 * - Shuffles and interleavings are functions of a seed and the epoch, so a position needs no generator's state.
 * - Rows that cannot be used are part of the stream as {@link Skipped}, with the reason and where they stand. Nothing is
 *   dropped in silence.
 *
 * @since 0.1.0
 */
export * as Dataset from "./Dataset.js"

/**
 * Learning from a teacher.
 *
 * - {@link onPolicy}: the student answers, and the teacher says how likely it finds each token.
 * - {@link offPolicy}: on given answers, the student learns the teacher's distribution over the likeliest tokens.
 * - {@link self}: the teacher is the model itself, shown what the student is not: an example, or a long instruction.
 *
 * @since 0.1.0
 */
export * as Distill from "./Distill.js"

/**
 * Texts that are the same, or nearly: exactly, by a hash of their words, and nearly, by MinHash with bands (LSH).
 *
 * Both hold numbers, not texts: 8 bytes for each different text, and about 230 for each in the index of near duplicates, whatever
 * its length. Hashes have 53 bits: among a million texts, two that differ are taken for the same with a probability of 0.0001.
 *
 * @since 0.2.0
 */
export * as Duplicates from "./Duplicates.js"

/**
 * World in which a policy acts. An environment is made inside a `Scope`: what it acquires is released when its rollout ends,
 * whether it completes, fails, runs out of time or is interrupted.
 *
 * Rollouts are compared within a {@link Group}, all of whose environments are made from one problem.
 *
 * @since 0.1.0
 */
export * as Environment from "./Environment.js"

/**
 * Results of an evaluation that were written to a file, and two of them beside each other: example by example, with the
 * uncertainty of the difference.
 *
 * Files are those of `Benchmark.run`, and what `tinker eval --format json` prints.
 *
 * @since 0.2.0
 */
export * as EvalResults from "./EvalResults.js"

/**
 * Measures weights during a run: by the loss on held-out data, or by anything a sampler's answers can be judged by.
 *
 * @since 0.1.0
 */
export * as Evaluator from "./Evaluator.js"

/**
 * Rows of training files (chats, prompts with completions, preferred and rejected answers), and how it
 * becomes data.
 *
 * The schemas read the spellings that are in use: OpenAI's messages with `tool_calls`, reasoning as `reasoning_content` or
 * `thinking`, `conversations` with `from` and `value`.
 *
 * @since 0.1.0
 */
export * as Example from "./Example.js"

/**
 * Function calls that a model wrote, held against the calls that are right: the rules of the Berkeley Function Calling
 * Leaderboard for Python, in which every parameter has a list of values that count.
 *
 * @since 0.2.0
 */
export * as FunctionCall from "./FunctionCall.js"

/**
 * Games with several seats, each with its own conversation: for self-play, where one model sits on all of them, and
 * for a model against a fixed opponent (`Policy.perSeat`). Every seat has a trajectory with its own rewards.
 *
 * @since 0.1.0
 */
export * as Game from "./Game.js"

/**
 * Stops a run whose model breaks. One bad step is no divergence: the median of the last steps is compared with the best the run
 * had, or with its beginning. A single step counts only where a distance rises twice as far as it may. All of this follows from
 * the steps of the journal, so a resumed run is stopped where the uninterrupted one is.
 *
 * @since 0.2.0
 */
export * as Guard from "./Guard.js"

/**
 * Advice on learning rates and sizes of adapters, as the official cookbook gives it. A model nobody measured has none:
 * that is an `Option.none`, and a reason to sweep, never a failure.
 *
 * @since 0.1.0
 */
export * as Hyperparameters from "./Hyperparameters.js"

/**
 * Instructions whose following can be checked by a rule, such as "at least 300 words" or "no commas": the 25 kinds of IFEval.
 *
 * The rules are those of the paper's own checker, which `lm-eval` has too. Sentences are found by their punctuation, without a
 * list of abbreviations. The package `franc`, which three kinds need, determines the language of a text.
 *
 * @since 0.2.0
 */
export * as Instructions from "./Instructions.js"

/**
 * JSON that somebody else has written: files of data, bodies of requests. Bytes that are not UTF-8 are an error, where a
 * decoder would put other characters in their place; and values may have so many levels only, since whatever reads a value
 * (schemas, hashes, templates) calls itself for each of them, so that a line of brackets would end the stack.
 *
 * @since 0.2.0
 */
export * as JsonText from "./JsonText.js"

/**
 * Answers judged by a model: compared in pairs and ranked by a tournament, or graded by a question about them.
 *
 * A judge is read from its probabilities, not from a sample: of a few answers it may give, how likely it finds each.
 *
 * @since 0.1.0
 */
export * as Judge from "./Judge.js"

/**
 * The language of a text, told by the package `franc`.
 *
 * @since 0.2.0
 */
export * as Language from "./Language.js"

/**
 * Learning rates that change during a run: constant, linear or cosine decay, after a warm-up.
 *
 * @since 0.1.0
 */
export * as LearningRate from "./LearningRate.js"

/**
 * Losses of reinforcement learning by name and settings, with the presets people ask for.
 *
 * @since 0.1.0
 */
export * as Loss from "./Loss.js"

/**
 * Answers to problems of mathematics: finds the answer in a text, and decides whether two answers are the same number, expression,
 * tuple or interval.
 *
 * Answers are compared in three steps: as they are written, after everything that does not change the meaning was removed, and
 * as expressions. Two expressions are the same when they have the same values at several points, which is what a computer
 * algebra system decides by rewriting. Where an exercise asks for a form, the form counts: an integer must be given as one, and
 * a fraction must be reduced. These are the rules of the official cookbook's grader.
 *
 * @since 0.2.0
 */
export * as MathAnswer from "./MathAnswer.js"

/**
 * Rewards that need no programmer: any model behind an OpenAI-compatible API judges the answers of a group relative to each
 * other, grades them by a rubric made of a paragraph, or plays the user.
 *
 * What it said is cached, so that a run that is resumed, or repeated, asks nothing twice; tokens and their price are counted;
 * its reasons are recorded with the rollouts.
 *
 * @since 0.2.0
 */
export * as ModelJudge from "./ModelJudge.js"

/**
 * Who acts in an environment: a model, a script, a person.
 *
 * @since 0.1.0
 */
export * as Policy from "./Policy.js"

/**
 * Learning from preferences: of two answers, the chosen one becomes likelier than the rejected one, relative to a reference
 * (direct preference optimisation). What the reference thinks of an answer is computed once, and kept with the run.
 *
 * @since 0.1.0
 */
export * as Preference from "./Preference.js"

/**
 * Programs in Python as answers: finds the code in a text, and runs it against tests in the `Sandbox`.
 *
 * Assertions run in the process of the program they test. A program that ends before them, whatever its exit code, has not
 * passed: after the last one a number is printed that was drawn for this run. A program that looks for it in its own memory
 * can still find it; where that matters, compare outputs with `passesInputs`.
 *
 * @since 0.2.0
 */
export * as PythonAnswer from "./PythonAnswer.js"

/**
 * Reinforcement learning: from problems and a reward to a better model.
 *
 * - `sync`: each step samples from the weights it changes.
 * - `stream`: gradients are computed while the rest of the batch is still sampled.
 * - `async`: the next batches are sampled while the model is trained. A group is begun only when the weights are recent
 *   enough for the step that will use it, so staleness is bounded and nothing is thrown away. With `sampler: "inflight"`
 *   a rollout that runs goes on with the newest weights after every step, so its later tokens are less stale.
 *
 * Draws are seeded by step, group and member: in `sync` and `stream`, a run that resumes samples what it would have sampled,
 * and computes the same losses bit for bit. In `async`, which weights a group is sampled from depends on how long things
 * take, so no two runs are the same; a run that resumes still does every step once and in order, on the same problems and
 * at the same learning rates, within the bound on staleness.
 *
 * @since 0.1.0
 */
export * as Reinforce from "./Reinforce.js"

/**
 * A policy in an environment, from the first prompt to the last reward: within limits, by Effect's `Clock`, and
 * interruptible at every point.
 *
 * @since 0.1.0
 */
export * as Rollout from "./Rollout.js"

/**
 * A rollout as `RunLog` records it: what was said turn by turn, every token with what is known about it, and what came of
 * it. Of a long rollout the record has an upper bound, whatever its environment says.
 *
 * @since 0.1.0
 */
export * as RolloutRecord from "./RolloutRecord.js"

/**
 * Shapes of training data as people have it, each read as one of three kinds: chats, prompts with completions, preferences.
 *
 * A shape is recognized by the columns of a row. Where columns have other names, a mapping says which is which.
 *
 * @since 0.2.0
 */
export * as RowShape from "./RowShape.js"

/**
 * The configuration of a run: any Schema's value, printed, hashed, compared, and overridden from the command line with
 * `a.b=c`.
 *
 * @since 0.1.0
 */
export * as RunConfig from "./RunConfig.js"

/**
 * Entries of a run's journal: how the run began or was resumed, a step, a checkpoint, an evaluation, a note, how
 * it ended. `RunLog` writes and reads them.
 *
 * @since 0.1.0
 */
export * as RunEntry from "./RunEntry.js"

/**
 * The journal of a run: an append-only file in the run's directory that says what was configured, every step with its
 * metrics, every checkpoint *with the number of optimizer steps it contains*, evaluations, and how the run ended.
 *
 * - A line is written whole, in one go. A process that is killed leaves at most one torn line, which is removed when the
 *   journal is opened again.
 * - Running again resumes: a `Resumed` entry names the checkpoint, and readers leave out what was recorded after it. The
 *   file itself only grows, so that others can follow it.
 * - `journal.jsonl` holds the entries, `rollouts.jsonl` what was sampled, `cache.jsonl` what need not be computed twice,
 *   `config.json` the configuration to read, `.lock-*` names the process that writes.
 *
 * @since 0.1.0
 */
export * as RunLog from "./RunLog.js"

/**
 * Programs a model wrote, run where they can do no harm: files in, a command or a function, files out, within limits.
 *
 * This module is the interface. `NodeSandbox` has the layers: QuickJS in WebAssembly, bubblewrap on Linux, and any command
 * that puts another one into a container. `make` adapts a sandbox of another kind, such as a hosted one.
 *
 * A program may claim anything as its own result. Whether a result is right is decided outside, by comparing it with values
 * the program has never seen: tests that pass within the sandbox, or an exit code of 0, prove nothing.
 *
 * @since 0.2.0
 */
export * as Sandbox from "./Sandbox.js"

/**
 * Scorers of the shape `({ input, output, expected }) => { score }` with a score of 0 to 1, such as those of `autoevals`:
 * untouched, as rewards to train on and as measures to evaluate by.
 *
 * @since 0.1.0
 */
export * as Scorer from "./Scorer.js"

/**
 * Personal data and secrets in texts: addresses of mail, keys of services, numbers of cards and bank accounts.
 *
 * Cards and accounts are found by their check digits, keys by the forms that services give them. Names, addresses of people and
 * phone numbers have no such form and are not looked for: that nothing was found does not make a text harmless.
 *
 * @since 0.2.0
 */
export * as Sensitive from "./Sensitive.js"

/**
 * The uncertainty of a score, and whether one model is better than another on the same examples.
 *
 * Values of one cluster, such as several answers to one problem, are drawn together: they do not count as independent. All
 * draws follow from a seed.
 *
 * @since 0.2.0
 */
export * as Statistics from "./Statistics.js"

/**
 * Supervised fine-tuning: from a dataset to a better model.
 *
 * @since 0.1.0
 */
export * as Supervised from "./Supervised.js"

/**
 * Tools a model may call: their arguments are checked by a Schema, which also declares them to the model. Arguments that do
 * not fit, and failures of the tool, are the tool's answer: the model may try again.
 *
 * @since 0.1.0
 */
export * as Tool from "./Tool.js"

/**
 * Parts that all trainers share: the model they train, the steps they report, and how they fail.
 *
 * A run is a `Stream` of {@link StepReport}s. `Stream.runDrain` runs it, `Stream.take` cuts it short, and interruption ends
 * it; in the latter cases a checkpoint is saved and running again goes on from there.
 *
 * @since 0.1.0
 */
export * as Trainer from "./Trainer.js"

/**
 * Sampled turns as data: they become rows of tokens with logprobs, advantages and masks, token for token what the
 * sampler saw and drew. Everything here is a pure function over typed arrays.
 *
 * @since 0.1.0
 */
export * as Trajectory from "./Trajectory.js"
