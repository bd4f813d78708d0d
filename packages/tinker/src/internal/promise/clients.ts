/**
 * The clients of plain async code, each call a Promise.
 *
 * @since 0.1.0
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Datum from "../../Datum.js"
import type * as Api from "../../Promise.js"
import type * as RestClient from "../../RestClient.js"
import type * as SamplingClient from "../../SamplingClient.js"
import * as TinkerError from "../../TinkerError.js"
import type * as TinkerFuture from "../../TinkerFuture.js"
import type * as TrainingClient from "../../TrainingClient.js"
import * as PromiseRunner from "./runner.js"
import type { CallOptions, OperationOptions, Runner } from "./runner.js"

const dataOf = <Inputs extends string>(
  data: ReadonlyArray<Api.DatumInput<Inputs>>
): Either.Either<ReadonlyArray<Datum.With<Inputs>>, TinkerError.InvalidInput> =>
  Either.all(data.map((datum) => Datum.isDatum(datum) ? Either.right(datum) : Datum.make(datum)))

const instant = (method: string, date: Date): Either.Either<DateTime.Utc, TinkerError.InvalidInput> =>
  Either.fromOption(
    Option.map(DateTime.make(date), DateTime.toUtc),
    () => new TinkerError.InvalidInput({ module: "RestClient", method, description: "not a date" })
  )

/** Options of the Effect behind a call: those given, without the Promise API's own. */
const without = <Options extends CallOptions>(options: Options | undefined): Omit<Options, "signal" | "onEvent"> => {
  const given: Options & { readonly onEvent?: unknown } = options ?? Object.create(null)
  const { onEvent: _onEvent, signal: _signal, ...rest } = given
  return rest
}

/** @internal */
export interface Scoped {
  readonly runner: Runner
  /** Of the connection. */
  readonly scope: Scope.Scope
  /** Of the models in training, for when the connection closes. */
  readonly unobserved: Set<PromiseRunner.Unobserved>
}

/**
 * A client in a child scope, which closes with the client or with the connection.
 *
 * @internal
 */
export const open = <Client, A>(
  { runner, scope: parent }: Scoped,
  make: Effect.Effect<Client, TinkerError.TinkerError, Scope.Scope>,
  wrap: (client: Client, closing: Api.Closing) => A,
  options?: CallOptions
): Promise<A> =>
  runner.run(
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(Scope.fork(parent, ExecutionStrategy.sequential), (scope) => {
        // Like the connection's: it may be called again, and after the connection has closed.
        const close = () => runner.release(Scope.close(scope, Exit.void))
        return restore(Scope.extend(make, scope)).pipe(
          Effect.onExit((exit) => Exit.isSuccess(exit) ? Effect.void : Scope.close(scope, exit)),
          Effect.map((client) => wrap(client, { close, [Symbol.asyncDispose]: close }))
        )
      })
    ),
    options
  )

/** @internal */
export const sampler = ({ runner }: Scoped) => (client: SamplingClient.Service, closing: Api.Closing): Api.Sampler => {
  return {
    ...closing,
    samplingSessionId: client.samplingSessionId,
    handle: client.handle,
    sample: (options) => runner.run(Effect.suspend(() => client.sample(without(options))), options),
    computeLogprobs: (prompt, options) =>
      runner.run(Effect.suspend(() => client.computeLogprobs(prompt, without(options))), options),
    sampleMany: (requests, options) => {
      const given = Symbol.asyncIterator in requests
        ? Stream.fromAsyncIterable(requests, (error) => error)
        : Stream.fromIterable(requests)
      return runner.iterate(
        Stream.map(
          client.sampleMany(given, without(options)),
          ({ index, request, result }) => ({
            index,
            request,
            response: Option.getOrUndefined(Either.getRight(result)),
            error: Option.getOrUndefined(Either.getLeft(result))
          })
        ),
        options
      )
    },
    events: (options) => runner.iterate(client.events, options),
    baseModel: (options) => runner.run(client.baseModel, options)
  }
}

const lossOf = (loss: Api.OwnLoss) => (...args: Parameters<Api.OwnLoss>) => {
  const outcome = loss(...args)
  return Predicate.isPromise(outcome)
    ? Effect.tryPromise({ try: () => outcome, catch: (error) => error })
    : outcome
}

/** @internal */
export const training = (scoped: Scoped) => (client: TrainingClient.Service, closing: Api.Closing): Api.Training => {
  const { run } = scoped.runner
  const unobserved = PromiseRunner.makeUnobserved(scoped.runner, client.modelId)
  scoped.unobserved.add(unobserved)
  const operation = <A, E>(
    method: string,
    submission: Effect.Effect<TinkerFuture.TinkerFuture<A>, E>,
    options?: OperationOptions
  ) => unobserved.watch(method, () => scoped.runner.operation(submission, options), options)
  const save = <A, E>(
    method: string,
    submission: Effect.Effect<TinkerFuture.TinkerFuture<A>, E>,
    options?: OperationOptions
  ) => unobserved.barrier(method, () => scoped.runner.operation(submission, options), options)
  const opened = (
    method: string,
    make: Effect.Effect<SamplingClient.Service, TinkerError.TinkerError, Scope.Scope>,
    options?: CallOptions
  ) =>
    unobserved.barrier(method, () => open(scoped, make, sampler(scoped), options), {
      signal: options?.signal,
      discard: (sampler) => sampler.close()
    })
  const close = async () => {
    await unobserved.settle()
    scoped.unobserved.delete(unobserved)
    await closing.close()
    unobserved.raise("close")
  }
  const on = <Inputs extends string, A, E>(
    data: ReadonlyArray<Api.DatumInput<Inputs>>,
    run: (data: ReadonlyArray<Datum.With<Inputs>>) => Effect.Effect<A, E>
  ) => Effect.suspend(() => Effect.flatMap(dataOf(data), run))
  return {
    close,
    [Symbol.asyncDispose]: close,
    modelId: client.modelId,
    forward: (data, lossFn, options) =>
      operation("forward", on(data, (data) => client.forward(data, lossFn, options?.lossFnConfig)), options),
    forwardBackward: (data, lossFn, options) =>
      operation(
        "forwardBackward",
        on(data, (data) => client.forwardBackward(data, lossFn, options?.lossFnConfig)),
        options
      ),
    forwardBackwardCustom: (data, loss, options) =>
      operation(
        "forwardBackwardCustom",
        on(data, (data) => client.forwardBackwardCustom(data, lossOf(loss))),
        options
      ),
    optimStep: (params, options) => operation("optimStep", client.optimStep(params), options),
    trainStep: (data, loss, params, options) =>
      operation("trainStep", on(data, (data) => client.trainStep(data, loss, params)), options),
    saveState: (name, options) => save("saveState", client.saveState(name, without(options)), options),
    loadState: (path, options) => {
      const { withOptimizer, ...access } = without(options)
      const load = withOptimizer === true ? client.loadStateWithOptimizer : client.loadState
      return operation("loadState", load(path, access), options)
    },
    saveWeightsForSampler: (name, options) =>
      save("saveWeightsForSampler", client.saveWeightsForSampler(name, without(options)), options),
    saveWeightsExternal: (name, options) =>
      save("saveWeightsExternal", client.saveWeightsExternal(name, without(options)), options),
    saveWeightsAndGetSamplingClient: (options) =>
      opened(
        "saveWeightsAndGetSamplingClient",
        client.saveWeightsAndGetSamplingClient(without(options)),
        options
      ),
    createSamplingClient: (path, options) =>
      opened("createSamplingClient", client.createSamplingClient(path, without(options)), options),
    getInfo: (options) => run(client.getInfo, options),
    tokenizerId: (options) => run(client.tokenizerId, options)
  }
}

/** @internal */
export const rest = ({ iterate, run }: Runner, client: RestClient.Service): Api.Rest => ({
  getTrainingRun: (id, options) => run(client.getTrainingRun(id, without(options)), options),
  getTrainingRunByPath: (path, options) => run(client.getTrainingRunByPath(path, without(options)), options),
  listTrainingRuns: (options) => run(client.listTrainingRuns(without(options)), options),
  trainingRuns: (options) => iterate(client.streamTrainingRuns(without(options)), options),
  getWeightsInfo: (path, options) => run(client.getWeightsInfo(path), options),
  listCheckpoints: (runId, options) => run(client.listCheckpoints(runId), options),
  getCheckpoint: (path, options) => run(client.getCheckpoint(path), options),
  listUserCheckpoints: (options) => run(client.listUserCheckpoints(without(options)), options),
  userCheckpoints: (options) => iterate(client.streamUserCheckpoints(without(options)), options),
  getCheckpointArchiveUrl: (path, options) => run(client.getCheckpointArchiveUrl(path), options),
  getExternalWeightsUrls: (path, options) => run(client.getExternalWeightsUrls(path), options),
  deleteCheckpoint: (path, options) => run(client.deleteCheckpoint(path), options),
  publishCheckpoint: (path, options) => run(client.publishCheckpoint(path), options),
  unpublishCheckpoint: (path, options) => run(client.unpublishCheckpoint(path), options),
  setCheckpointTtl: (path, ttl, options) => run(client.setCheckpointTtl(path, ttl), options),
  copyWeights: (path, options) => run(client.copyWeights(path, without(options)), options),
  getSession: (id, options) => run(client.getSession(id, without(options)), options),
  listSessions: (options) => run(client.listSessions(without(options)), options),
  sessions: (options) => iterate(client.streamSessions(without(options)), options),
  sessionSearch: (request, options) => iterate(client.streamSessionSearch(request), options),
  assignSessionProject: (id, project, options) => run(client.assignSessionProject(id, project), options),
  exportSessionTrace: (id, options) => run(client.exportSessionTrace(id, without(options)), options),
  getSampler: (id, options) => run(client.getSampler(id), options),
  getAuditLog: (options) => {
    const { day, ...others } = without(options)
    return run(
      day === undefined
        ? client.getAuditLog(others)
        : Effect.flatMap(instant("getAuditLog", day), (day) => client.getAuditLog({ ...others, day })),
      options
    )
  },
  getBillingUsage: (window, options) =>
    run(
      Effect.flatMap(
        Either.all({
          startingOn: instant("getBillingUsage", window.startingOn),
          endingBefore: instant("getBillingUsage", window.endingBefore)
        }),
        client.getBillingUsage
      ),
      options
    ),
  getCheckpointStorageUsage: (options) => run(client.getCheckpointStorageUsage(without(options)), options),
  whoami: (options) => run(client.whoami, options),
  getApiKey: (options) => run(client.getApiKey, options),
  deleteApiKey: (options) => run(client.deleteApiKey, options),
  getServerCapabilities: (options) => run(client.getServerCapabilities, options)
})
