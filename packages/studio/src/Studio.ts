/**
 * The studio: an HTTP application that shows the runs in a directory, live while they are written.
 *
 * Everything it serves needs the token it was started with; it answers to loopback names only, to no other web page, and
 * its own page may load nothing from anywhere else. It only reads, unless its context has more to offer: with a
 * {@link CheckpointChat} people can talk to a checkpoint beside its base model, with {@link Grades} they can grade answers that runs
 * wait for, and with a {@link DataCheck} they can look at training data.
 *
 * @since 0.1.0
 */
import * as Bytes from "@effect-tinker/platform/Bytes"
import * as HostGuard from "@effect-tinker/platform/HostGuard"
import * as Permits from "@effect-tinker/platform/Permits"
import * as ServerSentEvents from "@effect-tinker/platform/ServerSentEvents"
import * as Tokenizers from "@effect-tinker/tokenizer/Tokenizers"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerError from "@effect/platform/HttpServerError"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Path from "@effect/platform/Path"
import type * as CostLedger from "effect-tinker/CostLedger"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as PubSub from "effect/PubSub"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as CheckpointChat from "./CheckpointChat.js"
import * as DataCheck from "./DataCheck.js"
import * as Evaluations from "./Evaluations.js"
import * as Grades from "./Grades.js"
import * as RunDirectory from "./RunDirectory.js"
import type * as Series from "./Series.js"

// =============================================================================
// models
// =============================================================================

/**
 * The page: what the browser loads.
 *
 * @since 0.1.0
 * @category models
 */
export interface Page {
  readonly html: string
  readonly script: string
  readonly style: string
}

/**
 * Directory that a studio shows, and who may look.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** A run directory, or a directory that has some below it. */
  readonly directory: string
  readonly page: Page
  /** Who knows it may look. */
  readonly token: Redacted.Redacted
  /** How often files are looked at. Defaults to 1 second. */
  readonly every?: Duration.DurationInput | undefined
  /** Prices of a million tokens, to estimate what runs cost that do not record it. */
  readonly price?: CostLedger.Price | undefined
  /** Of the prices, as a code of three letters. Defaults to `USD`. */
  readonly currency?: string | undefined
}

/**
 * List of runs.
 *
 * @since 0.1.0
 * @category models
 */
export interface Runs {
  readonly directory: string
  readonly runs: ReadonlyArray<RunDirectory.Summary>
  /** Runs that were found and have not been read yet. */
  readonly loading: number
  /** Whether there is somebody to talk to. */
  readonly chat: boolean
  /** Answers that wait for a grade; `null` where grades cannot be given. */
  readonly grades: number | null
  /** Files of training data that can be checked; `null` where there is nothing to check them with. */
  readonly data: DataFiles | null
  /** Files of results that can be compared; `null` where there are none. */
  readonly evaluations: ReadonlyArray<string> | null
  /** Of the prices. */
  readonly currency: string
  readonly now: number
}

/**
 * Files that can be checked, and the model to begin with.
 *
 * @since 0.1.0
 * @category models
 */
export interface DataFiles {
  readonly files: ReadonlyArray<DataCheck.File>
  readonly model: string
}

/**
 * A route, and who may ask for it: the files of the page say nothing of the runs.
 *
 * @since 0.2.0
 * @category models
 */
export interface Access {
  readonly method: "GET" | "POST"
  readonly path: `/${string}`
  readonly who: "anyone" | "token"
}

/**
 * A studio at work.
 *
 * @since 0.1.0
 * @category models
 */
export interface Studio {
  readonly app: HttpApp.Default<never, Scope.Scope>
  /** The summaries of runs as they change. */
  readonly changes: Stream.Stream<RunDirectory.Summary>
  /** Looks at all files now. */
  readonly refresh: Effect.Effect<void>
  /** Routes, and who may ask for them. */
  readonly routes: ReadonlyArray<Access>
}

// =============================================================================
// runs
// =============================================================================

type Change =
  | { readonly _tag: "Run"; readonly summary: RunDirectory.Summary }
  | { readonly _tag: "Grades"; readonly waiting: number }

interface Known {
  readonly run: RunDirectory.Run
  loaded: boolean
}

const findEvery = 5_000

const makeRuns = Effect.fnUntraced(function*({ currency, directory, every = "1 second", price }: Options) {
  const grades = yield* Effect.serviceOption(Grades.Grades)
  const context = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const path = yield* Path.Path
  const known = new Map<string, Known>()
  const changed = yield* PubSub.sliding<Change>(1024)
  let lookedAt = -Infinity
  let ungraded = 0

  // A caller that comes while another one looks waits for it: what it asks for may be among what is found.
  const looking = yield* Permits.make(1)
  const look = looking.withPermits(1)(Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    if (now - lookedAt < findEvery) return
    lookedAt = now
    for (const place of yield* RunDirectory.find(directory)) {
      const id = place === "." ? path.basename(path.resolve(directory)) : place.split(path.sep).join("/")
      if (known.has(id)) continue
      const run = yield* RunDirectory.open(path.join(directory, place), id, { currency, price })
      if (Option.isSome(run)) known.set(id, { run: run.value, loaded: false })
    }
  }))

  const update = Effect.fnUntraced(function*(entry: Known) {
    const news = yield* entry.run.refresh
    if (!news && entry.loaded) return
    entry.loaded = true
    yield* PubSub.publish(changed, { _tag: "Run", summary: entry.run.summary(yield* Clock.currentTimeMillis) })
  })

  /** Grades that runs wait for, oldest first. */
  const waiting = Effect.fnUntraced(function*(service: Grades.Service) {
    const now = yield* Clock.currentTimeMillis
    const open = Array.from(known.values(), ({ run }) => run).filter((run) => run.summary(now).status !== "complete")
    const found = yield* Effect.forEach(
      open,
      (run) =>
        Effect.map(
          service.waiting(run.path),
          (questions) => questions.map((question): Grades.Waiting => ({ ...question, run: run.id }))
        ),
      { concurrency: 4 }
    )
    return found.flat().sort((a, b) => a.time - b.time)
  })

  const countUngraded = Effect.transposeMapOption(
    grades,
    (service) =>
      Effect.flatMap(waiting(service), ({ length }) => {
        if (length === ungraded) return Effect.void
        ungraded = length
        return PubSub.publish(changed, { _tag: "Grades", waiting: length })
      })
  )

  const one = yield* Permits.make(1)
  const refresh = one.withPermits(1)(Effect.zipRight(
    look,
    Effect.suspend(() => Effect.forEach(known.values(), update, { concurrency: 4, discard: true }))
  )).pipe(Effect.zipRight(countUngraded), Effect.asVoid, Effect.provide(context))

  yield* Effect.forkScoped(Effect.repeat(refresh, Schedule.spaced(every)))
  return {
    known,
    refresh,
    waiting,
    ungraded: () => ungraded,
    changes: Stream.fromPubSub(changed),
    /** A run that somebody asks for is read before the others. */
    get: Effect.fnUntraced(function*(id: string) {
      if (!known.has(id)) yield* look
      const entry = known.get(id)
      if (entry === undefined) return yield* new StudioNotFound({ what: `run ${id}` })
      if (!entry.loaded) yield* update(entry)
      return entry.run
    }, Effect.provide(context))
  }
})

// =============================================================================
// answers
// =============================================================================

class StudioNotFound
  extends Schema.TaggedError<StudioNotFound>("@effect-tinker/studio/Studio/StudioNotFound")("StudioNotFound", {
    what: Schema.String
  })
{}

const headers = {
  "cache-control": "no-store",
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY"
}

const json = (body: unknown, status = 200) => HttpServerResponse.unsafeJson(body, { status })

const refuse = (status: number, message: string) => json({ message }, status)

const wordsOf = (request: HttpServerRequest.HttpServerRequest): URLSearchParams => {
  const at = request.url.indexOf("?")
  return new URLSearchParams(at < 0 ? "" : request.url.slice(at + 1))
}

const isOurs = HostGuard.make()

/** Host and Origin, before anything else is looked at. */
const guard = (
  app: HttpApp.Default<never, Scope.Scope>
): HttpApp.Default<never, Scope.Scope> =>
  Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const host = request.headers["host"] ?? ""
    if (!Option.exists(HostGuard.nameOf(host), isOurs)) return refuse(403, "Unknown host name")
    const origin = request.headers["origin"]
    if (origin !== undefined && origin !== `http://${host}`) return refuse(403, "Other web pages may not ask")
    const site = request.headers["sec-fetch-site"]
    if (site !== undefined && site !== "same-origin" && site !== "none" && request.method !== "GET") {
      return refuse(403, "Other web pages may not ask")
    }
    return yield* app
  }).pipe(Effect.map(HttpServerResponse.setHeaders(headers)))

const unknown = HttpServerResponse.unsafeJson({
  message: "Open the address that `tinker studio` printed: it has the key in it."
}, { status: 401 })

/**
 * Routes that need the token, which is sent in a header: a cookie would go to every port of this machine.
 */
const authorized = (token: Redacted.Redacted) => {
  const secret = Redacted.value(token)
  return <E, R>(handler: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
      const presented = /^Bearer (.+)$/i.exec(request.headers["authorization"] ?? "")?.[1]
      return presented !== undefined && Bytes.equalSecrets(presented, secret) ? handler : Effect.succeed(unknown)
    })
}

const axes: ReadonlyArray<Series.Axis> = ["step", "tokens", "time"]

const numberIn = (words: URLSearchParams, name: string): number | undefined => {
  const text = words.get(name)
  const value = text === null || text === "" ? NaN : Number(text)
  return Number.isFinite(value) ? value : undefined
}

const maxPoints = 4_000
const maxMetrics = 64
const maxQuestions = 1_000
const maxBody = 1024 * 1024
/** Pages that hear of changes at the same time. */
const maxListeners = 64
const encoder = new TextEncoder()

const paramOf = (name: string) => Effect.map(HttpRouter.RouteContext, ({ params }) => params[name] ?? "")

/**
 * Starts to read the runs in a directory, until the scope closes, and yields the application that shows them.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (
  options: Options
) => Effect.Effect<Studio, never, FileSystem.FileSystem | Path.Path | Scope.Scope> = Effect.fnUntraced(
  function*(options) {
    const fs = yield* FileSystem.FileSystem
    const runs = yield* makeRuns(options)
    const talk = yield* Effect.serviceOption(CheckpointChat.CheckpointChat)
    const grades = yield* Effect.serviceOption(Grades.Grades)
    const data = yield* Effect.serviceOption(DataCheck.DataCheck)
    const evaluations = yield* Effect.serviceOption(Evaluations.Evaluations)
    const tokenizers = yield* Effect.serviceOption(Tokenizers.Tokenizers)
    const run = Effect.flatMap(paramOf("run"), runs.get)
    const request = HttpServerRequest.HttpServerRequest
    const withFiles = Effect.provideService(FileSystem.FileSystem, fs)

    /** Texts of the tokens of a run; nothing where its tokenizer is not at hand. */
    const tokenizerOf = (model: string) =>
      Option.match(tokenizers, {
        onNone: () => Effect.succeedNone,
        onSome: (service) => Effect.option(service.forModel(model))
      })

    const list = Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      const entries = Array.from(runs.known.values())
      const answer: Runs = {
        directory: options.directory,
        runs: entries.filter(({ loaded }) => loaded).map((entry) => entry.run.summary(now)),
        loading: entries.filter(({ loaded }) => !loaded).length,
        chat: Option.isSome(talk),
        grades: Option.isSome(grades) ? runs.ungraded() : null,
        data: Option.getOrNull(Option.map(data, ({ files, model }) => ({ files, model }))),
        evaluations: Option.getOrNull(Option.map(evaluations, ({ files }) => files)),
        currency: options.currency ?? "USD",
        now
      }
      return json(answer)
    })

    const detail = Effect.gen(function*() {
      const found = yield* run
      yield* found.rollouts.refresh
      return json(found.detail(yield* Clock.currentTimeMillis))
    })

    const series = Effect.gen(function*() {
      const { table } = yield* run
      const words = wordsOf(yield* request)
      const axis = axes.find((known) => known === words.get("x"))
      const window: Series.Window = {
        axis,
        from: numberIn(words, "from"),
        to: numberIn(words, "to"),
        points: Math.min(maxPoints, numberIn(words, "points") ?? 1000),
        smoothing: numberIn(words, "smooth")
      }
      const names = words.getAll("metric").slice(0, maxMetrics)
      return json(Object.fromEntries(names.flatMap((name) => {
        const points = table.points(name, window)
        return points === undefined ? [] : [[name, points]]
      })))
    })

    const steps = Effect.gen(function*() {
      const { rollouts } = yield* run
      yield* rollouts.refresh
      return json(rollouts.steps())
    })

    const stepOf = Effect.map(paramOf("step"), Number)

    const splitOf = Effect.map(request, (it) => wordsOf(it).get("split") ?? "train")

    const ofStep = Effect.gen(function*() {
      const { rollouts } = yield* run
      return json(yield* rollouts.list(yield* stepOf, yield* splitOf))
    })

    const rollout = Effect.gen(function*() {
      const found = yield* run
      const tokenizer = yield* tokenizerOf(found.summary(0).model)
      const index = Number(yield* paramOf("index"))
      return json(yield* found.rollouts.read(yield* stepOf, yield* splitOf, index, tokenizer))
    })

    const search = Effect.gen(function*() {
      const { rollouts } = yield* run
      const text = wordsOf(yield* request).get("q") ?? ""
      if (text.trim().length < 2) return refuse(400, "Give at least two letters to search for")
      yield* rollouts.refresh
      return json(yield* rollouts.search(text.slice(0, 200), 100))
    })

    // Encoded once for all who listen, and kept once: one that does not read misses the oldest.
    const lines = yield* PubSub.sliding<Uint8Array>(1024)
    const tell = (line: string) => PubSub.publish(lines, encoder.encode(line))
    yield* runs.changes.pipe(
      Stream.runForEach((change) =>
        tell(
          change._tag === "Run"
            ? ServerSentEvents.named("run", change.summary)
            : ServerSentEvents.named("grades", change.waiting)
        )
      ),
      Effect.forkScoped
    )
    // Now and again, so that a connection that is gone is noticed.
    yield* Effect.forkScoped(Effect.forever(Effect.delay(tell(": still here\n\n"), "15 seconds")))
    const connected = encoder.encode(": connected\n\n")
    let listeners = 0
    const listening = Effect.acquireRelease(
      Effect.sync(() => listeners++),
      () => Effect.sync(() => listeners--)
    )
    const events = Effect.sync(() =>
      listeners >= maxListeners
        ? refuse(503, `${maxListeners} pages listen to this studio already: close one`)
        : HttpServerResponse.stream(
          // A line at once, because nothing is sent before the first one.
          Stream.unwrapScoped(
            Effect.zipRight(
              listening,
              Effect.map(PubSub.subscribe(lines), (queue) =>
                Stream.concat(Stream.make(connected), Stream.fromQueue(queue)))
            )
          ),
          { contentType: ServerSentEvents.contentType }
        )
    )

    /** Answers what was posted, where it is small enough and what it should be. */
    const posted = <A, I, E>(schema: Schema.Schema<A, I>, answer: (body: A) => Effect.Effect<unknown, E>) =>
      Effect.gen(function*() {
        const length = Number((yield* request).headers["content-length"] ?? NaN)
        if (!(length <= maxBody)) return refuse(413, "A request may have at most 1 MiB")
        return json(yield* answer(yield* HttpServerRequest.schemaBodyJson(schema)))
      }).pipe(
        Effect.catchIf(
          (error): error is ParseResult.ParseError | HttpServerError.RequestError =>
            ParseResult.isParseError(error) || HttpServerError.isServerError(error),
          (error) => Effect.succeed(refuse(400, error.message))
        )
      )

    /** Answer that needs a service of the context, or why there is none. */
    const needs = <S, E, R>(
      service: Option.Option<S>,
      without: string,
      answer: (service: S) => Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
    ): Effect.Effect<HttpServerResponse.HttpServerResponse, E, R> =>
      Option.isNone(service) ? Effect.succeed(refuse(501, without)) : answer(service.value)

    const chat = needs(
      talk,
      "Start the studio with a connection to talk to models",
      ({ ask }) => posted(CheckpointChat.Question, ask)
    )

    const noGrades = "This studio cannot take grades"

    const ungraded = needs(
      grades,
      noGrades,
      (service) => Effect.map(runs.waiting(service), (waiting) => json(waiting.slice(0, maxQuestions)))
    )

    const grade = needs(
      grades,
      noGrades,
      ({ give }) =>
        posted(
          Grades.Grade,
          ({ grade, key, run }) =>
            Effect.flatMap(runs.get(run), ({ path }) => Effect.as(give(path, key, grade), { grade }))
        )
    )

    // One at a time: a large file keeps a core busy.
    const checking = yield* Permits.make(1)
    const check = needs(
      data,
      "This studio cannot check training data",
      (service) => posted(DataCheck.Request, (body) => checking.withPermits(1)(service.check(body)))
    )

    const compare = needs(
      evaluations,
      "This studio has no evaluations",
      (service) => posted(Evaluations.Request, (body) => checking.withPermits(1)(service.compare(body)))
    )

    const file = (text: string, contentType: string) => Effect.succeed(HttpServerResponse.text(text, { contentType }))

    const withToken = authorized(options.token)
    const route = <E, R>(
      who: Access["who"],
      method: Access["method"],
      path: Access["path"],
      handler: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
    ) => ({
      access: { who, method, path } satisfies Access,
      handled: HttpRouter.makeRoute(
        method,
        path,
        who === "token" ? withToken(handler) : Effect.zipRight(HttpServerRequest.HttpServerRequest, handler)
      )
    })
    const routes = [
      route("anyone", "GET", "/", file(options.page.html, "text/html; charset=utf-8")),
      route("anyone", "GET", "/studio.js", file(options.page.script, "text/javascript; charset=utf-8")),
      route("anyone", "GET", "/studio.css", file(options.page.style, "text/css; charset=utf-8")),
      route("token", "GET", "/api/runs", list),
      route("token", "GET", "/api/events", events),
      route("token", "GET", "/api/runs/:run", detail),
      route("token", "GET", "/api/runs/:run/series", series),
      route("token", "GET", "/api/runs/:run/rollouts", steps),
      route("token", "GET", "/api/runs/:run/rollouts/:step", ofStep),
      route("token", "GET", "/api/runs/:run/rollouts/:step/:index", rollout),
      route("token", "GET", "/api/runs/:run/search", search),
      route("token", "POST", "/api/chat", chat),
      route("token", "GET", "/api/grades", ungraded),
      route("token", "POST", "/api/grades", grade),
      route("token", "POST", "/api/data", check),
      route("token", "POST", "/api/evaluations", compare)
    ]
    const router = HttpRouter.fromIterable(routes.map(({ handled }) => handled))

    const changes = Stream.filterMap(
      runs.changes,
      (change) => change._tag === "Run" ? Option.some(change.summary) : Option.none()
    )
    const unreadable = (error: PlatformError.PlatformError) => refuse(503, error.message)
    const app = router.pipe(
      Effect.catchTags({
        ChatFailed: (error) => Effect.succeed(refuse(502, error.message)),
        GradeRefused: (error) => Effect.succeed(refuse(409, error.message)),
        CheckFailed: (error) => Effect.succeed(refuse(422, error.message)),
        CompareFailed: (error) => Effect.succeed(refuse(422, error.message)),
        StudioNotFound: ({ what }) => Effect.succeed(refuse(404, `There is no ${what}`)),
        RolloutNotFound: (error) => Effect.succeed(refuse(404, error.message)),
        RouteNotFound: () => Effect.succeed(refuse(404, "There is no such page")),
        BadArgument: (error) => Effect.succeed(unreadable(error)),
        SystemError: (error) => Effect.succeed(unreadable(error))
      }),
      withFiles
    )
    return {
      app: Effect.interruptible(guard(app)),
      changes,
      refresh: runs.refresh,
      routes: routes.map(({ access }) => access)
    }
  }
)
